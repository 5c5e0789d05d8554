package process

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Attributes returns what every child gets: a session of its own, and signal when its parent dies.
func Attributes(parentDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: parentDeath}
}

// StartBound starts cmd, bound to the life of this process. The kernel binds a child to the thread that forked it, not
// to the process, and the Go runtime may end threads; so one thread that lives as long as the process does all forking.
func StartBound(cmd *exec.Cmd) error {
	startForker()
	started := make(chan error, 1)
	forks <- fork{cmd: cmd, started: started}
	return <-started
}

type fork struct {
	cmd     *exec.Cmd
	started chan<- error
}

var forks = make(chan fork)

var startForker = sync.OnceFunc(func() {
	go func() {
		runtime.LockOSThread()
		for f := range forks {
			f.started <- f.cmd.Start()
		}
	}()
})
