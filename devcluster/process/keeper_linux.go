package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// ownerVariable marks, in the environment of every process that a Keeper starts and so in that of its descendants, to
// which owner it belongs. Scripts see it too, and cannot be spared it: nothing else of an orphan tells whose it was.
const ownerVariable = "KRUNTIMES_DEV_OWNER"

// finishDeadline bounds how long Finish waits for killed processes to end.
const finishDeadline = 10 * time.Second

// Keeper starts processes for owners and, when an owner is finished, ends everything that they have left behind, as the
// end of a PID namespace would. It needs a process of its own: every orphan below this process that does not belong to
// an owner which is still there counts as left behind and is killed. Nothing else ever is, because a process becomes a
// child of this one only by being started by it or by being left by one that was.
type Keeper struct {
	clock clock.Clock

	mu       sync.Mutex
	children map[int]*Child // by process id
	owners   map[string]bool
	closed   bool
}

// Child is a process started by a Keeper.
type Child struct {
	keeper *Keeper
	owner  string
	cmd    *exec.Cmd
}

// NewKeeper makes this process the parent of its orphaned descendants and buries those that end, until ctx ends.
func NewKeeper(ctx context.Context, c clock.Clock) (*Keeper, error) {
	if err := BecomeReaper(); err != nil {
		return nil, err
	}
	if _, err := Children(); err != nil {
		return nil, err
	}
	k := &Keeper{clock: c, children: map[int]*Child{}, owners: map[string]bool{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		defer signal.Stop(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ended:
				_, _ = k.sweep() // an error here shows itself in Finish
			}
		}
	}()
	return k, nil
}

var (
	errClosed   = errors.New("the node is shutting down")
	errFinished = errors.New("the container has ended")
)

// Start starts the first process of owner.
func (k *Keeper) Start(owner string, cmd *exec.Cmd) (*Child, error) { return k.start(owner, true, cmd) }

// Join starts one more process of owner, which must not be finished.
func (k *Keeper) Join(owner string, cmd *exec.Cmd) (*Child, error) { return k.start(owner, false, cmd) }

func (k *Keeper) start(owner string, first bool, cmd *exec.Cmd) (*Child, error) {
	cmd.Env = append(cmd.Env, ownerVariable+"="+owner)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = Attributes(syscall.SIGKILL)
	}
	k.mu.Lock() // no sweep may see the process before it is known
	defer k.mu.Unlock()
	if k.closed {
		return nil, errClosed
	}
	if !first && !k.owners[owner] {
		return nil, errFinished
	}
	if err := StartBound(cmd); err != nil {
		return nil, err
	}
	c := &Child{keeper: k, owner: owner, cmd: cmd}
	k.children[cmd.Process.Pid] = c
	k.owners[owner] = true
	return c, nil
}

// PID returns the process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Signal sends a signal to the process, if it still runs.
func (c *Child) Signal(s os.Signal) { _ = c.cmd.Process.Signal(s) }

// Wait returns when the process itself has ended. What it has started may live on: see Finish.
func (c *Child) Wait() error {
	err := c.cmd.Wait()
	k := c.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.children[c.PID()] == c { // the number may belong to a later process already
		delete(k.children, c.PID())
	}
	return err
}

// Finish ends every process of owner and returns when none is left.
func (k *Keeper) Finish(owner string) error {
	k.mu.Lock()
	delete(k.owners, owner)
	for _, c := range k.children {
		if c.owner == owner {
			c.Signal(syscall.SIGKILL)
		}
	}
	k.mu.Unlock()
	end := k.clock.Now().Add(finishDeadline)
	// The second look is for a process that became an orphan while the first one was taken.
	for clean := 0; ; {
		left, err := k.sweep()
		if err != nil {
			return err
		}
		if left == 0 {
			if clean++; clean == 2 {
				return nil
			}
			continue
		}
		clean = 0
		if k.clock.Now().After(end) {
			return fmt.Errorf("%d processes of %s do not end", left, owner)
		}
		<-k.clock.After(sweepInterval)
	}
}

// sweep kills and buries orphans without an owner, and returns how many have not ended yet. When an orphan dies, its
// children become orphans: who wants all of them gone calls sweep until nothing is left.
func (k *Keeper) sweep() (left int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pids, err := Children()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		if k.children[pid] != nil {
			continue
		}
		owner := ownerOf(pid)
		isUnknown := owner == "" && isBecoming(pid)
		if owner == "" && !isUnknown {
			owner = ownerOf(pid) // it may have become another program between the two looks
		}
		owned := k.owners[owner]
		if !owned && !isUnknown {
			// An orphan that nobody has buried keeps its number, so this cannot hit a stranger.
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		buried, _ := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if !owned && buried != pid {
			left++
		}
	}
	return left, nil
}

// ownerOf returns the owner that is named in the environment a process was started with, or nothing.
func ownerOf(pid int) string {
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if owner, found := bytes.CutPrefix(entry, []byte(ownerVariable+"=")); found {
			return string(owner)
		}
	}
	return ""
}

// isBecoming tells whether a process is about to execute another program: its environment is then gone for a moment, and it may
// be anybody's. One that has ended is not.
func isBecoming(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	// The name of the program, the second field, may hold anything. See proc_pid_stat(5).
	_, text, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(text)
	const state, envEnd = 0, 48 // the third and the 51st field
	return len(fields) > envEnd && string(fields[state]) != "Z" && string(fields[state]) != "X" && string(fields[envEnd]) == "0"
}

// Close kills everything that was ever started and is left. Nothing can be started afterwards.
func (k *Keeper) Close() error {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	return KillChildren(k.clock, finishDeadline)
}
