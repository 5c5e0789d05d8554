// Package beneath opens what lies in a directory that somebody else may write to: never through a link, never waiting, and
// only what was looked at, whoever swaps it meanwhile.
package beneath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrReplaced tells that something else lay under a name when it was opened.
var ErrReplaced = errors.New("was replaced while it was opened")

// KindError tells that something else lies under a name than was asked for.
type KindError struct {
	// Mode is the type of what lies there.
	Mode fs.FileMode
}

// Error says what it is.
func (e *KindError) Error() string { return "is " + Kind(e.Mode) }

// Kind says in words what a mode is that of.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return fmt.Sprintf("neither a file nor a directory (%s)", mode.Type())
}

// Directory opens the directory name, which lies in the directory in. Errors: KindError, ErrReplaced.
func Directory(in *os.Root, name string) (*os.Root, error) {
	before, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, &KindError{Mode: before.Mode()}
	}
	below, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := below.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = ErrReplaced
	}
	if err != nil {
		return nil, errors.Join(err, below.Close())
	}
	return below, nil
}

// File opens the regular file name, which lies in the directory in, for reading. Errors: KindError, ErrReplaced.
func File(in *os.Root, name string) (*os.File, fs.FileInfo, error) {
	before, err := in.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, nil, &KindError{Mode: before.Mode()}
	}
	f, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = ErrReplaced
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, after, nil
}
