package server

import (
	"errors"
	"fmt"
	"time"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// ErrNotConnected is returned by Execute when no server is connected; nothing was sent.
var ErrNotConnected = errors.New("the runtime server is not connected")

// ErrUnserviceable is wrapped by the error of Execute when the server takes no further executions; nothing was sent.
var ErrUnserviceable = errors.New("the runtime server takes no further executions")

// Event is what becomes known about an execution: exactly one field is set.
type Event struct {
	// Started reports that the process exists. At most once.
	Started *runtimev1.Started
	// Exited is the last event: the execution has ended, and all of its output was handed over.
	Exited *runtimev1.Exited
	// Lost is the last event: how the execution ended will never be known.
	Lost bool
}

// Output is what an execution wrote to one of its streams.
type Output struct {
	// Stream is where it was written.
	Stream runtimev1.OutputStream
	// Offset is how many bytes of the stream came before Data.
	Offset int64
	// Data is valid until the OutputFunc returns.
	Data []byte
}

// OutputFunc receives what an execution wrote, in order per stream and each byte once. It returns how many of the last
// bytes of the stream it has not brought to safety: those will come again after a restart of runtimed. They are at most
// 16 KiB. While it does not return, nothing else is read from the server, which is how a reader that is too slow slows
// the writers down.
type OutputFunc func(Output) (pending int)

// acknowledgeAfter is how many bytes may be in safety without the server knowing. Unit: bytes.
const acknowledgeAfter = 16 * 1024

// Execution is one execution that the server was asked for.
type Execution struct {
	id     string
	output OutputFunc
	events chan Event
	// started tells that Started was delivered. It comes again on every new stream.
	started bool
	// positions are those of the output streams. Only the goroutine that reads the stream uses them.
	positions map[runtimev1.OutputStream]*position
	// stopping and grace hold the last Stop, which is sent again after a reconnect.
	stopping bool
	grace    time.Duration
}

// position is how much of an output stream has come, and how much of that the server was told to drop. Unit: bytes.
type position struct{ received, acknowledged int64 }

func newExecution(id string, output OutputFunc) *Execution {
	return &Execution{
		id: id, output: output, events: make(chan Event, 2), positions: map[runtimev1.OutputStream]*position{},
	}
}

// take hands out what is new of an Output, and returns what the server may drop then; nil when that is not worth it.
func (e *Execution) take(output *runtimev1.Output) *runtimev1.Acknowledge {
	p := e.positions[output.GetStream()]
	if p == nil {
		// An execution of an earlier runtimed begins where that one's acknowledgements ended.
		p = &position{received: output.GetOffset(), acknowledged: output.GetOffset()}
		e.positions[output.GetStream()] = p
	}
	data, offset := output.GetData(), output.GetOffset()
	if known := p.received - offset; known >= int64(len(data)) {
		return nil
	} else if known > 0 {
		data, offset = data[known:], p.received
	}
	p.received = offset + int64(len(data))
	pending := e.output(Output{Stream: output.GetStream(), Offset: offset, Data: data})
	safe := p.received - int64(pending)
	if safe-p.acknowledged < acknowledgeAfter {
		return nil
	}
	p.acknowledged = safe
	return &runtimev1.Acknowledge{ExecutionId: e.id, Stream: output.GetStream(), Bytes: safe}
}

// Events delivers at most one Started, and then exactly one Exited or Lost.
func (e *Execution) Events() <-chan Event { return e.events }

// deliver never blocks: a server that repeats itself is ignored.
func (e *Execution) deliver(event Event) {
	select {
	case e.events <- event:
	default:
	}
}

// Execute asks the server for an execution. When it returns no error, the execution may have started, whatever becomes
// of the stream; Events says what became of it.
func (c *Connection) Execute(cmd *runtimev1.Execute, output OutputFunc) (*Execution, error) {
	c.mu.Lock()
	s := c.stream
	if s == nil {
		c.mu.Unlock()
		return nil, ErrNotConnected
	}
	if c.unserviceable != "" {
		defer c.mu.Unlock()
		return nil, fmt.Errorf("%w: %s", ErrUnserviceable, c.unserviceable)
	}
	e := newExecution(cmd.GetExecutionId(), output)
	c.executions[cmd.GetExecutionId()] = e
	c.mu.Unlock()
	// When sending fails the stream has ended. Whether the server got the command is then known from its return.
	_ = s.send(&runtimev1.Command{Command: &runtimev1.Command_Execute{Execute: cmd}})
	return e, nil
}

// Stop asks the server to end an execution, now or as soon as it is back. An id that is not running is ignored.
func (c *Connection) Stop(id string, grace time.Duration) {
	c.mu.Lock()
	e, s := c.executions[id], c.stream
	if e != nil {
		e.stopping, e.grace = true, grace
	}
	c.mu.Unlock()
	if e == nil || s == nil {
		return
	}
	// When sending fails the stream has ended, and the command is sent again when the server is back.
	_ = s.send(stopCommand(id, grace))
}

// ErrUnknown is returned by Attach for an execution that the server does not hold.
var ErrUnknown = errors.New("the runtime server does not know the execution")

// Attach takes over an execution of an earlier runtimed, which still runs or has ended meanwhile. What of its output was
// not in safety comes again. It returns ErrNotConnected when no server is connected, and ErrUnknown when the one that is
// does not hold it.
func (c *Connection) Attach(id string, output OutputFunc) (*Execution, error) {
	c.mu.Lock()
	s := c.stream
	switch {
	case s == nil:
		c.mu.Unlock()
		return nil, ErrNotConnected
	case !c.orphans[id]:
		c.mu.Unlock()
		return nil, ErrUnknown
	}
	delete(c.orphans, id)
	delete(c.expected, id)
	e := newExecution(id, output)
	c.executions[id] = e
	c.mu.Unlock()
	_ = s.send(attachCommand(id)) // when sending fails the stream has ended, and the server is told when it is back
	return e, nil
}

// Settle says which executions of an earlier runtimed somebody may attach to. All others are ended, now and whenever the
// server comes back with them. The map is the Connection's from now on.
func (c *Connection) Settle(expected map[string]bool) {
	c.mu.Lock()
	c.expected = expected
	var commands []*runtimev1.Command
	for id := range c.orphans {
		if !expected[id] {
			commands = append(commands, c.estrange(id)...)
		}
	}
	s := c.stream
	c.mu.Unlock()
	s.sendAll(commands)
}

// Gone returns a channel that is closed when the server does not, or no longer, run the execution id of an earlier
// runtimed, which is ended if need be. It says something only while the server is connected.
func (c *Connection) Gone(id string) <-chan struct{} {
	c.mu.Lock()
	delete(c.expected, id)
	var commands []*runtimev1.Command
	if c.orphans[id] {
		commands = c.estrange(id)
	}
	gone, s := c.strangers[id], c.stream
	c.mu.Unlock()
	s.sendAll(commands)
	if gone == nil {
		gone = make(chan struct{})
		close(gone)
	}
	return gone
}

// Forget says that the end of an execution is recorded, or does not matter: the server need not keep it any longer.
func (c *Connection) Forget(id string) {
	c.mu.Lock()
	known, s := c.ended[id] || c.executions[id] != nil, c.stream
	delete(c.ended, id)
	delete(c.executions, id)
	c.mu.Unlock()
	if known {
		// A server that does not hear of it lists the execution when it is back, which ends it as one that nobody knows.
		s.sendAll([]*runtimev1.Command{forgetCommand(id)})
	}
}

// Abandon gives an execution up that the server does not bring to an end, and takes the server out of service.
func (c *Connection) Abandon(id, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.executions, id)
	c.ended[id] = true
	c.unserviceable = why
}

