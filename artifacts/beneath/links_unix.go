//go:build unix

package beneath

import (
	"io/fs"
	"syscall"
)

// Links is how many names a file has.
func Links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink) //nolint:unconvert // narrower on other architectures
	}
	return 1
}
