package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"kruntimes.io/kruntimes/runtimed/opening"
	"kruntimes.io/kruntimes/runtimed/removal"
)

// Stage is the directory in a workspace that is reserved for one Run.
type Stage struct {
	// Path is where scripts find it.
	Path string
	// Root is the directory, held open. The caller closes it.
	Root *os.Root
}

// Stage makes the directory that is reserved for the Run of a UID. What lies there is removed first.
func (w *Workspace) Stage(run string) (Stage, error) {
	runs, err := opening.MakeOwnDirectories(w.root, reservedDirectory, runsDirectory)
	if err != nil {
		return Stage{}, fmt.Errorf("staging in the workspace: %w", err)
	}
	defer func() { _ = runs.Close() }()
	if err := removal.Remove(runs, run); err != nil {
		return Stage{}, fmt.Errorf("staging in the workspace: %w", err)
	}
	root, err := opening.MakeOwnDirectories(runs, run)
	if err != nil {
		return Stage{}, fmt.Errorf("staging in the workspace: %w", err)
	}
	return Stage{Path: w.stagePath(run), Root: root}, nil
}

// Restage opens the directory that an earlier runtimed made for the Run of a UID.
func (w *Workspace) Restage(run string) (Stage, error) {
	root, err := opening.OwnDirectories(w.root, reservedDirectory, runsDirectory, run)
	if err != nil {
		return Stage{}, fmt.Errorf("opening what was staged in the workspace: %w", err)
	}
	return Stage{Path: w.stagePath(run), Root: root}, nil
}

// Unstage removes what was staged for the Run of a UID, and nothing else. Nothing there is no error.
func (w *Workspace) Unstage(run string) error {
	runs, err := opening.OwnDirectories(w.root, reservedDirectory, runsDirectory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing what was staged in the workspace: %w", err)
	}
	if err := errors.Join(removal.Remove(runs, run), runs.Close()); err != nil {
		return fmt.Errorf("removing what was staged in the workspace: %w", err)
	}
	return nil
}

// Staged lists the UIDs of the Runs for which something is staged.
func (w *Workspace) Staged() ([]string, error) {
	runs, err := opening.OwnDirectories(w.root, reservedDirectory, runsDirectory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing what is staged in the workspace: %w", err)
	}
	entries, err := fs.ReadDir(runs.FS(), ".")
	if err := errors.Join(err, runs.Close()); err != nil {
		return nil, fmt.Errorf("listing what is staged in the workspace: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (w *Workspace) stagePath(run string) string {
	return filepath.Join(w.Path, reservedDirectory, runsDirectory, run)
}
