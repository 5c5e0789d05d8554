// Package workspace looks after the directories of PersistentWorkspaces on the workspace volume of the Pod:
//
//	/workspace/persistent/<name>                           the directory that Runs share
//	/workspace/persistent/<name>/.kruntimes/runs/<run uid>  what runtimed stages for one of them
//	/workspace/.kruntimes/workspaces/<name>                the UID of the workspace to which the directory belongs
//
// User code may do what it likes to the volume. Every access goes through os.Root, and the directories in between must be
// directories and no links, so that nothing outside of a workspace is reached by way of it. Rights that it has taken from
// one of these directories are given back, as long as the directory belongs to runtimed's user.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/opening"
	"kruntimes.io/kruntimes/runtimed/removal"
)

const (
	// reservedDirectory is runtimed's own, in the volume and in every workspace.
	reservedDirectory = ".kruntimes"
	ownersDirectory   = "workspaces"
	runsDirectory     = "runs"
	// maxUID is more than a UID has. Unit: bytes.
	maxUID = 256
	// ownerRights are what the owner of a directory needs to work in it.
	ownerRights = 0o700
)

// Volume is the workspace volume of the Pod.
type Volume struct {
	path string
	root *os.Root
	// top is the same directory as root: what is open can be given rights by which it is reached.
	top *os.File
	// mu lets one directory be made or removed at a time.
	mu sync.Mutex
}

// Open opens the volume, which exists. The path must be the one under which the runtime server sees it too.
func Open(at string) (*Volume, error) {
	at, err := filepath.Abs(at)
	if err != nil {
		return nil, fmt.Errorf("finding the workspace volume: %w", err)
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, fmt.Errorf("opening the workspace volume: %w", err)
	}
	top, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the workspace volume: %w", err), root.Close())
	}
	return &Volume{path: at, root: root, top: top}, nil
}

// Close releases the volume.
func (v *Volume) Close() error { return errors.Join(v.top.Close(), v.root.Close()) }

// giveRights gives the owner of the volume all rights on it, where user code has taken them and we are that owner. Else,
// or when it fails, what is done next tells what is wrong.
func (v *Volume) giveRights() {
	if info, err := v.top.Stat(); err == nil && info.Mode()&ownerRights != ownerRights {
		_ = v.top.Chmod(info.Mode() | ownerRights)
	}
}

// Workspace is the directory of one PersistentWorkspace, held open: replacing it by another one under its name does not
// redirect runtimed.
type Workspace struct {
	// Path is where scripts find it.
	Path string
	root *os.Root
}

// Root is the directory. Close closes it.
func (w *Workspace) Root() *os.Root { return w.root }

// Close releases the directory. What is in it stays.
func (w *Workspace) Close() error { return w.root.Close() }

// Prepare opens the directory of the workspace name, which is made when it is not there. What a workspace of another UID
// left under the name, on a volume that outlives Pods, is removed before.
func (v *Volume) Prepare(name, uid string) (*Workspace, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w, err := v.prepare(name, uid)
	if err != nil {
		return nil, fmt.Errorf("preparing workspace %s: %w", name, err)
	}
	return w, nil
}

func (v *Volume) prepare(name, uid string) (*Workspace, error) {
	v.giveRights()
	owners, err := opening.MakeOwnDirectories(v.root, reservedDirectory, ownersDirectory)
	if err != nil {
		return nil, err
	}
	defer func() { _ = owners.Close() }()
	persistent, err := opening.MakeOwnDirectories(v.root, workspacesv1alpha1.Directory)
	if err != nil {
		return nil, err
	}
	defer func() { _ = persistent.Close() }()
	owner, err := readOwner(owners, name)
	if err != nil {
		return nil, err
	}
	if owner != uid {
		if err := empty(persistent, name); err != nil {
			return nil, err
		}
		// The owner is recorded first: a directory without an owner is one of another workspace.
		if err := writeOwner(owners, name, uid); err != nil {
			return nil, err
		}
	}
	root, err := opening.MakeOwnDirectories(persistent, name)
	if err != nil {
		return nil, err
	}
	return &Workspace{Path: filepath.Join(v.path, workspacesv1alpha1.Directory, name), root: root}, nil
}

