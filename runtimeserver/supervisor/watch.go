package supervisor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

const (
	// Between two rounds of killing the supervisor waits this long, at first and at most.
	firstPause = time.Millisecond
	lastPause  = 50 * time.Millisecond
	// codeSignal is added to the number of the signal that ended a process.
	codeSignal = 128
)

// watch follows one execution from the start of its main process until no process of it is left:
//
//	running ── main ended, others left ──▶ killing ── nothing left ──▶ over
//	   │ Stop                                 ▲    └─ too long ──────▶ over, unkillable
//	   ▼                                      │
//	stopping ── grace over, or Stop with 0 ───┘
//
// From every state it is over as soon as nothing is left. The end of the control connection leads to killing.
type watch struct {
	*supervisor
	id     string
	main   int
	orders <-chan *order
	status chan syscall.WaitStatus // of the main process; closed when nothing is left
	timer  *time.Timer

	exited *runtimev1.Exited // what is known of the main process; nil while it runs

	stopped      bool // a Stop came before the main process ended
	graceEnd     time.Time
	killingSince time.Time
	pause        time.Duration
	unkillable   bool
}

func newWatch(s *supervisor, id string, main int) *watch {
	w := &watch{
		supervisor: s, id: id, main: main, orders: s.orders,
		status: make(chan syscall.WaitStatus, 1), timer: time.NewTimer(time.Hour), pause: firstPause,
	}
	w.timer.Stop()
	go w.reap()
	return w
}

// reap reaps everything that ends below the supervisor and closes the channel when nothing is left.
func (w *watch) reap() {
	defer close(w.status)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return // ECHILD: no child, and so no descendant, is left.
		case pid == w.main:
			w.status <- status
		}
	}
}

// run returns when no process of the execution is left, or when what is left cannot be killed. It reports whether the
// supervisor is clean: without a child, and still connected.
func (w *watch) run() bool {
	defer w.timer.Stop()
	for {
		select {
		case status, ok := <-w.status:
			if !ok {
				return w.orders != nil
			}
			w.mainEnded(status)
		case next, ok := <-w.orders:
			if !ok {
				w.orders = nil
				w.kill()
				continue
			}
			closeAll(next.fds)
			if stop := next.command.GetStop(); stop.GetExecutionId() == w.id {
				w.stop(time.Duration(stop.GetGraceMillis()) * time.Millisecond)
			}
		case <-w.timer.C:
			if w.isTooLong() {
				w.unkillable = true
				return false
			}
			w.kill()
		}
	}
}

func (w *watch) mainEnded(status syscall.WaitStatus) {
	cause := runtimev1.ExitCause_EXIT_CAUSE_EXITED
	if w.stopped {
		cause = runtimev1.ExitCause_EXIT_CAUSE_STOPPED
	}
	w.exited = &runtimev1.Exited{
		ExecutionId: w.id, Cause: cause, ExitCode: int32(status.ExitStatus()), ExitTimeUnixMicros: w.now().UnixMicro(),
	}
	if status.Signaled() {
		w.exited.ExitCode = codeSignal + int32(status.Signal())
		w.exited.Message = fmt.Sprintf("ended by signal %d (%v)", int(status.Signal()), status.Signal())
	}
	// After a Stop the others keep the grace that the main process was given.
	if !w.stopped && childrenLeft() {
		w.kill()
	}
}

// stop asks the whole tree to end, once, and kills it when the shortest grace that was given is over.
func (w *watch) stop(grace time.Duration) {
	if !w.killingSince.IsZero() {
		return
	}
	first := !w.stopped
	w.stopped = true
	if grace <= 0 {
		w.kill()
		return
	}
	if first {
		w.tree.Terminate(os.Getpid())
	}
	if end := w.now().Add(grace); first || end.Before(w.graceEnd) {
		w.graceEnd = end
		w.timer.Reset(grace)
	}
}

// kill does one round of killing and sets the time of the next. Rounds go on until nothing is left.
func (w *watch) kill() {
	if w.killingSince.IsZero() {
		w.killingSince = w.now()
	}
	w.tree.Kill(os.Getpid())
	w.timer.Reset(w.pause)
	w.pause = min(2*w.pause, lastPause)
}

func (w *watch) isTooLong() bool {
	return !w.killingSince.IsZero() && w.now().Sub(w.killingSince) >= w.unkillableAfter
}

// result is what the server is told at the end.
func (w *watch) result() *runtimev1.Exited {
	result := w.exited
	if result == nil {
		result = &runtimev1.Exited{
			ExecutionId: w.id, ExitCode: codeSignal + int32(unix.SIGKILL), ExitTimeUnixMicros: w.now().UnixMicro(),
		}
	}
	if w.unkillable {
		result.Cause = runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE
		result.Message = fmt.Sprintf("processes %v were killed and did not end within %v",
			w.tree.Descendants(os.Getpid()), w.unkillableAfter)
	}
	return result
}

// childrenLeft asks the kernel, without reaping, whether this process has any child.
func childrenLeft() bool {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
