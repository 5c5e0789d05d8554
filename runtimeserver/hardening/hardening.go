// Package hardening prepares a process that is the parent of foreign code running under the same user.
package hardening

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstInherited is the first descriptor after the standard streams.
const firstInherited = 3

// Apply makes the calling process
//   - not dumpable: code of the same user can neither trace it nor read its memory;
//   - a child subreaper: what its descendants orphan becomes its child, and no descendant leaves its tree;
//   - deaf to signals, but for those that nobody can refuse: code of the same user may send any. They are caught, not
//     ignored, because a process that it starts would ignore the same ones;
//   - keep what it inherited to itself: every open descriptor is closed on exec.
func Apply() error {
	signal.Notify(make(chan os.Signal, 1))
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("making the process not dumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming a child subreaper: %w", err)
	}
	return closeOnExec()
}

func closeOnExec() error {
	if unix.CloseRange(firstInherited, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	// The kernel is older than 5.11, or a seccomp profile refuses the call.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("listing open descriptors: %w", err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= firstInherited {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
