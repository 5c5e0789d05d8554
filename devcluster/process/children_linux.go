package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// BecomeReaper makes this process the parent of its orphaned descendants, in place of init.
func BecomeReaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the parent of orphans: %w", err)
	}
	return nil
}

// Children returns the process ids of the direct children of this process, ended but unreaped ones included. A process
// that loses its parent at the very moment may be missing; the next call has it.
func Children() ([]int, error) {
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("listing child processes: /proc/self/task/*/children: %w", errors.Join(err, fs.ErrNotExist))
	}
	// Orphans go to the first thread. It is read last, so that nobody gets from a thread that is still to be read to
	// one that was.
	first := fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())
	files = append(slices.DeleteFunc(files, func(file string) bool { return file == first }), first)
	var pids []int
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended, its children have moved to another one
		}
		if err != nil {
			return nil, fmt.Errorf("listing child processes: %w", err)
		}
		for _, field := range strings.Fields(string(content)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("listing child processes: %w", err)
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// sweepInterval is how often KillChildren looks for the next generation.
const sweepInterval = 5 * time.Millisecond

// KillChildren kills every descendant of this process and returns when none is left, or with an error at the deadline.
// It must be called only by a process all of whose children are its own to kill, after BecomeReaper.
func KillChildren(c clock.Clock, deadline time.Duration) error {
	end := c.Now().Add(deadline)
	for {
		pids, err := Children()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			// Only this answer is certain; the list may have missed a process in the moment it became an orphan.
			if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); errors.Is(err, unix.ECHILD) {
				return nil
			}
		}
		if c.Now().After(end) {
			return fmt.Errorf("processes %v do not end", pids)
		}
		for _, pid := range pids {
			// A child that is not reaped keeps its pid, so the signal cannot hit a stranger.
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		<-c.After(sweepInterval)
	}
}
