// Package opening opens directories below those that user code may write to. No link is followed, and what is opened is what
// was looked at, whoever swaps it meanwhile.
package opening

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"kruntimes.io/kruntimes/artifacts/beneath"
)

// ownerRights are what the owner of a directory needs to work in it.
const ownerRights = 0o700

// ErrNoDirectory tells that what lies under the name is there, and no directory: a link, a file, a pipe.
var ErrNoDirectory = errors.New("it is no directory")

// MakeDirectories opens the directory at the names below root, and makes those that are not there, mode 0755. The caller
// closes what it gets, unless there are no names: then it is root itself.
func MakeDirectories(root *os.Root, names ...string) (*os.Root, error) {
	return descend(root, names, makeDirectory)
}

// Directories opens the directory at the names below root. The caller closes what it gets, unless there are no names: then
// it is root itself.
func Directories(root *os.Root, names ...string) (*os.Root, error) {
	return descend(root, names)
}

// MakeOwnDirectories is MakeDirectories for directories that belong to us and not to user code: where user code has taken
// rights on one of them from their owner, these are given back.
func MakeOwnDirectories(root *os.Root, names ...string) (*os.Root, error) {
	return descend(root, names, makeDirectory, giveRights)
}

// OwnDirectories is Directories for directories that belong to us, as for MakeOwnDirectories.
func OwnDirectories(root *os.Root, names ...string) (*os.Root, error) {
	return descend(root, names, giveRights)
}

// preparation is what is done about a name before the directory there is opened.
type preparation func(in *os.Root, name string) error

func makeDirectory(in *os.Root, name string) error {
	if err := in.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// giveRights gives the owner of a directory all rights on it. Where that is not allowed, opening it tells what is wrong.
func giveRights(in *os.Root, name string) error {
	info, err := in.Lstat(name)
	if err == nil && info.IsDir() && info.Mode()&ownerRights != ownerRights {
		_ = in.Chmod(name, info.Mode()|ownerRights)
	}
	return nil
}

// descend opens one directory after the other. None may be a link, lest one that user code has put there leads to another
// place.
func descend(root *os.Root, names []string, before ...preparation) (*os.Root, error) {
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

func step(in *os.Root, name string, before []preparation) (*os.Root, error) {
	for _, prepare := range before {
		if err := prepare(in, name); err != nil {
			return nil, err
		}
	}
	below, err := beneath.Directory(in, name)
	var other *beneath.KindError
	if errors.As(err, &other) {
		return nil, fmt.Errorf("%w, but %s: remove it", ErrNoDirectory, beneath.Kind(other.Mode))
	}
	return below, err
}
