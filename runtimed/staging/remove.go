package staging

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// maxLoosenDepth bounds how deep directories without permissions are opened up. Every level costs a file descriptor.
const maxLoosenDepth = 256

// asidePrefix starts the names of what was set aside. No execution has such a name.
const asidePrefix = ".removed-"

// SetAside renames what lies in the volume under name, so that it can be removed while an execution of that name begins.
// It returns the new name.
func (a *Area) SetAside(name string) (string, error) {
	if strings.HasPrefix(name, asidePrefix) {
		return name, nil
	}
	aside := asidePrefix + string(uuid.NewUUID())
	if err := a.root.Rename(name, aside); err != nil {
		return "", fmt.Errorf("setting %s aside: %w", name, err)
	}
	return aside, nil
}

// Remove removes the directory of execution id and all that is in it. One that is not there is no error. Directories
// to which the script denied itself access are opened up first.
func (a *Area) Remove(id string) error {
	err := a.root.RemoveAll(id)
	if err == nil {
		return nil
	}
	if loosenErr := loosen(a.root, id, maxLoosenDepth); loosenErr != nil {
		return fmt.Errorf("removing execution %s: %w", id, errors.Join(err, loosenErr))
	}
	if err := a.root.RemoveAll(id); err != nil {
		return fmt.Errorf("removing execution %s: %w", id, err)
	}
	return nil
}

// loosen gives the owner all rights on name, where that is a directory, and on every directory below.
func loosen(parent *os.Root, name string, depth int) error {
	info, err := parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.IsDir() {
		return err
	}
	if depth == 0 {
		return fmt.Errorf("more than %d directories inside each other", maxLoosenDepth)
	}
	if err := parent.Chmod(name, 0o700); err != nil {
		return err
	}
	below, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(below.FS(), ".")
	for _, e := range entries {
		if err == nil && e.IsDir() {
			err = loosen(below, e.Name(), depth-1)
		}
	}
	return errors.Join(err, below.Close())
}
