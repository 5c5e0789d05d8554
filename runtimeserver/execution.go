package runtimeserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
	"kruntimes.io/kruntimes/runtimeserver/control"
)

const (
	codeOOMKilled = 137 // 128 + SIGKILL
	codeUnknown   = 255 // the main process was lost
	codeStopped   = 143 // 128 + SIGTERM
	codeNothing   = 1   // nothing ran
)

// execution is one execution from its Execute to its Exited.
type execution struct {
	server *server
	id     string
	spec   *runtimev1.Execute

	// The server guards these. queued tells that the execution is in ready, reported that its end was sent once, or that
	// nobody is there to hear it. room is closed, and replaced, when the journal may have room again.
	journal  journal
	queued   bool
	reported bool
	room     chan struct{}

	mu         sync.Mutex
	supervisor *supervisorProcess // nil until the spec was handed over
	stop       *runtimev1.Stop    // the latest Stop
	overdue    *time.Timer        // kills a supervisor that does not carry out a Stop
}

func newExecution(s *server, spec *runtimev1.Execute) *execution {
	id := spec.GetExecutionId()
	return &execution{server: s, id: id, spec: spec, journal: journal{id: id}, room: make(chan struct{})}
}

// run runs the execution to its end.
func (e *execution) run(ctx context.Context) {
	stdout, stdoutEnd, err := newOutput(runtimev1.OutputStream_OUTPUT_STREAM_STDOUT)
	if err != nil {
		e.server.noteExited(e, e.startFailed(err))
		return
	}
	stderr, stderrEnd, err := newOutput(runtimev1.OutputStream_OUTPUT_STREAM_STDERR)
	if err != nil {
		_ = unix.Close(stdoutEnd)
		_ = stdout.pipe.Close()
		e.server.noteExited(e, e.startFailed(err))
		return
	}
	process, exited := e.handOver(ctx, stdoutEnd, stderrEnd)
	_ = unix.Close(stdoutEnd)
	_ = unix.Close(stderrEnd)
	if exited == nil {
		exited = e.follow(ctx, process, stdout, stderr)
	} else {
		_ = stdout.pipe.Close()
		_ = stderr.pipe.Close()
	}
	e.server.noteExited(e, exited)
}

// handOver gives the execution to a supervisor. It returns Exited instead when nothing will run.
func (e *execution) handOver(ctx context.Context, fds ...int) (*supervisorProcess, *runtimev1.Exited) {
	spec := &runtimev1.Execute{
		ExecutionId: e.id, Argv: e.spec.GetArgv(), WorkingDirectory: e.spec.GetWorkingDirectory(),
		Env: mergeEnvironment(e.server.options.Environ, e.spec.GetEnv()),
	}
	command := &runtimev1.Command{Command: &runtimev1.Command_Execute{Execute: spec}}
	for {
		process, err := e.server.pool.take(ctx)
		if err != nil {
			return nil, e.startFailed(err)
		}
		sent, exited := e.send(process, command, fds)
		if sent || exited != nil {
			return process, exited
		}
		// Somebody killed this supervisor while it waited; the spec was not read as a whole, so another one may have it.
	}
}

// send sends the spec unless a Stop was faster. After it, Stop goes to the supervisor. It returns neither success nor
// Exited when the supervisor is gone.
func (e *execution) send(process *supervisorProcess, spec *runtimev1.Command, fds []int) (bool, *runtimev1.Exited) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop != nil {
		e.server.pool.put(process)
		return false, e.newExited(runtimev1.ExitCause_EXIT_CAUSE_STOPPED, codeStopped, "stopped before it was started")
	}
	if err := process.conn.Send(spec, fds...); err != nil {
		gone := process.isGone() || control.IsGone(err)
		_ = process.conn.Close() // it may have got a part; the end of the connection ends it
		if gone {
			return false, nil
		}
		return false, e.startFailed(err)
	}
	e.supervisor = process
	return true, nil
}

