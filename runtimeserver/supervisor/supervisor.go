// Package supervisor is the small process between the runtime server and the process of one execution.
//
// A supervisor is a child subreaper: whatever an execution starts, daemons and double forks included, stays below it, so
// it knows when nothing is left, and can kill what is. It is started before it is needed and then waits for an Execute;
// when an execution has ended and left nothing behind it waits for the next, and never serves two at a time.
//
// It trusts the end of the control connection: when the server is gone, however it went, the supervisor kills its tree
// and exits.
package supervisor

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
	"kruntimes.io/kruntimes/runtimeserver/control"
	"kruntimes.io/kruntimes/runtimeserver/hardening"
	"kruntimes.io/kruntimes/runtimeserver/proctree"
)

// outputs is how many descriptors accompany an Execute: where standard output and standard error go.
const outputs = 2

// Options configure a supervisor.
type Options struct {
	// Control is the descriptor of the control connection.
	Control uintptr
	// UnkillableAfter is how long processes may survive being killed before the supervisor gives up on them.
	UnkillableAfter time.Duration
	// Now is the clock.
	Now func() time.Time
}

// order is a command of the server with the descriptors that came beside it.
type order struct {
	command runtimev1.Command
	fds     []int
}

type supervisor struct {
	conn            *control.Conn
	orders          chan *order
	null            int
	tree            *proctree.Reader
	unkillableAfter time.Duration
	now             func() time.Time
}

// Run serves one execution after the other until the server closes the connection. The calling goroutine stays on its
// thread, because the kernel kills the processes of executions when the thread that started them ends.
func Run(o Options) error {
	runtime.LockOSThread()
	if err := hardening.Apply(); err != nil {
		return err
	}
	if err := unblockSignals(); err != nil {
		return err
	}
	conn, err := control.Open(o.Control)
	if err != nil {
		return err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", os.DevNull, err)
	}
	s := &supervisor{
		conn:            conn,
		orders:          make(chan *order),
		null:            null,
		tree:            proctree.NewReader("/proc"),
		unkillableAfter: o.UnkillableAfter,
		now:             o.Now,
	}
	warmUp()
	go s.receive()
	for next := range s.orders {
		if execute := next.command.GetExecute(); execute != nil && !s.execute(execute, next.fds) {
			break
		}
	}
	return nil
}

// unblockSignals has processes start with no signal blocked, whatever was blocked when the server was started. It acts
// on the calling thread, which is the one that starts them.
func unblockSignals() error {
	var none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return fmt.Errorf("unblocking signals: %w", err)
	}
	return nil
}

// warmUp sends every kind of message through the encoder once, which builds its tables, while nobody waits.
func warmUp() {
	for _, m := range []proto.Message{
		&runtimev1.Command{Command: &runtimev1.Command_Execute{Execute: &runtimev1.Execute{
			Argv: []string{""}, Env: []*runtimev1.EnvVar{{Name: "n"}}}}},
		startedEvent(&runtimev1.Started{ExecutionId: "w"}),
		exitedEvent(&runtimev1.Exited{ExecutionId: "w"}),
	} {
		if encoded, err := proto.Marshal(m); err == nil {
			_ = proto.Unmarshal(encoded, m.ProtoReflect().New().Interface())
		}
	}
}

func (s *supervisor) receive() {
	defer close(s.orders)
	for {
		var next order
		fds, err := s.conn.Receive(&next.command)
		if err != nil {
			return // The server is gone, or cannot be understood: either way nothing more comes.
		}
		next.fds = fds
		s.orders <- &next
	}
}

// execute runs one execution to its end and reports whether this supervisor may serve another one. One that may not
// exits; what it could not kill is handed to the server by the kernel.
func (s *supervisor) execute(spec *runtimev1.Execute, fds []int) bool {
	if len(fds) != outputs {
		closeAll(fds)
		return false
	}
	pid, failure := start(spec, s.null, fds[0], fds[1])
	startTime := s.now()
	closeAll(fds) // The readers shall see the end of the output when the last process that holds it ends.
	if failure != nil {
		return s.send(exitedEvent(&runtimev1.Exited{
			ExecutionId: spec.GetExecutionId(), Cause: failure.cause, ExitCode: failure.code, Message: failure.message,
			ExitTimeUnixMicros: startTime.UnixMicro(),
		}))
	}
	// A failed send needs no answer here: the connection's end reaches the watch, which then kills the tree.
	s.send(startedEvent(&runtimev1.Started{
		ExecutionId: spec.GetExecutionId(), StartTimeUnixMicros: startTime.UnixMicro(),
	}))
	w := newWatch(s, spec.GetExecutionId(), pid)
	clean := w.run()
	return s.send(exitedEvent(w.result())) && clean
}

func (s *supervisor) send(event *runtimev1.ServerEvent) bool {
	return s.conn.Send(event) == nil
}

func startedEvent(e *runtimev1.Started) *runtimev1.ServerEvent {
	return &runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Started{Started: e}}
}

func exitedEvent(e *runtimev1.Exited) *runtimev1.ServerEvent {
	return &runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Exited{Exited: e}}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
