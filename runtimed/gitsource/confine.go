package gitsource

import (
	"os"
	"runtime/debug"
	"syscall"
)

// gcPercent keeps the heap of a process that handles large objects near what it holds.
const gcPercent = 50

// confine bounds the memory of this process, and offers it first to a kernel that is out of memory. What the system
// does not grant is no reason to fail: the limits are a second line.
func confine(limits Limits) {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(limits.Memory * 3 / 4)
	bound := uint64(limits.Memory)
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: bound, Max: bound})
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
}
