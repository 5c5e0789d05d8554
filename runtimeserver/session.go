package runtimeserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

const (
	protocolVersion = 2
	// A connection or stream that fails is tried again after minBackoff, doubled each time up to maxBackoff.
	minBackoff = 20 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
	// goodbye is how long the server waits, when everything is reported, for runtimed to have read it.
	goodbye = time.Second
	// orphanPatience is how long a server that was asked to end by a signal lives without runtimed. A signal says that the
	// Pod is being shut down, and then nobody starts a runtimed again that has died.
	orphanPatience = 5 * time.Second
)

var errNotWelcomed = errors.New("runtimed did not answer Hello with Welcome")

// sessions holds streams to runtimed, one after the other.
type sessions struct {
	*server
	client runtimev1.RuntimedServiceClient

	// signalled is closed when a signal asked the server to end although runtimed has welcomed it.
	signalled chan struct{}

	mu       sync.Mutex
	nonce    string
	welcomed bool
	// lostAt is when the last session that was welcomed ended.
	lostAt time.Time
}

// dial prepares the connection; it is established when it is first needed, and again whenever it is lost.
func dial(socket string) (*grpc.ClientConn, error) {
	// The address is only a name: the dialer knows the path, which may hold any character.
	conn, err := grpc.NewClient("passthrough:///runtimed",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dialUnix(ctx, socket) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minBackoff, Multiplier: 2, Jitter: 0.2, MaxDelay: maxBackoff},
			MinConnectTimeout: time.Second,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to %s: %w", socket, err)
	}
	return conn, nil
}

// run opens sessions until the server has ended, or ctx is done.
func (s *sessions) run(ctx context.Context) {
	pause := minBackoff
	for {
		welcomed, err := s.hold(ctx)
		if s.isOver(ctx) {
			return
		}
		if s.isEnding() {
			// The executions end although nobody can be told any more.
			s.stopTelling()
			select {
			case <-s.ended:
			case <-ctx.Done():
			}
			return
		}
		if welcomed {
			pause = minBackoff
		}
		s.log.V(1).Info("Lost the session", "reason", fmt.Sprint(err))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, maxBackoff)
	}
}

func (s *sessions) isOver(ctx context.Context) bool {
	select {
	case <-s.ended:
		return true
	default:
		return ctx.Err() != nil
	}
}

// hold opens a stream and serves it until it breaks or the server has ended. It reports whether runtimed welcomed us.
func (s *sessions) hold(ctx context.Context) (welcomed bool, err error) {
	streamContext, cancel := context.WithCancel(ctx)
	defer cancel()
	joined := make(chan struct{})
	go s.endUnless(streamContext, cancel, joined)
	stream, err := s.client.Connect(streamContext, grpc.WaitForReady(true))
	if err != nil {
		return false, fmt.Errorf("opening a stream: %w", err)
	}
	if err := s.greet(stream); err != nil {
		return false, err
	}
	close(joined)
	defer s.noteLoss()
	s.log.Info("Joined runtimed")
	broken := make(chan error, 1)
	go func() {
		defer close(broken)
		broken <- s.receive(ctx, stream)
	}()
	err = s.send(stream, broken)
	cancel()
	for range broken { // What runtimed said last counts, and is carried out before anything else is decided.
	}
	return true, err
}

// heed hears signals: before runtimed has welcomed the server they end it, and afterwards the first one is noted.
func (s *sessions) heed(signals <-chan os.Signal, end func()) {
	noted := sync.OnceFunc(func() { close(s.signalled) })
	for range signals {
		if s.isWelcomed() {
			noted()
		} else {
			end()
		}
	}
}

// endUnless shuts the server down, and calls cancel, once a signal has come and runtimed has been away for too long. It
// returns when joined is closed or ctx ends.
func (s *sessions) endUnless(ctx context.Context, cancel func(), joined <-chan struct{}) {
	select {
	case <-s.signalled:
	case <-joined:
		return
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	left := orphanPatience - s.options.Now().Sub(s.lostAt)
	s.mu.Unlock()
	select {
	case <-time.After(left):
		s.log.Info("Ended without runtimed", "patience", orphanPatience)
		s.shutdown()
		cancel()
	case <-joined:
	case <-ctx.Done():
	}
}

// noteLoss notes the end of a session.
func (s *sessions) noteLoss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostAt = s.options.Now()
}

type eventStream = grpc.BidiStreamingClient[runtimev1.ServerEvent, runtimev1.Command]

func (s *sessions) greet(stream eventStream) error {
	s.mu.Lock()
	nonce := s.nonce
	s.mu.Unlock()
	ids := s.detachAll()
	slices.Sort(ids)
	hello := &runtimev1.Hello{
		ProtocolVersion: protocolVersion, ServerVersion: s.options.Version, Nonce: nonce, Executions: ids,
	}
	// A failed Send says only that the stream ended; Recv knows why.
	_ = stream.Send(&runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Hello{Hello: hello}})
	command, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("waiting for Welcome: %w", err)
	}
	if command.GetWelcome() == nil {
		return errNotWelcomed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nonce, s.welcomed = command.GetWelcome().GetNonce(), true
	return nil
}

// isWelcomed reports whether runtimed ever answered; from then on only it ends the server.
func (s *sessions) isWelcomed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.welcomed
}

// receive carries out commands until the stream breaks. What it starts runs under ctx, which outlives the stream.
func (s *sessions) receive(ctx context.Context, stream eventStream) error {
	for {
		command, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("receiving a command: %w", err)
		}
		switch c := command.GetCommand().(type) {
		case *runtimev1.Command_Execute:
			s.execute(ctx, c.Execute)
		case *runtimev1.Command_Attach:
			s.reattach(c.Attach.GetExecutionId())
		case *runtimev1.Command_Acknowledge:
			s.acknowledge(c.Acknowledge)
		case *runtimev1.Command_Forget:
			s.forget(c.Forget.GetExecutionId())
		case *runtimev1.Command_Stop:
			s.stop(c.Stop)
		case *runtimev1.Command_Shutdown:
			s.log.Info("Was told to shut down")
			s.shutdown()
		}
	}
}

// send sends events until the stream breaks.
func (s *sessions) send(stream eventStream, broken <-chan error) error {
	for {
		event := s.next()
		if event == nil {
			select {
			case <-s.wake:
				continue
			case err := <-broken:
				return err
			case <-s.ended:
				return s.sayGoodbye(stream, broken)
			}
		}
		if err := stream.Send(event); err != nil {
			return fmt.Errorf("sending an event: %w", err)
		}
		s.sent(event)
	}
}

// sayGoodbye closes our side, and waits until runtimed has read everything and closes its own.
func (s *sessions) sayGoodbye(stream eventStream, broken <-chan error) error {
	if err := stream.CloseSend(); err != nil {
		return fmt.Errorf("closing the stream: %w", err)
	}
	select {
	case err := <-broken:
		return err
	case <-time.After(goodbye):
		return nil
	}
}
