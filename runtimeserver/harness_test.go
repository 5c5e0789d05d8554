package runtimeserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// patience is how long a test waits for what must happen before it fails.
const patience = time.Minute

// binary is the runtime server, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "runtimeserver")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = os.Getenv("RUNTIME_SERVER")
	if binary == "" {
		binary = filepath.Join(dir, "runtime-server")
		args := append(append([]string{"build"}, buildFlags...), "-o", binary, "kruntimes.io/kruntimes/cmd/runtime-server")
		if output, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the runtime server: %v\n%s", err, output)
			return 1
		}
	}
	return m.Run()
}

// runtimed is the other side of the contract: it records what the server tells it.
type runtimed struct {
	runtimev1.UnimplementedRuntimedServiceServer
	socket string
	nonce  string

	mu      sync.Mutex
	changed *sync.Cond
	grpc    *grpc.Server
	hellos  []*runtimev1.Hello
	stream  grpc.BidiStreamingServer[runtimev1.ServerEvent, runtimev1.Command]
	records map[string]*record
	paused  bool
	refuse  int // how many streams to refuse before one is welcomed
	errs    []string
	// keeps makes the server keep what has ended, silent what was written.
	keeps, silent bool
}

// record is what is known of one execution.
type record struct {
	started        *runtimev1.Started
	stdout, stderr bytes.Buffer
	exited         *runtimev1.Exited
	// offsets is how much came on each stream, acknowledged how much of it the server knows to have come; dropped tells
	// that nothing else was kept of it.
	offsets, acknowledged map[runtimev1.OutputStream]int64
	dropped               bool
	// told tells that something of the execution came on the present session, ended that its end did.
	told, ended bool
}

// bytes is how much came on both streams.
func (r *record) bytes() (sum int) {
	for _, n := range r.offsets {
		sum += int(n)
	}
	return sum
}

func newRuntimed(tb testing.TB, socket string) *runtimed {
	tb.Helper()
	r := &runtimed{socket: socket, nonce: "the-nonce-that-nobody-may-see", records: map[string]*record{}}
	r.changed = sync.NewCond(&r.mu)
	r.listen(tb)
	tb.Cleanup(func() { r.goAway() })
	return r
}

// listen starts to serve, at first or after goAway.
func (r *runtimed) listen(tb testing.TB) {
	tb.Helper()
	listener, err := net.Listen("unix", r.socket)
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer()
	runtimev1.RegisterRuntimedServiceServer(server, r)
	r.mu.Lock()
	r.grpc = server
	r.mu.Unlock()
	go func() { _ = server.Serve(listener) }()
}

// goAway breaks every connection and stops listening.
func (r *runtimed) goAway() {
	r.mu.Lock()
	server := r.grpc
	r.stream, r.paused = nil, false
	r.changed.Broadcast()
	r.mu.Unlock()
	server.Stop()
}

