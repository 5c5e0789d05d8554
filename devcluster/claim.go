package devcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// markName is the file that makes a directory a state directory. In others nothing is ever written or removed.
const markName = ".kruntimes-dev"

const markText = "This directory belongs to krt dev, which removes what is in it without asking.\n"

// NotOursError says that a directory that was given as a state directory holds something, and not the mark of one.
type NotOursError struct {
	// Dir is the directory.
	Dir string
}

func (e *NotOursError) Error() string {
	return fmt.Sprintf(
		"%s is not empty and lacks the file %s, which a dev cluster makes in its own: choose another state directory, or empty it",
		e.Dir, markName)
}

// Claim makes dir a state directory if it is a new or an empty one. It does nothing to one that is a state directory
// already, and returns a NotOursError for any other. Nothing may be written to a state directory before.
func Claim(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("looking at the state directory: %w", err)
	}
	// A mark that another cluster has made at this moment counts, so this looks at what was read and not again.
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == markName }) {
		return nil
	}
	if len(entries) > 0 {
		return &NotOursError{Dir: dir}
	}
	if err := os.WriteFile(filepath.Join(dir, markName), []byte(markText), 0o600); err != nil {
		return fmt.Errorf("marking the state directory: %w", err)
	}
	return nil
}

// endOfParts bounds how long Clean waits for the parts of a cluster that was killed.
const endOfParts = 30 * time.Second

// Clean removes from dir what a cluster has left there that was killed: keys, data, and the files of Pods. Logs stay. It
// tells whether there was something. A cluster that runs is left alone and is a RunningError.
func Clean(ctx context.Context, dir string, c clock.WithTicker) (cleaned bool, err error) {
	if _, err := os.Lstat(filepath.Join(dir, markName)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	release, err := takeStateDir(dir)
	if err != nil {
		return false, err
	}
	defer release()
	if _, err := os.Lstat(stateFile(dir)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	previous, err := readStateFile(dir)
	if err != nil {
		return false, err
	}
	awaitParts(ctx, dir, previous, c)
	d := dirs{state: dir, sockets: dir}
	if isSocketDir(previous.Sockets, dir) {
		d.sockets = previous.Sockets
	}
	return true, d.clean()
}

// awaitParts waits until the parts have ended that a killed cluster has left. They have been told to by the kernel, and
// the stand-in ends its Pods first.
func awaitParts(ctx context.Context, dir string, s State, c clock.WithTicker) {
	ticker, deadline := c.NewTicker(pollInterval), c.After(endOfParts)
	defer ticker.Stop()
	// Another process may have got the number since: only one that was started for this directory counts.
	for slices.ContainsFunc(s.Parts, func(p Part) bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		return err == nil && p.PID != os.Getpid() && strings.Contains(string(line), dir+"/")
	}) {
		select {
		case <-ctx.Done():
			return
		case <-deadline:
			return
		case <-ticker.C():
		}
	}
}

// ownerName is the file in a directory for sockets that holds the name of the state directory for which it was made.
const ownerName = "state-dir"

var socketDirName = regexp.MustCompile(`^krt-[0-9]+$`)

// makeSocketDir makes a directory for the sockets of the cluster in state, whose own name is too long for them.
func makeSocketDir(state string) (string, error) {
	dir, err := os.MkdirTemp(socketParent(), "krt-")
	if err != nil {
		return "", fmt.Errorf("making a directory for sockets: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ownerName), []byte(state), 0o600); err != nil {
		return "", fmt.Errorf("marking the directory for sockets: %w", errors.Join(err, os.Remove(dir)))
	}
	return dir, nil
}

func socketParent() string {
	if parent := os.TempDir(); len(parent) <= maxSocketDir-len("/krt-0123456789") {
		return parent
	}
	return "/tmp"
}

// isSocketDir tells whether path, which a file says, is a directory that makeSocketDir has made for the cluster in state.
func isSocketDir(path, state string) bool {
	parent, name := filepath.Split(path)
	if !socketDirName.MatchString(name) || filepath.Clean(parent) != filepath.Clean(socketParent()) {
		return false
	}
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() {
		return false
	}
	owner, err := os.ReadFile(filepath.Join(path, ownerName))
	return err == nil && string(owner) == state
}
