// Package server is runtimed's end of the connection to the runtime server: the gRPC service on the unix socket, who is
// let in, and what becomes of executions when the stream breaks.
//
//	            Hello                        stream ends
//	nobody ----------------> connected ---------------------> lost
//	                             ^                             | |
//	                             |  the same nonce             | |  window passes: executions are lost
//	                             +-----------------------------+ v
//	                             +---- a new server ------- nobody
//
// The nonce outlives a restart of runtimed, and so do the executions: those that the returning server lists and this
// runtimed has not asked for are orphans until somebody attaches to them, or ends them by way of Gone.
//
// An execution that the returning server does not list never reached it, and is lost.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

const (
	// DefaultWindow is how long a server whose stream broke may take to come back.
	DefaultWindow = 2 * time.Second
	// helloTimeout is how long a stranger may keep a stream open without introducing itself.
	helloTimeout = 5 * time.Second
)

// NonceStore remembers the nonce over restarts of runtimed. state.Store is one.
type NonceStore interface {
	// Nonce returns what was saved last, or nothing.
	Nonce() (string, error)
	// SaveNonce replaces it.
	SaveNonce(nonce string) error
}

// Options configure a Connection.
type Options struct {
	// Nonces is where the nonce is kept. Required.
	Nonces NonceStore
	// Clock measures Window. Required.
	Clock clock.WithDelayedExecution
	// Window is how long a server whose stream broke may take to come back. Default: DefaultWindow.
	Window time.Duration
	// Log receives the comings and goings of the server.
	Log logr.Logger
}

// Connection is the one connection to the runtime server; it survives the streams that carry it.
type Connection struct {
	runtimev1.UnimplementedRuntimedServiceServer

	nonces NonceStore
	clock  clock.WithDelayedExecution
	window time.Duration
	log    logr.Logger

	mu       sync.Mutex
	standing standing
	// stream is where commands go; nil unless the server was welcomed and is connected.
	stream *sender
	// up is closed while stream is set.
	up chan struct{}
	// executions were asked for by this runtimed and have not ended.
	executions map[string]*Execution
	// ended have ended, and the server has not been told to forget them.
	ended map[string]bool
	// orphans are executions of an earlier runtimed that the server holds and nobody has decided upon.
	orphans map[string]bool
	// expected, once it is not nil, are the executions of an earlier runtimed that may become orphans.
	expected map[string]bool
	// strangers are executions of an earlier runtimed that are being stopped; the channel is closed when they are gone.
	strangers map[string]chan struct{}
	// unserviceable says why the server takes no further executions; empty while it does.
	unserviceable string
	// losses counts ended streams, so that a late timer can tell that its stream was followed by another one.
	losses int
}

// New returns a Connection that nobody is connected to.
func New(opts Options) (*Connection, error) {
	nonce, err := opts.Nonces.Nonce()
	if err != nil {
		return nil, fmt.Errorf("reading the nonce of the runtime server: %w", err)
	}
	if opts.Window == 0 {
		opts.Window = DefaultWindow
	}
	return &Connection{
		nonces: opts.Nonces, clock: opts.Clock, window: opts.Window, log: opts.Log,
		standing:   standing{nonce: nonce, lostAt: opts.Clock.Now()},
		up:         make(chan struct{}),
		executions: map[string]*Execution{},
		ended:      map[string]bool{},
		orphans:    map[string]bool{},
		strangers:  map[string]chan struct{}{},
	}, nil
}

// Up returns a channel that is closed while the server is connected. After a loss it is another channel.
func (c *Connection) Up() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up
}

// Ready tells whether executions can be started now and, if not, why.
func (c *Connection) Ready() (bool, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stream == nil:
		return false, "the runtime server is not connected"
	case c.unserviceable != "":
		return false, "the runtime server takes no further executions: " + c.unserviceable
	}
	return true, ""
}

// Connect serves one stream of a runtime server; it is the gRPC method.
func (c *Connection) Connect(stream grpc.BidiStreamingServer[runtimev1.ServerEvent, runtimev1.Command]) error {
	hello, err := c.receiveHello(stream)
	if err != nil {
		return err
	}
	same, nonce, err := c.admit(hello)
	if err != nil {
		c.log.V(1).Info("Refused runtime server", "cause", err.Error())
		return err
	}
	defer c.lose()
	s := &sender{stream: stream}
	if err := s.send(welcome(nonce)); err != nil {
		return fmt.Errorf("welcoming the runtime server: %w", err)
	}
	s.sendAll(c.open(s, hello, same))
	c.log.Info("Connected runtime server", "version", hello.GetServerVersion(), "reconnect", same)
	for {
		event, err := stream.Recv()
		if err != nil {
			c.log.Info("Lost runtime server", "cause", err.Error())
			return nil
		}
		s.sendAll(c.dispatch(event))
	}
}