// Connect serves one stream.
func (r *runtimed) Connect(stream grpc.BidiStreamingServer[runtimev1.ServerEvent, runtimev1.Command]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello == nil {
		return status.Error(codes.InvalidArgument, "no hello")
	}
	r.mu.Lock()
	if r.refuse > 0 {
		r.refuse--
		r.mu.Unlock()
		return status.Error(codes.AlreadyExists, "another one is connected")
	}
	if r.stream != nil || len(r.hellos) > 0 && hello.GetNonce() != r.nonce {
		r.mu.Unlock()
		return status.Error(codes.PermissionDenied, "a stranger")
	}
	err = stream.Send(&runtimev1.Command{Command: &runtimev1.Command_Welcome{Welcome: &runtimev1.Welcome{Nonce: r.nonce}}})
	r.hellos = append(r.hellos, hello)
	r.stream = stream
	for _, rec := range r.records {
		rec.told, rec.ended = false, false
	}
	for _, id := range hello.GetExecutions() {
		r.send(&runtimev1.Command{Command: &runtimev1.Command_Attach{Attach: &runtimev1.Attach{ExecutionId: id}}})
	}
	r.changed.Broadcast()
	r.mu.Unlock()
	for err == nil {
		r.awaitUnpaused()
		var event *runtimev1.ServerEvent
		if event, err = stream.Recv(); err == nil {
			r.note(event)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stream == stream {
		r.stream = nil
	}
	r.changed.Broadcast()
	return nil
}

// pause stops reading from the stream, as a slow runtimed would.
func (r *runtimed) pause(paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = paused
	r.changed.Broadcast()
}

func (r *runtimed) awaitUnpaused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.paused {
		r.changed.Wait()
	}
}

// send sends a command. The lock is held.
func (r *runtimed) send(c *runtimev1.Command) {
	if r.stream != nil {
		_ = r.stream.Send(c) // a stream that has ended shows where it is read
	}
}

func (r *runtimed) broke(format string, args ...any) {
	r.errs = append(r.errs, fmt.Sprintf(format, args...))
}

// note records an event and checks the order that the contract promises.
func (r *runtimed) note(event *runtimev1.ServerEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.changed.Broadcast()
	switch e := event.GetEvent().(type) {
	case *runtimev1.ServerEvent_Started:
		rec := r.record(e.Started.GetExecutionId())
		if rec.told {
			r.broke("Started is not the first event: %v", event)
		}
		rec.told, rec.started = true, e.Started
	case *runtimev1.ServerEvent_Output:
		r.noteOutput(e.Output)
	case *runtimev1.ServerEvent_Exited:
		rec := r.record(e.Exited.GetExecutionId())
		if rec.ended {
			r.broke("Exited came twice: %v", event)
		}
		rec.told, rec.ended, rec.exited = true, true, e.Exited
		if !r.keeps {
			r.send(&runtimev1.Command{Command: &runtimev1.Command_Forget{
				Forget: &runtimev1.Forget{ExecutionId: e.Exited.GetExecutionId()}}})
		}
	default:
		r.broke("unexpected event %v", event)
	}
}

// noteOutput keeps what is new. The lock is held.
func (r *runtimed) noteOutput(output *runtimev1.Output) {
	rec, data := r.record(output.GetExecutionId()), output.GetData()
	known := rec.offsets[output.GetStream()]
	if !rec.told || rec.ended || len(data) == 0 || len(data) > 32<<10 || output.GetOffset() > known {
		r.broke("Output of %d bytes at %d when %d were known, told %t, ended %t",
			len(data), output.GetOffset(), known, rec.told, rec.ended)
		return
	}
	end := output.GetOffset() + int64(len(data))
	if end <= known {
		return // it was told before
	}
	data = data[known-output.GetOffset():]
	rec.offsets[output.GetStream()] = end
	switch {
	case rec.dropped:
	case output.GetStream() == runtimev1.OutputStream_OUTPUT_STREAM_STDOUT:
		rec.stdout.Write(data)
	default:
		rec.stderr.Write(data)
	}
	if end-rec.acknowledged[output.GetStream()] >= 16<<10 && !r.silent {
		rec.acknowledged[output.GetStream()] = end
		r.send(&runtimev1.Command{Command: &runtimev1.Command_Acknowledge{Acknowledge: &runtimev1.Acknowledge{
			ExecutionId: output.GetExecutionId(), Stream: output.GetStream(), Bytes: end}}})
	}
}

func (r *runtimed) record(id string) *record {
	rec := r.records[id]
	if rec == nil {
		rec = &record{offsets: map[runtimev1.OutputStream]int64{}, acknowledged: map[runtimev1.OutputStream]int64{}}
		r.records[id] = rec
	}
	return rec
}

// drop makes the output of an execution to come be counted only.
func (r *runtimed) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record(id).dropped = true
}

// await waits until condition holds. The lock is held while it is called.
func (r *runtimed) await(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	over := false
	timer := time.AfterFunc(patience, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		over = true
		r.changed.Broadcast()
	})
	defer timer.Stop()
	for !condition() && !over {
		r.changed.Wait()
	}
	if !condition() {
		tb.Fatalf("waited %v for %s", patience, what)
	}
	if len(r.errs) > 0 {
		tb.Fatalf("the contract was broken: %q", r.errs)
	}
}

func (r *runtimed) command(tb testing.TB, c *runtimev1.Command) {
	tb.Helper()
	r.await(tb, "the server to join", func() bool { return r.stream != nil })
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.stream.Send(c); err != nil {
		tb.Fatalf("sending a command: %v", err)
	}
}

func (r *runtimed) execute(tb testing.TB, e *runtimev1.Execute) {
	tb.Helper()
	if e.WorkingDirectory == "" {
		e.WorkingDirectory = "/"
	}
	r.command(tb, &runtimev1.Command{Command: &runtimev1.Command_Execute{Execute: e}})
}

