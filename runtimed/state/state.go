// Package state keeps the little that runtimed must remember over its own restarts, on a volume of the Pod that user
// code does not see: which executions were started, the nonce of the runtime server, and the boot id of the node.
//
// A marker is written before an execution starts and removed after its Run is terminal, so "started" can be told from
// "not started" after a crash of runtimed. Markers are not synced to disk: a crash of the node shows as another boot
// id, and then every Run that is found assigned to this Pod counts as started.
package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrMarked is returned by Mark for an execution that was started before.
var ErrMarked = errors.New("the execution was started before")

const (
	markerDirectory = "runs"
	bootIDFile      = "boot-id"
	nonceFile       = "nonce"
	artifactsFile   = "artifacts.json"
)

// Store is the state directory.
type Store struct {
	path        string
	root        *os.Root
	bootID      string
	bootChanged bool
	marked      []string
}

// Open opens or lays out the directory at path. bootID is the node's present boot id.
func Open(path, bootID string) (*Store, error) {
	if err := os.MkdirAll(filepath.Join(path, markerDirectory), 0o700); err != nil {
		return nil, fmt.Errorf("laying out the state directory: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("opening the state directory: %w", err)
	}
	s := &Store{path: path, root: root, bootID: bootID}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

// load reads what an earlier runtimed of this Pod left, and records the boot id where there is none. Another one stays until
// Judge is called.
func (s *Store) load() error {
	before, err := s.read(bootIDFile)
	if err != nil {
		return err
	}
	s.bootChanged = before != "" && before != s.bootID
	if before == "" {
		if err := s.replace(bootIDFile, s.bootID, true); err != nil {
			return err
		}
	}
	entries, err := fs.ReadDir(s.root.FS(), markerDirectory)
	if err != nil {
		return fmt.Errorf("reading the markers: %w", err)
	}
	for _, e := range entries {
		s.marked = append(s.marked, e.Name())
	}
	return nil
}

// BootChanged tells whether the node was started anew since an earlier runtimed of this Pod.
func (s *Store) BootChanged() bool { return s.bootChanged }

// Judge ends the time in which markers may be missing after a boot of the node: it marks the executions ids, those of all
// Runs that were found assigned to this Pod, so that a successor counts them as started whatever becomes of this process,
// and records the boot id only then.
func (s *Store) Judge(ids []string) error {
	if !s.bootChanged {
		return nil
	}
	for _, id := range ids {
		if err := s.Mark(id); err != nil && !errors.Is(err, ErrMarked) {
			return err
		}
	}
	if err := s.syncDirectory(markerDirectory); err != nil {
		return err
	}
	return s.replace(bootIDFile, s.bootID, true)
}

// Marked lists the executions that an earlier runtimed of this Pod had started and not seen to the end.
func (s *Store) Marked() []string { return append([]string(nil), s.marked...) }

// Mark records that the execution id is about to start. It returns ErrMarked when that was recorded before.
func (s *Store) Mark(id string) error {
	f, err := s.root.OpenFile(markerName(id), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return ErrMarked
	}
	if err != nil {
		return fmt.Errorf("marking execution %s: %w", id, err)
	}
	_, err = f.WriteString(s.bootID + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("marking execution %s: %w", id, err)
	}
	return nil
}

// Unmark removes the record of an execution; one that is not there is no error.
func (s *Store) Unmark(id string) error {
	if err := s.root.Remove(markerName(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the marker of execution %s: %w", id, err)
	}
	return nil
}

// Nonce returns what SaveNonce stored last, or nothing.
func (s *Store) Nonce() (string, error) { return s.read(nonceFile) }

// SaveNonce stores the nonce that the runtime server proves itself with.
func (s *Store) SaveNonce(nonce string) error { return s.replace(nonceFile, nonce, false) }

// SaveArtifacts stores what another process of runtimed needs to open the artifact store.
func (s *Store) SaveArtifacts(text string) error { return s.replace(artifactsFile, text, false) }

// ReadArtifacts returns what SaveArtifacts stored last in the directory at path. Errors: fs.ErrNotExist.
func ReadArtifacts(path string) (string, error) {
	text, err := os.ReadFile(filepath.Join(path, artifactsFile))
	if err != nil {
		return "", fmt.Errorf("reading the state directory: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Close releases the directory.
func (s *Store) Close() error { return s.root.Close() }

func markerName(id string) string { return markerDirectory + "/" + id }

// read returns the text of a file, or nothing when it is not there.
func (s *Store) read(name string) (string, error) {
	text, err := s.root.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading %s of the state directory: %w", name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// replace writes a file as a whole or not at all; durable makes it survive a crash of the node.
func (s *Store) replace(name, text string, durable bool) error {
	temporary := name + ".new"
	f, err := s.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s of the state directory: %w", name, err)
	}
	_, err = f.WriteString(text + "\n")
	if durable {
		err = errors.Join(err, f.Sync())
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s of the state directory: %w", name, err)
	}
	if err := s.root.Rename(temporary, name); err != nil {
		return fmt.Errorf("writing %s of the state directory: %w", name, err)
	}
	if durable {
		return s.syncDirectory(".")
	}
	return nil
}

// syncDirectory makes what was created or renamed in a directory durable.
func (s *Store) syncDirectory(name string) error {
	d, err := s.root.Open(name)
	if err != nil {
		return fmt.Errorf("syncing the state directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing the state directory: %w", err)
	}
	return nil
}
