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

// OutputFunc receives bytes that an execution wrote, in order per stream. While it does not return, nothing else is
// read from the server, which is how a reader that is too slow slows the writers down.
type OutputFunc func(stream runtimev1.OutputStream, data []byte)

// Execution is one execution that the server was asked for.
type Execution struct {
	output OutputFunc
	events chan Event
	// stopping and grace hold the last Stop, which is sent again after a reconnect.
	stopping bool
	grace    time.Duration
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
	e := &Execution{output: output, events: make(chan Event, 2)}
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

// Abandon forgets an execution that the server does not bring to an end, and takes the server out of service.
func (c *Connection) Abandon(id, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.executions, id)
	c.unserviceable = why
}

// Gone returns a channel that is closed when the server does not, or no longer, run the execution id of an earlier
// runtimed. It says something only while the server is connected.
func (c *Connection) Gone(id string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone := c.strangers[id]; gone != nil {
		return gone
	}
	gone := make(chan struct{})
	close(gone)
	return gone
}

// dispatch hands one event of the server over to whom it concerns.
func (c *Connection) dispatch(event *runtimev1.ServerEvent) {
	switch ev := event.GetEvent().(type) {
	case *runtimev1.ServerEvent_Started:
		if e := c.find(ev.Started.GetExecutionId()); e != nil {
			e.deliver(Event{Started: ev.Started})
		}
	case *runtimev1.ServerEvent_Output:
		if e := c.find(ev.Output.GetExecutionId()); e != nil {
			e.output(ev.Output.GetStream(), ev.Output.GetData())
		}
	case *runtimev1.ServerEvent_Exited:
		c.exited(ev.Exited)
	}
}

func (c *Connection) find(id string) *Execution {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.executions[id]
}

// exited ends an execution, its own or that of an earlier runtimed.
func (c *Connection) exited(exited *runtimev1.Exited) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := exited.GetExecutionId()
	if exited.GetCause() == runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE {
		c.unserviceable = "a process of execution " + id + " could not be killed"
	}
	if gone := c.strangers[id]; gone != nil {
		close(gone)
		delete(c.strangers, id)
	}
	if e := c.executions[id]; e != nil {
		delete(c.executions, id)
		e.deliver(Event{Exited: exited})
	}
}

func stopCommand(id string, grace time.Duration) *runtimev1.Command {
	return &runtimev1.Command{Command: &runtimev1.Command_Stop{
		Stop: &runtimev1.Stop{ExecutionId: id, GraceMillis: grace.Milliseconds()},
	}}
}