// dispatch hands one event of the server over to whom it concerns. It returns the commands that follow.
func (c *Connection) dispatch(event *runtimev1.ServerEvent) []*runtimev1.Command {
	switch ev := event.GetEvent().(type) {
	case *runtimev1.ServerEvent_Started:
		if e := c.find(ev.Started.GetExecutionId()); e != nil && !e.started {
			e.started = true
			e.deliver(Event{Started: ev.Started})
		}
	case *runtimev1.ServerEvent_Output:
		if ack := c.output(ev.Output); ack != nil {
			return []*runtimev1.Command{{Command: &runtimev1.Command_Acknowledge{Acknowledge: ack}}}
		}
	case *runtimev1.ServerEvent_Exited:
		return c.exited(ev.Exited)
	}
	return nil
}

// output passes output on. What nobody waits for is dropped, so that it does not hold up those who write it.
func (c *Connection) output(output *runtimev1.Output) *runtimev1.Acknowledge {
	if e := c.find(output.GetExecutionId()); e != nil {
		return e.take(output)
	}
	return &runtimev1.Acknowledge{
		ExecutionId: output.GetExecutionId(), Stream: output.GetStream(),
		Bytes: output.GetOffset() + int64(len(output.GetData())),
	}
}

func (c *Connection) find(id string) *Execution {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.executions[id]
}

// exited ends an execution, its own or that of an earlier runtimed.
func (c *Connection) exited(exited *runtimev1.Exited) []*runtimev1.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := exited.GetExecutionId()
	if exited.GetCause() == runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE {
		c.unserviceable = "a process of execution " + id + " could not be killed"
	}
	if e := c.executions[id]; e != nil {
		delete(c.executions, id)
		c.ended[id] = true
		e.deliver(Event{Exited: exited})
		return nil
	}
	if gone := c.strangers[id]; gone != nil {
		close(gone)
		delete(c.strangers, id)
		return []*runtimev1.Command{forgetCommand(id)}
	}
	return nil
}

func attachCommand(id string) *runtimev1.Command {
	return &runtimev1.Command{Command: &runtimev1.Command_Attach{Attach: &runtimev1.Attach{ExecutionId: id}}}
}

func forgetCommand(id string) *runtimev1.Command {
	return &runtimev1.Command{Command: &runtimev1.Command_Forget{Forget: &runtimev1.Forget{ExecutionId: id}}}
}

func stopCommand(id string, grace time.Duration) *runtimev1.Command {
	return &runtimev1.Command{Command: &runtimev1.Command_Stop{
		Stop: &runtimev1.Stop{ExecutionId: id, GraceMillis: grace.Milliseconds()},
	}}
}