// receiveHello waits for the first message, but not for ever.
func (c *Connection) receiveHello(
	stream grpc.BidiStreamingServer[runtimev1.ServerEvent, runtimev1.Command],
) (*runtimev1.Hello, error) {
	type first struct {
		event *runtimev1.ServerEvent
		err   error
	}
	received := make(chan first, 1)
	go func() { // ends at the latest when Connect returns, since that ends the stream
		event, err := stream.Recv()
		received <- first{event, err}
	}()
	timeout := c.clock.NewTimer(helloTimeout)
	defer timeout.Stop()
	select {
	case f := <-received:
		return f.event.GetHello(), f.err
	case <-timeout.C():
		return nil, status.Error(codes.DeadlineExceeded, "no Hello")
	}
}

// admit lets one server in and reserves the connection for it.
func (c *Connection) admit(hello *runtimev1.Hello) (same bool, nonce string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	same, err = c.standing.admit(hello, c.clock.Now(), c.window)
	if err != nil {
		return false, "", err
	}
	if !same {
		nonce := rand.Text()
		if err := c.nonces.SaveNonce(nonce); err != nil {
			return false, "", status.Errorf(codes.Unavailable, "keeping the nonce: %v", err)
		}
		c.standing.nonce = nonce
		c.unserviceable = ""
	}
	c.standing.connected = true
	return same, c.standing.nonce, nil
}

// open lets commands through, and returns the first ones, which follow from what the server holds.
func (c *Connection) open(s *sender, hello *runtimev1.Hello, same bool) []*runtimev1.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = s
	close(c.up)
	return c.reconcile(hello, same)
}

// reconcile compares what the server holds with what runtimed knows, and returns the commands that follow. The
// caller holds the lock.
func (c *Connection) reconcile(hello *runtimev1.Hello, same bool) []*runtimev1.Command {
	held := map[string]bool{}
	c.orphans = map[string]bool{}
	var commands []*runtimev1.Command
	for _, id := range hello.GetExecutions() {
		held[id] = true
		switch e := c.executions[id]; {
		case !same:
			commands = append(commands, c.estrange(id)...)
		case e != nil:
			commands = append(commands, attachCommand(id))
			if e.stopping {
				commands = append(commands, stopCommand(id, e.grace))
			}
		case c.ended[id]:
		case c.strangers[id] == nil && (c.expected == nil || c.expected[id]):
			c.orphans[id] = true
		default:
			commands = append(commands, c.estrange(id)...)
		}
	}
	c.loseExcept(func(id string) bool { return same && held[id] })
	for id, gone := range c.strangers {
		if !held[id] {
			close(gone)
			delete(c.strangers, id)
		}
	}
	return commands
}

// estrange makes a stranger of an execution, and returns the commands that end it. The caller holds the lock.
func (c *Connection) estrange(id string) []*runtimev1.Command {
	delete(c.orphans, id)
	if c.strangers[id] == nil {
		c.strangers[id] = make(chan struct{})
	}
	return []*runtimev1.Command{stopCommand(id, 0), attachCommand(id)}
}

// lose notes the end of the stream, and gives the executions up unless the server comes back in time.
func (c *Connection) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		c.up = make(chan struct{})
	}
	c.stream = nil
	c.standing.connected = false
	c.standing.lostAt = c.clock.Now()
	c.losses++
	loss := c.losses
	c.clock.AfterFunc(c.window, func() { c.giveUp(loss) })
}

// giveUp ends all executions when the server has not come back since the given loss.
func (c *Connection) giveUp(loss int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.losses != loss || c.standing.connected {
		return
	}
	c.loseExcept(func(string) bool { return false })
	c.orphans = map[string]bool{}
	for id, gone := range c.strangers {
		close(gone)
		delete(c.strangers, id)
	}
}

// loseExcept ends every execution for which keep does not hold. The caller holds the lock.
func (c *Connection) loseExcept(keep func(id string) bool) {
	for id, e := range c.executions {
		if !keep(id) {
			delete(c.executions, id)
			e.deliver(Event{Lost: true})
		}
	}
}

// Shutdown asks the server to end every execution and then itself, and waits until it is gone or ctx ends. Nothing
// happens when none is connected.
func (c *Connection) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	s := c.stream
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	err := s.send(&runtimev1.Command{Command: &runtimev1.Command_Shutdown{Shutdown: &runtimev1.Shutdown{}}})
	if err != nil {
		return fmt.Errorf("shutting the runtime server down: %w", err)
	}
	select {
	case <-s.stream.Context().Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the runtime server to go: %w", ctx.Err())
	}
}

// errClosed is returned by send after the stream ended.
var errClosed = errors.New("the stream has ended")

// sender makes sending on a stream safe for several goroutines.
type sender struct {
	mu     sync.Mutex
	stream grpc.BidiStreamingServer[runtimev1.ServerEvent, runtimev1.Command]
}

func (s *sender) send(cmd *runtimev1.Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream.Context().Err() != nil {
		return errClosed
	}
	return s.stream.Send(cmd)
}

// sendAll sends commands; nothing when nobody is connected. A stream that ends meanwhile shows where it is read.
func (s *sender) sendAll(commands []*runtimev1.Command) {
	if s == nil {
		return
	}
	for _, cmd := range commands {
		_ = s.send(cmd)
	}
}

func welcome(nonce string) *runtimev1.Command {
	return &runtimev1.Command{Command: &runtimev1.Command_Welcome{Welcome: &runtimev1.Welcome{Nonce: nonce}}}
}
