//go:build !unix

package beneath

import "io/fs"

// Links is 1: artifacts are collected on unix only.
func Links(fs.FileInfo) uint64 { return 1 }
