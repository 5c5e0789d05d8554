// Package version says which build of kruntimes a binary is.
package version

import "runtime/debug"

// version is set by the linker; see hack/make/build.mk.
var version = ""

// String returns the version that the binary was built as: a tag or commit, or what the go command recorded, or
// "devel" where there is neither.
func String() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