// follow reports what the supervisor and the pipes tell, until both are at their end.
func (e *execution) follow(ctx context.Context, process *supervisorProcess, outputs ...*output) *runtimev1.Exited {
	kills := e.server.oom.Kills()
	var readers sync.WaitGroup
	started := false
	for {
		var event runtimev1.ServerEvent
		if _, err := process.conn.Receive(&event); err != nil {
			exited := e.supervisorLost(process)
			e.drain(started, &readers, outputs)
			return exited
		}
		if event.GetStarted() != nil && !started {
			started = true
			e.server.noteStarted(e, event.GetStarted())
			for _, o := range outputs {
				readers.Go(func() {
					o.copyTo(func(data []byte) bool { return e.server.noteOutput(ctx, e, o.stream, data) })
				})
			}
		}
		if exited := event.GetExited(); exited != nil {
			e.release(process, exited)
			e.judge(exited, e.server.oom.Kills() > kills)
			e.drain(started, &readers, outputs)
			return exited
		}
	}
}

// drain waits for what the pipes still hold, now that no process of the execution is left. Where none was reported to
// have started there is nothing that may be reported.
func (e *execution) drain(started bool, readers *sync.WaitGroup, outputs []*output) {
	for _, o := range outputs {
		if !started {
			_ = o.pipe.Close()
			continue
		}
		_ = o.pipe.SetReadDeadline(e.server.options.Now().Add(drainTime))
	}
	readers.Wait()
}

// release gives a supervisor back that will never hear of this execution again.
func (e *execution) release(process *supervisorProcess, exited *runtimev1.Exited) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.overdue != nil {
		e.overdue.Stop()
	}
	e.supervisor = nil
	if exited.GetCause() == runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE {
		_ = process.conn.Close() // It ends by itself.
		return
	}
	e.server.pool.put(process)
	e.server.processes.lookForOrphans()
}

// judge completes what the supervisor found by what only the server knows.
func (e *execution) judge(exited *runtimev1.Exited, memoryKills bool) {
	switch exited.GetCause() {
	case runtimev1.ExitCause_EXIT_CAUSE_EXITED:
		// A shell passes the code of a command that was killed on as its own.
		if exited.GetExitCode() == codeOOMKilled && memoryKills {
			exited.Cause = runtimev1.ExitCause_EXIT_CAUSE_OOM_KILLED
			exited.Message = "the kernel killed a process of it for its memory use"
		}
	case runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE:
		e.server.refuse(fmt.Sprintf("execution %s left processes that cannot be killed", e.id))
	}
}

// supervisorLost cleans up after a supervisor that died. Its processes became ours when it did.
func (e *execution) supervisorLost(process *supervisorProcess) *runtimev1.Exited {
	_ = process.conn.Close()
	_ = unix.Kill(process.pid, unix.SIGKILL) // It may live on with its connection closed.
	<-process.gone
	if !e.server.processes.awaitNoOrphans(e.server.options.UnkillableAfter) {
		message := "its supervisor died, and processes that it left cannot be killed"
		e.server.refuse(fmt.Sprintf("execution %s: %s", e.id, message))
		return e.newExited(runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE, codeUnknown, message)
	}
	return e.newExited(runtimev1.ExitCause_EXIT_CAUSE_SUPERVISOR_LOST, codeUnknown, "") // the cause says it all
}

// requestStop passes a Stop on, now or as soon as there is somebody to pass it to.
func (e *execution) requestStop(stop *runtimev1.Stop) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop = stop
	process := e.supervisor
	if process == nil {
		return
	}
	// A failed send means that the supervisor is gone, which the receiving side notices.
	_ = process.conn.Send(&runtimev1.Command{Command: &runtimev1.Command_Stop{Stop: stop}})
	// A supervisor gives up on its processes after the grace and UnkillableAfter. One that takes twice that is stuck.
	limit := time.Duration(stop.GetGraceMillis())*time.Millisecond + 2*e.server.options.UnkillableAfter
	if e.overdue != nil {
		e.overdue.Stop()
	}
	e.overdue = time.AfterFunc(limit, func() {
		if !process.isGone() {
			_ = unix.Kill(process.pid, unix.SIGKILL)
		}
	})
}

func (e *execution) startFailed(err error) *runtimev1.Exited {
	return e.newExited(runtimev1.ExitCause_EXIT_CAUSE_START_FAILED, codeNothing, err.Error())
}

func (e *execution) newExited(cause runtimev1.ExitCause, code int32, message string) *runtimev1.Exited {
	return &runtimev1.Exited{
		ExecutionId: e.id, Cause: cause, ExitCode: code, Message: message,
		ExitTimeUnixMicros: e.server.options.Now().UnixMicro(),
	}
}
