package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"kruntimes.io/kruntimes/runtimed/opening"
)

// merge moves what lies in one directory into another one on the same file system.
type merge struct{ from, into *os.Root }

// check finds out whether move can do it, and changes nothing. at is the path that is meant by to, for messages.
func (m merge) check(name, to, at string) error {
	source, err := m.from.Lstat(name)
	if err != nil {
		return err
	}
	target, err := exists(m.into, to)
	switch {
	case err != nil:
		return err
	case target == nil, source.Mode().IsRegular() && target.Mode().IsRegular():
		return nil
	case !source.IsDir() || !target.IsDir():
		return fmt.Errorf("%q is in the way: it is %s", at, kindOf(target.Mode()))
	}
	return m.below(name, to, func(below merge, entry string) error { return below.check(entry, entry, at+"/"+entry) })
}

// move gives what lies under name the name to: in one step where nothing but a regular file is there.
func (m merge) move(name, to string) error {
	source, err := m.from.Lstat(name)
	if err != nil {
		return err
	}
	target, err := exists(m.into, to)
	if err != nil {
		return err
	}
	if target == nil || !source.IsDir() {
		return rename(m.from, name, m.into, to)
	}
	err = m.below(name, to, func(below merge, entry string) error { return below.move(entry, entry) })
	if err != nil {
		return err
	}
	return m.from.Remove(name)
}

// below does something with every entry of the directory name, whose counterpart is the directory to.
func (m merge) below(name, to string, do func(below merge, entry string) error) (err error) {
	from, err := opening.Directories(m.from, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := from.Chmod(".", 0o700); err != nil { // what is in it leaves it, whatever its mode
		return err
	}
	into, err := opening.Directories(m.into, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	entries, err := fs.ReadDir(from.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := do(merge{from: from, into: into}, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// rename moves between two directories that are open, so that no link can redirect it on the way. Where a file is moved,
// it replaces one that is there, or a link, in one step; a directory replaces nothing but an empty one.
func rename(from *os.Root, name string, into *os.Root, to string) (err error) {
	source, err := from.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := into.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := unix.Renameat(int(source.Fd()), name, int(target.Fd()), to); err != nil {
		return &os.LinkError{Op: "renameat", Old: name, New: to, Err: err}
	}
	return nil
}

// kindOf names what lies in the way.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}
