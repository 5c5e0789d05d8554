package server

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	testingclock "k8s.io/utils/clock/testing"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

const patience = 10 * time.Second

// memory keeps a nonce as state.Store does.
type memory struct{ nonce string }

func (m *memory) Nonce() (string, error)       { return m.nonce, nil }
func (m *memory) SaveNonce(nonce string) error { m.nonce = nonce; return nil }

// bench is a Connection that is served on a socket, and its clock.
type bench struct {
	*Connection
	t      *testing.T
	clock  *testingclock.FakeClock
	socket string
}

func serve(t *testing.T, nonces NonceStore) *bench {
	t.Helper()
	b := &bench{t: t, clock: testingclock.NewFakeClock(time.Unix(1000, 0)), socket: filepath.Join(t.TempDir(), "s")}
	c, err := New(Options{Nonces: nonces, Clock: b.clock, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	b.Connection = c
	l, err := Listen(b.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return b
}

// peer is a runtime server that does what the test says.
type peer struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[runtimev1.ServerEvent, runtimev1.Command]
	hangUp context.CancelFunc
}

// dial opens a stream and says Hello.
func (b *bench) dial(hello *runtimev1.Hello) *peer {
	b.t.Helper()
	conn, err := grpc.NewClient("unix:"+b.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithCancel(b.t.Context())
	stream, err := runtimev1.NewRuntimedServiceClient(conn).Connect(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	p := &peer{t: b.t, stream: stream, hangUp: cancel}
	if hello != nil {
		p.send(&runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Hello{Hello: hello}})
	}
	return p
}

// join dials and returns the nonce of the Welcome.
func (b *bench) join(hello *runtimev1.Hello) (*peer, string) {
	b.t.Helper()
	hello.ProtocolVersion = 2
	p := b.dial(hello)
	nonce := p.receive().GetWelcome().GetNonce()
	if nonce == "" {
		b.t.Fatal("no nonce")
	}
	within(b.t, b.Up(), "the connection to be up")
	return p, nonce
}

func (p *peer) send(event *runtimev1.ServerEvent) {
	p.t.Helper()
	if err := p.stream.Send(event); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) receive() *runtimev1.Command {
	p.t.Helper()
	cmd, err := p.stream.Recv()
	if err != nil {
		p.t.Fatal(err)
	}
	return cmd
}

func (p *peer) exits(id string) {
	p.t.Helper()
	p.send(&runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Exited{Exited: &runtimev1.Exited{ExecutionId: id}}})
}

func (p *peer) writes(id string, offset int64, text string) {
	p.t.Helper()
	p.send(&runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Output{
		Output: &runtimev1.Output{ExecutionId: id, Offset: offset, Data: []byte(text)}}})
}

func (p *peer) starts(id string) {
	p.t.Helper()
	p.send(&runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Started{Started: &runtimev1.Started{ExecutionId: id}}})
}

// expect receives commands and compares them with want.
func (p *peer) expect(want ...*runtimev1.Command) {
	p.t.Helper()
	for _, cmd := range want {
		if diff := cmp.Diff(cmd, p.receive(), protocmp.Transform()); diff != "" {
			p.t.Fatalf("-want +got:\n%s", diff)
		}
	}
}

// leave ends the stream and waits until the Connection knows.
func (p *peer) leave(b *bench) {
	p.t.Helper()
	before := b.Up()
	p.hangUp()
	eventually(p.t, "the loss to be noticed", func() bool { return b.Up() != before })
}

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s", what)
		case <-tick.C:
		}
	}
}

func within[T any](t *testing.T, channel <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-channel:
		return v
	case <-time.After(patience):
		t.Fatalf("waiting for %s", what)
	}
	panic("unreachable")
}

func noOutput(Output) int { return 0 }

