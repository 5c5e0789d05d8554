// Package removal removes what user code has left, whatever it is: directories without permissions, thousands of levels,
// named pipes, odd names. Links are removed and never followed, and nothing outside of the given root can be reached.
package removal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
)

const (
	// maxDepth bounds how many directories inside each other are open at a time. Every level costs a file descriptor.
	maxDepth = 128
	// Prefix starts the names of what is on its way out, beside what is removed.
	Prefix = ".removed-"
)

// SetAside renames what lies at name, a path in root, so that another one may take its place while it is removed. It stays
// in the same directory. It returns the new path.
func SetAside(root *os.Root, name string) (string, error) {
	if strings.HasPrefix(path.Base(name), Prefix) {
		return name, nil
	}
	aside := path.Join(path.Dir(name), Prefix+string(uuid.NewUUID()))
	if err := root.Rename(name, aside); err != nil {
		return "", fmt.Errorf("setting %s aside: %w", name, err)
	}
	return aside, nil
}

// Remove removes what lies at name, a path in root, with all that is in it. Nothing there is no error. What is left after
// an error lies at name, or beside it under names with Prefix.
func Remove(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if err == nil {
		return nil
	}
	// Directories to which somebody denied access are opened up. What lies too deep is moved up and removed by itself.
	for left := []string{name}; len(left) > 0; {
		next := left[0]
		deeper, loosenErr := loosen(root, next)
		left = append(left[1:], deeper...)
		if loosenErr != nil {
			return fmt.Errorf("removing %s: %w", name, errors.Join(err, loosenErr))
		}
		if err := root.RemoveAll(next); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return nil
}

// loosen gives the owner all rights on name, where that is a directory, and on the directories below. Those that are
// maxDepth below are moved beside name; it returns their paths.
func loosen(root *os.Root, name string) (deeper []string, err error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !info.IsDir() {
		return nil, err
	}
	parent, err := root.OpenRoot(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	w := walk{root: root, beside: path.Dir(name)}
	err = w.loosen(parent, path.Base(name), path.Clean(name), 0)
	return w.deeper, err
}

// walk is one descent into a directory of root.
type walk struct {
	root   *os.Root
	beside string
	deeper []string
}

// loosen works on name in parent, which lies at whole in the root of the walk.
func (w *walk) loosen(parent *os.Root, name, whole string, depth int) error {
	if err := parent.Chmod(name, 0o700); err != nil {
		return err
	}
	if depth == maxDepth {
		aside := path.Join(w.beside, Prefix+string(uuid.NewUUID()))
		if err := w.root.Rename(whole, aside); err != nil {
			return err
		}
		w.deeper = append(w.deeper, aside)
		return nil
	}
	below, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(below.FS(), ".")
	for _, e := range entries {
		if err == nil && e.IsDir() {
			err = w.loosen(below, e.Name(), path.Join(whole, e.Name()), depth+1)
		}
	}
	return errors.Join(err, below.Close())
}
