package devcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kruntimes.io/kruntimes/artifacts/beneath"
)

// State is what a running cluster tells other processes about itself.
type State struct {
	// PID is the process that runs the cluster.
	PID int `json:"pid"`
	// Phase is Starting or Ready.
	Phase Phase `json:"phase"`
	// StartedAt is when the cluster began to start.
	StartedAt time.Time `json:"startedAt"`
	// URL is where the API server listens, Kubeconfig a file with an administrator's identity.
	URL        string `json:"url,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Node is the name of the cluster's Node.
	Node string `json:"node,omitempty"`
	// Parts are the parts that have been started, in that order.
	Parts []Part `json:"parts,omitempty"`
	// Sockets is the directory outside the state directory that the cluster uses, if any.
	Sockets string `json:"sockets,omitempty"`
}

// Phase is how far a cluster is.
type Phase string

// The phases of a cluster that runs.
const (
	// Starting means that it does not answer yet.
	Starting Phase = "Starting"
	// Ready means that it takes work.
	Ready Phase = "Ready"
)

// Part is one program of a cluster.
type Part struct {
	// Name says which one.
	Name string `json:"name"`
	// PID is its process: that of the cluster itself for a part that runs inside of it.
	PID int `json:"pid"`
	// Log is the file it logs to.
	Log string `json:"log"`
	// Address is where it listens, if it does.
	Address string `json:"address,omitempty"`
}

// RunningError says that a cluster runs already in the state directory.
type RunningError struct {
	// Dir is the state directory, State what the running cluster says about itself.
	Dir   string
	State State
}

func (e *RunningError) Error() string {
	return fmt.Sprintf("a dev cluster is running already in %s (pid %d)", e.Dir, e.State.PID)
}

// ErrNotRunning says that no cluster runs in a state directory.
var ErrNotRunning = errors.New("no dev cluster is running")

// ReadState returns what the cluster in dir says about itself, or ErrNotRunning. A file that a dead process left there
// counts as not running: what tells is a lock, which the kernel frees when its holder ends in whatever way.
func ReadState(dir string) (State, error) {
	lock, err := os.Open(lockFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, ErrNotRunning
	}
	if err != nil {
		return State{}, fmt.Errorf("opening the lock of the dev cluster: %w", err)
	}
	defer lock.Close()
	err = unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return State{}, ErrNotRunning
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return State{}, fmt.Errorf("looking at the lock of the dev cluster: %w", err)
	}
	return readStateFile(dir)
}

func readStateFile(dir string) (State, error) {
	var s State
	content, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return State{Phase: Starting}, nil // the holder of the lock has not come to write it yet
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the state of the dev cluster: %w", err)
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return State{}, fmt.Errorf("reading %s: %w", stateFile(dir), err)
	}
	return s, nil
}

func writeStateFile(dir string, s State) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the state of the dev cluster: %w", err)
	}
	return writeFile(stateFile(dir), append(content, '\n'))
}

// writeFile replaces a file as a whole, so that a reader never sees half of it.
func writeFile(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// takeStateDir claims dir and locks it for this process, for as long as it lives or until release is called.
func takeStateDir(dir string) (release func(), err error) {
	if err := Claim(dir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(lockFile(dir), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the dev cluster: %w", err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		defer lock.Close()
		state, err := readStateFile(dir)
		if err != nil {
			return nil, err
		}
		return nil, &RunningError{Dir: dir, State: state}
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	return func() { _ = lock.Close() }, nil
}

// maxSocketDir is how long a directory's name may be so that the sockets below it, with the names that the Pods of
// Runtimes use, stay within the 107 bytes that Linux allows.
const maxSocketDir = 52

// prepareStateDir removes what the previous cluster left and makes the directories of a new one. Every cluster starts
// empty: nothing in a dev cluster is meant to be kept, and old data would bring old certificates along.
func prepareStateDir(state string) (dirs, error) {
	previous, err := readStateFile(state)
	if err == nil && isSocketDir(previous.Sockets, state) {
		err = os.RemoveAll(previous.Sockets)
	}
	d := dirs{state: state, sockets: state}
	for _, path := range []string{d.etcdData(), d.logs(), d.pki(), d.pods(), d.kubeconfig(), stateFile(state)} {
		err = errors.Join(err, os.RemoveAll(path))
	}
	err = errors.Join(err, beneath.RemoveAll(d.volumes()))
	if err != nil {
		return dirs{}, fmt.Errorf("removing the previous dev cluster: %w", err)
	}
	if len(state) > maxSocketDir {
		if d.sockets, err = makeSocketDir(state); err != nil {
			return dirs{}, err
		}
	}
	for _, path := range []string{d.logs(), d.pki(), d.webhookCerts(), d.pods(), d.volumes()} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return dirs{}, fmt.Errorf("preparing the state directory: %w", err)
		}
	}
	return d, nil
}

// external returns the directory outside the state directory, if there is one.
func (d dirs) external() string {
	if d.sockets == d.state {
		return ""
	}
	return d.sockets
}

// clean removes what makes no sense without the running cluster. The logs stay.
func (d dirs) clean() error {
	paths := []string{
		d.etcdData(), d.pki(), d.pods(), d.kubeconfig(), d.kubeletConfig(),
		d.etcdSocket(), d.etcdSocket() + ".peer", stateFile(d.state),
	}
	if external := d.external(); external != "" {
		paths = append(paths, external)
	}
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.RemoveAll(path))
	}
	errs = append(errs, beneath.RemoveAll(d.volumes()))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cleaning the state directory: %w", err)
	}
	return nil
}

// Signal asks the process that runs the cluster in dir to end it.
func Signal(dir string, signal syscall.Signal) error {
	state, err := ReadState(dir)
	if err != nil {
		return err
	}
	if state.PID <= 0 {
		return fmt.Errorf("the dev cluster in %s has only begun to start: try again in a moment", dir)
	}
	if err := syscall.Kill(state.PID, signal); err != nil {
		return fmt.Errorf("signalling the dev cluster (pid %d): %w", state.PID, err)
	}
	return nil
}

func lockFile(dir string) string  { return filepath.Join(dir, "lock") }
func stateFile(dir string) string { return filepath.Join(dir, "state.json") }