func execute(t *testing.T, b *bench, id string, output OutputFunc) *Execution {
	t.Helper()
	e, err := b.Execute(&runtimev1.Execute{ExecutionId: id}, output)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExecution(t *testing.T) {
	b := serve(t, &memory{})
	if _, err := b.Execute(&runtimev1.Execute{ExecutionId: "x"}, noOutput); err != ErrNotConnected { //nolint:errorlint // it is returned as it is
		t.Errorf("want ErrNotConnected, got %v", err)
	}
	p, _ := b.join(&runtimev1.Hello{})
	var got bytes.Buffer
	e := execute(t, b, "a", func(output Output) int { got.Write(output.Data); return 0 })
	if id := p.receive().GetExecute().GetExecutionId(); id != "a" {
		t.Errorf("want Execute of a, got %q", id)
	}
	b.Stop("unknown", 0)
	b.Stop("a", 3*time.Second)
	want := &runtimev1.Stop{ExecutionId: "a", GraceMillis: 3000}
	if diff := cmp.Diff(want, p.receive().GetStop(), protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	p.send(&runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Started{Started: &runtimev1.Started{ExecutionId: "a", StartTimeUnixMicros: 7}}})
	p.writes("a", 0, "one")
	p.writes("a", 0, "one")
	p.writes("a", 1, "netwo")
	p.writes("stranger", 0, "x")
	p.exits("a")
	p.exits("a")
	if ev := within(t, e.Events(), "Started"); ev.Started.GetStartTimeUnixMicros() != 7 {
		t.Errorf("want Started, got %+v", ev)
	}
	if ev := within(t, e.Events(), "Exited"); ev.Exited == nil {
		t.Errorf("want Exited, got %+v", ev)
	}
	if got.String() != "onetwo" {
		t.Errorf("got output %q", got.String())
	}
}

func TestStrangersAreRefused(t *testing.T) {
	b := serve(t, &memory{})
	b.join(&runtimev1.Hello{})
	_, err := b.dial(&runtimev1.Hello{ProtocolVersion: 2}).stream.Recv()
	if status.Code(err) != codes.AlreadyExists {
		t.Errorf("a second server: want AlreadyExists, got %v", err)
	}
	silent := b.dial(nil)
	refused := make(chan error, 1)
	go func() { _, err := silent.stream.Recv(); refused <- err }()
	eventually(t, "the time of the silent one to run", b.clock.HasWaiters)
	b.clock.Step(helloTimeout)
	if err := within(t, refused, "the refusal"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a silent one: want DeadlineExceeded, got %v", err)
	}
}

func TestReconnectKeepsWhatStillRuns(t *testing.T) {
	b := serve(t, &memory{})
	p, nonce := b.join(&runtimev1.Hello{})
	kept, ended := execute(t, b, "kept", noOutput), execute(t, b, "ended", noOutput)
	p.receive()
	p.receive()
	p.leave(b)
	b.Stop("kept", time.Second)
	p, again := b.join(&runtimev1.Hello{Nonce: nonce, Executions: []string{"kept"}})
	if again != nonce {
		t.Errorf("want the same nonce, got %q", again)
	}
	if ev := within(t, ended.Events(), "the loss"); !ev.Lost {
		t.Errorf("want Lost, got %+v", ev)
	}
	p.expect(attachCommand("kept"), stopCommand("kept", time.Second))
	b.clock.Step(time.Minute) // the timer of the loss means nothing any more
	p.exits("kept")
	if ev := within(t, kept.Events(), "Exited"); ev.Exited == nil {
		t.Errorf("want Exited, got %+v", ev)
	}
}

func TestServerThatDoesNotComeBack(t *testing.T) {
	b := serve(t, &memory{})
	p, nonce := b.join(&runtimev1.Hello{})
	e := execute(t, b, "a", noOutput)
	p.leave(b)
	b.clock.Step(DefaultWindow - time.Millisecond)
	select {
	case ev := <-e.Events():
		t.Fatalf("too early: %+v", ev)
	default:
	}
	b.clock.Step(time.Millisecond)
	if ev := within(t, e.Events(), "the loss"); !ev.Lost {
		t.Errorf("want Lost, got %+v", ev)
	}
	if _, next := b.join(&runtimev1.Hello{}); next == nonce {
		t.Error("a new server got the nonce of the old one")
	}
}

// TestRestart connects the server of an earlier runtimed.
func TestRestart(t *testing.T) {
	b := serve(t, &memory{nonce: "n"})
	p, _ := b.join(&runtimev1.Hello{Nonce: "n", Executions: []string{"old", "unwanted", "kept"}})
	if _, err := b.Attach("never seen", noOutput); !errors.Is(err, ErrUnknown) {
		t.Errorf("want ErrUnknown, got %v", err)
	}
	within(t, b.Gone("never seen"), "an unknown execution to be gone")
	gone := b.Gone("old")
	p.expect(stopCommand("old", 0), attachCommand("old"))
	select {
	case <-gone:
		t.Error("gone before it has exited")
	default:
	}
	b.Settle(map[string]bool{"kept": true})
	p.expect(stopCommand("unwanted", 0), attachCommand("unwanted"))
	p.exits("old")
	within(t, gone, "the old execution to be gone")
	p.expect(forgetCommand("old"))

	var got []Output
	kept, err := b.Attach("kept", func(output Output) int {
		output.Data = bytes.Clone(output.Data)
		got = append(got, output)
		return 3
	})
	if err != nil {
		t.Fatal(err)
	}
	p.expect(attachCommand("kept"))
	p.starts("kept")
	p.writes("kept", 1000, strings.Repeat("x", acknowledgeAfter+2))
	p.writes("kept", 1000+acknowledgeAfter+2, "y")
	p.exits("kept")
	if ev := within(t, kept.Events(), "Started"); ev.Started == nil {
		t.Errorf("want Started, got %+v", ev)
	}
	if ev := within(t, kept.Events(), "Exited"); ev.Exited == nil {
		t.Errorf("want Exited, got %+v", ev)
	}
	p.expect(&runtimev1.Command{Command: &runtimev1.Command_Acknowledge{
		Acknowledge: &runtimev1.Acknowledge{ExecutionId: "kept", Bytes: 1000 + acknowledgeAfter}}})
	if len(got) != 2 || got[0].Offset != 1000 || got[1].Offset != 1000+acknowledgeAfter+2 {
		t.Errorf("got %d outputs: %v", len(got), got)
	}

	p.leave(b)
	p, _ = b.join(&runtimev1.Hello{Nonce: "n", Executions: []string{"kept"}}) // its end was told, and is not asked for again
	b.Forget("kept")
	p.expect(forgetCommand("kept"))
	b.Forget("kept")
	p.leave(b)
	p, _ = b.join(&runtimev1.Hello{Nonce: "n", Executions: []string{"kept"}}) // the server did not hear that
	p.expect(stopCommand("kept", 0), attachCommand("kept"))
	p.exits("kept")
	p.expect(forgetCommand("kept"))
}

// TestStartedIsDeliveredOnce fills the channel of events with what a server says again on every stream.
func TestStartedIsDeliveredOnce(t *testing.T) {
	b := serve(t, &memory{})
	p, nonce := b.join(&runtimev1.Hello{})
	e := execute(t, b, "a", noOutput)
	p.receive()
	for range 3 {
		p.starts("a")
		p.leave(b)
		p, _ = b.join(&runtimev1.Hello{Nonce: nonce, Executions: []string{"a"}})
		p.expect(attachCommand("a"))
	}
	p.starts("a")
	p.exits("a")
	if ev := within(t, e.Events(), "Started"); ev.Started == nil {
		t.Errorf("want Started, got %+v", ev)
	}
	if ev := within(t, e.Events(), "Exited"); ev.Exited == nil {
		t.Errorf("want Exited, got %+v", ev)
	}
}

func TestUnkillableTakesTheServerOutOfService(t *testing.T) {
	b := serve(t, &memory{})
	p, nonce := b.join(&runtimev1.Hello{})
	e := execute(t, b, "a", noOutput)
	p.send(&runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Exited{
		Exited: &runtimev1.Exited{ExecutionId: "a", Cause: runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE}}})
	within(t, e.Events(), "Exited")
	if ok, why := b.Ready(); ok || why == "" {
		t.Errorf("want not ready and why, got %v %q", ok, why)
	}
	if _, err := b.Execute(&runtimev1.Execute{ExecutionId: "b"}, noOutput); err == nil {
		t.Error("an execution was accepted")
	}
	p.leave(b)
	p, _ = b.join(&runtimev1.Hello{Nonce: nonce})
	if ok, _ := b.Ready(); ok {
		t.Error("the same server is ready again")
	}
	p.leave(b)
	b.clock.Step(DefaultWindow)
	b.join(&runtimev1.Hello{})
	if ok, why := b.Ready(); !ok {
		t.Errorf("a new server is not ready: %s", why)
	}
}

func TestListenAtAnyPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "runtimed.sock")
	for range 2 { // the second takes the place of what the first left
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != os.ModeSocket|0o660 {
			t.Errorf("want a socket of mode 0660, got %v, %v", info, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