// script starts a shell script.
func (r *runtimed) script(tb testing.TB, id, script string) {
	tb.Helper()
	r.execute(tb, &runtimev1.Execute{ExecutionId: id, Argv: []string{"/bin/sh", "-c", script}})
}

func (r *runtimed) stop(tb testing.TB, id string, grace time.Duration) {
	tb.Helper()
	r.command(tb, &runtimev1.Command{Command: &runtimev1.Command_Stop{
		Stop: &runtimev1.Stop{ExecutionId: id, GraceMillis: grace.Milliseconds()}}})
}

func (r *runtimed) shutdown(tb testing.TB) {
	tb.Helper()
	r.command(tb, &runtimev1.Command{Command: &runtimev1.Command_Shutdown{Shutdown: &runtimev1.Shutdown{}}})
}

// awaitExited waits for the end of an execution and returns all that is known of it.
func (r *runtimed) awaitExited(tb testing.TB, id string) *record {
	tb.Helper()
	var rec *record
	r.await(tb, "the end of "+id, func() bool {
		rec = r.record(id)
		return rec.exited != nil
	})
	return rec
}

// awaitStdout waits until the standard output of id holds all of words, and returns the fields of it.
func (r *runtimed) awaitStdout(tb testing.TB, id string, words ...string) []string {
	tb.Helper()
	var fields []string
	r.await(tb, fmt.Sprintf("%q on the output of %s", words, id), func() bool {
		output := r.record(id).stdout.String()
		fields = strings.Fields(output)
		for _, word := range words {
			if !strings.Contains(output, word) {
				return false
			}
		}
		return true
	})
	return fields
}

// process is a running runtime server.
type process struct {
	cmd    *exec.Cmd
	stderr *os.File
	ended  chan error
}

// start starts a runtime server and its runtimed in a new directory.
func start(tb testing.TB, args ...string) (*runtimed, *process) {
	tb.Helper()
	socket := filepath.Join(tb.TempDir(), "runtimed.sock")
	r := newRuntimed(tb, socket)
	return r, startServer(tb, socket, args...)
}

func startServer(tb testing.TB, socket string, args ...string) *process {
	tb.Helper()
	return startCommand(tb, append([]string{binary, "serve", "--socket=" + socket}, args...)...)
}

// startCommand starts a server by a command line that ends up in it.
func startCommand(tb testing.TB, argv ...string) *process {
	tb.Helper()
	stderr, err := os.CreateTemp(tb.TempDir(), "stderr")
	if err != nil {
		tb.Fatal(err)
	}
	p := &process{
		cmd:    exec.Command(argv[0], argv[1:]...),
		stderr: stderr, ended: make(chan error, 1),
	}
	p.cmd.Stderr = stderr
	p.cmd.Env = append(os.Environ(), "INHERITED=from the image")
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	tb.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if log, err := os.ReadFile(stderr.Name()); err == nil {
			if bytes.Contains(log, []byte("DATA RACE")) || bytes.Contains(log, []byte("panic")) {
				tb.Errorf("the server says:\n%s", log)
			} else if tb.Failed() {
				tb.Logf("the server says:\n%s", log)
			}
		}
	})
	return p
}

// awaitEnd waits for the end of the server and returns its exit code.
func (p *process) awaitEnd(tb testing.TB) int {
	tb.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		tb.Fatalf("the server did not end within %v", patience)
		return 0
	}
}

// requireGone fails when a process is there. A process that is a zombie, or that just ends, counts as being there.
func requireGone(tb testing.TB, pids ...int) {
	tb.Helper()
	for _, pid := range pids {
		if err := unix.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			tb.Errorf("process %d is still there: kill says %v", pid, err)
		}
	}
}

// awaitGone waits for the end of a process that is not our child.
func awaitGone(tb testing.TB, pids ...int) {
	tb.Helper()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			tb.Fatalf("opening process %d: %v", pid, err)
		}
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		deadline := time.Now().Add(patience)
		n := 0
		for n == 0 && time.Now().Before(deadline) {
			n, _ = unix.Poll(polled, int(time.Until(deadline).Milliseconds()))
			n = max(n, 0) // interrupted
		}
		_ = unix.Close(fd)
		if n == 0 {
			tb.Errorf("process %d did not end within %v", pid, patience)
		}
	}
}

func pids(tb testing.TB, fields []string) []int {
	tb.Helper()
	var found []int
	for _, field := range fields {
		if pid, err := strconv.Atoi(field); err == nil {
			found = append(found, pid)
		}
	}
	return found
}
