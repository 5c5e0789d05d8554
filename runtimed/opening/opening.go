// Package opening opens directories below those that user code may write to. No link is followed, and what is opened is what
// was looked at, whoever swaps it meanwhile.
package opening

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// errReplaced tells that something else lay under the name when it was opened.
var errReplaced = errors.New("it was replaced while it was opened")

// MakeDirectories opens the directory at the names below root, and makes those that are not there, mode 0755. The caller
// closes what it gets, unless there are no names: then it is root itself.
func MakeDirectories(root *os.Root, names ...string) (*os.Root, error) {
	return descend(root, names, func(in *os.Root, name string) error {
		if err := in.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

// Directories opens the directory at the names below root. The caller closes what it gets, unless there are no names: then
// it is root itself.
func Directories(root *os.Root, names ...string) (*os.Root, error) {
	return descend(root, names, func(*os.Root, string) error { return nil })
}

// descend opens one directory after the other. None may be a link, lest one that user code has put there leads to another
// place.
func descend(root *os.Root, names []string, before func(in *os.Root, name string) error) (*os.Root, error) {
	in := root
	for i, name := range names {
		below, err := step(in, name, before)
		if in != root {
			err = errors.Join(err, in.Close())
		}
		if err != nil {
			if below != nil {
				_ = below.Close() // the first error counts
			}
			return nil, fmt.Errorf("%s: %w", path.Join(names[:i+1]...), err)
		}
		in = below
	}
	return in, nil
}

func step(in *os.Root, name string, before func(in *os.Root, name string) error) (*os.Root, error) {
	if err := before(in, name); err != nil {
		return nil, err
	}
	info, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("it is no directory (%s): remove it", info.Mode().Type())
	}
	below, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := below.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = errReplaced
	}
	if err != nil {
		return nil, errors.Join(err, below.Close())
	}
	return below, nil
}

// Links is how many names a file has.
func Links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink) //nolint:unconvert // narrower on other architectures
	}
	return 1
}
