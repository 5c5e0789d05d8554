package main

import (
	"fmt"
	"slices"
	"strings"
)

// pkg is what "go list" tells of a package.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// check returns a line for each import of p that the table does not allow, sorted.
func check(p pkg) []string {
	from := folderOf(p.ImportPath)
	if placeOf(from) < 0 {
		return []string{p.ImportPath + ": no room holds this folder; give it a place in hack/rooms/table.go"}
	}
	var bad []string
	for _, imported := range p.Imports {
		if why := refuse(from, imported, false); why != "" {
			bad = append(bad, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imported, why))
		}
	}
	for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
		if why := refuse(from, imported, true); why != "" {
			bad = append(bad, fmt.Sprintf("a test of %s imports %s: %s", p.ImportPath, imported, why))
		}
	}
	slices.Sort(bad)
	return slices.Compact(bad)
}

// folderOf returns the folder of a package of the module, from its root.
func folderOf(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// refuse says why the package in folder from may not import the package imported, or "" when it may.
// Test files may also import the suites' harness and the embedded manifests.
func refuse(from, imported string, inTest bool) string {
	r := rooms[placeOf(from)]
	if !strings.HasPrefix(imported, module+"/") {
		return refuseForeign(r, imported)
	}
	to := folderOf(imported)
	if from == to || inTest && r.only == nil && underAny(to, []string{"test", "config"}) {
		return ""
	}
	if isPlugin(from) && !inTest && !underAny(to, []string{"apis", "scheduler/framework", pluginOf(from)}) {
		return "a scheduler plugin imports scheduler/framework and apis only"
	}
	return refuseRoom(from, to)
}

// refuseForeign does what refuse does for a package of another module, or of the standard library.
func refuseForeign(r room, imported string) string {
	for _, prefix := range r.foreign {
		if strings.HasPrefix(imported, prefix) {
			return r.path + " must not know " + strings.TrimSuffix(prefix, "/")
		}
	}
	return ""
}

// refuseRoom says why the room of folder from may not import folder to, or "" when it may.
func refuseRoom(from, to string) string {
	here, there := placeOf(from), placeOf(to)
	r := rooms[here]
	switch {
	case there < 0:
		return "no room holds this folder"
	case under(to, "cmd"):
		return "nothing imports cmd"
	case here == there:
		return ""
	case r.only != nil && !underAny(to, r.only):
		return r.path + " imports nothing of ours but " + fmt.Sprint(r.only)
	case underAny(to, r.never):
		return r.path + " must not know " + rooms[there].path
	case there > here && !underAny(to, r.also):
		return rooms[there].path + " stands below " + r.path
	case there < here && rooms[there].readers != nil && !underAny(from, rooms[there].readers):
		return rooms[there].path + " is for " + strings.Join(rooms[there].readers, ", ") + " and tests"
	}
	return ""
}

// isPlugin tells whether folder is a scheduler plugin or lies in one.
func isPlugin(folder string) bool { return strings.HasPrefix(folder, pluginRoot) }

// pluginOf returns the folder of the plugin that holds folder.
func pluginOf(folder string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(folder, pluginRoot), "/")
	return pluginRoot + name
}