// Reopen opens the directory of a workspace that an earlier runtimed prepared.
func (v *Volume) Reopen(name string) (*Workspace, error) {
	v.giveRights()
	root, err := opening.OwnDirectories(v.root, workspacesv1alpha1.Directory, name)
	if err != nil {
		return nil, fmt.Errorf("opening workspace %s: %w", name, err)
	}
	return &Workspace{Path: filepath.Join(v.path, workspacesv1alpha1.Directory, name), root: root}, nil
}

// Names lists the workspaces that have a directory.
func (v *Volume) Names() ([]string, error) {
	v.giveRights()
	persistent, err := opening.OwnDirectories(v.root, workspacesv1alpha1.Directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the workspaces: %w", err)
	}
	entries, err := fs.ReadDir(persistent.FS(), ".")
	if err := errors.Join(err, persistent.Close()); err != nil {
		return nil, fmt.Errorf("listing the workspaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), removal.Prefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Remove removes the directory of the workspace name and all that is in it, and nothing else. Nothing there is no error.
// Where user code has put something else in the place of a directory on the way, no directory of the workspace is at its
// path any more, and there is nothing to remove: Remove returns that as obstacle, for the log, and no error.
func (v *Volume) Remove(name string) (obstacle, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.giveRights()
	var obstacles [2]error
	obstacles[0], err = v.within(func(persistent *os.Root) error { return empty(persistent, name) }, workspacesv1alpha1.Directory)
	if err == nil {
		obstacles[1], err = v.within(func(owners *os.Root) error {
			return errors.Join(removal.Remove(owners, name), sweep(owners))
		}, reservedDirectory, ownersDirectory)
	}
	if err != nil {
		return nil, fmt.Errorf("removing workspace %s: %w", name, err)
	}
	return errors.Join(obstacles[:]...), nil
}

// within calls f with the directory at the names, if it is there. It returns what is in its place as obstacle.
func (v *Volume) within(f func(in *os.Root) error, names ...string) (obstacle, err error) {
	in, err := opening.OwnDirectories(v.root, names...)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, opening.ErrNoDirectory):
		return err, nil
	case err != nil:
		return nil, err
	}
	return nil, errors.Join(f(in), in.Close())
}

// empty removes what lies under name, and what an earlier removal left unfinished.
func empty(persistent *os.Root, name string) error {
	aside, err := removal.SetAside(persistent, name)
	if err == nil {
		err = removal.Remove(persistent, aside)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return sweep(persistent)
}

// sweep removes what somebody who was killed left unfinished.
func sweep(in *os.Root) error {
	entries, err := fs.ReadDir(in.FS(), ".")
	for _, e := range entries {
		if err == nil && strings.HasPrefix(e.Name(), removal.Prefix) {
			err = removal.Remove(in, e.Name())
		}
	}
	return err
}

// readOwner returns the UID that is recorded for name; nothing where there is none, or nothing that can be one.
func readOwner(owners *os.Root, name string) (string, error) {
	info, err := owners.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxUID {
		return "", removal.Remove(owners, name)
	}
	if mode := info.Mode(); mode&0o400 == 0 {
		_ = owners.Chmod(name, mode|0o400) // reading it tells what is wrong
	}
	text, err := owners.ReadFile(name)
	return strings.TrimSpace(string(text)), err
}

// writeOwner records a UID as a whole or not at all.
func writeOwner(owners *os.Root, name, uid string) error {
	temporary := removal.Prefix + uid // no workspace has such a name; one with its own name in it may be too long
	if err := removal.Remove(owners, temporary); err != nil {
		return err
	}
	f, err := owners.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(uid + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return owners.Rename(temporary, name)
}
