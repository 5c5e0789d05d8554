package proctree

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// maxFreezeRounds bounds how long Freeze runs after a tree that forks as fast as it is stopped. Killing follows either
// way, and callers come back until nothing is left.
const maxFreezeRounds = 64

// A process that was sent SIGSTOP takes it in when it next runs, which on a busy machine may be late. Terminate waits
// for that with pauses of stopPause, maxStopPauses at most. It waits less, maxKernelPauses, for a process that is caught
// in the kernel: that may last until another one goes on, which is stopped, as the child of a vfork is.
const (
	stopPause       = time.Millisecond
	maxStopPauses   = 5000
	maxKernelPauses = 200
)

// Terminate sends SIGTERM once to every descendant of pid. It does so while all of them are stopped, so that none is
// missed because it was just forked, and a process that is started in answer to SIGTERM, to clean up, does not get it.
func (r *Reader) Terminate(pid int) {
	victims := r.Freeze(pid)
	for i := range maxStopPauses {
		awaited := "TtZX" // States in which a process has taken SIGSTOP in, or will never.
		if i >= maxKernelPauses {
			awaited += "D"
		}
		if !slices.ContainsFunc(victims, func(pid int) bool { return r.isOtherThan(pid, awaited) }) {
			break
		}
		<-time.After(stopPause)
	}
	victims = r.Freeze(pid) // With the forks that were under way.
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		for _, victim := range victims {
			_ = unix.Kill(victim, sig) // Gone, or not ours to signal: both show in the next look.
		}
	}
}

// Freeze stops every descendant of the given processes until a whole look finds nothing new, and returns them. A
// process that is stopped neither forks nor sees the death of another one, so a pair that restarts each other cannot
// run away while it is killed one by one.
func (r *Reader) Freeze(pids ...int) []int {
	stopped := map[int]bool{}
	var victims []int
	for range maxFreezeRounds {
		settled := true
		for _, pid := range r.Descendants(pids...) {
			if !stopped[pid] {
				stopped[pid], settled = true, false
				victims = append(victims, pid)
				_ = unix.Kill(pid, unix.SIGSTOP)
			}
		}
		if settled {
			break
		}
	}
	return victims
}

// Kill stops and then kills every descendant of pid. It does not wait for their end: the caller reaps, and calls it
// again while something is left.
//
// Whole process groups get the signal besides single processes, because that is atomic against fork: a chain of
// processes that fork and exit faster than they can be looked up dies with its group. The caller warrants that no
// descendant shares a process group with a process outside of the tree; starting each tree with setsid does.
func (r *Reader) Kill(pid int) {
	victims := r.Freeze(pid)
	groups := map[int]bool{}
	for _, victim := range victims {
		if group, err := unix.Getpgid(victim); err == nil && group > 1 && group != unix.Getpgrp() {
			groups[group] = true
		}
		_ = unix.Kill(victim, unix.SIGKILL)
	}
	for group := range groups {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
}

// KillEach kills the given processes and everything below them, one by one, for trees that may share a process group
// with processes that must live. It does not wait for their end.
func (r *Reader) KillEach(pids ...int) {
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGSTOP)
	}
	victims := append(r.Freeze(pids...), pids...)
	for _, victim := range victims {
		_ = unix.Kill(victim, unix.SIGKILL)
	}
}
