package runtimeserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// awaitHello waits for the n-th Hello, counted from 1.
func (r *runtimed) awaitHello(t *testing.T, n int) *runtimev1.Hello {
	t.Helper()
	r.await(t, fmt.Sprintf("Hello %d", n), func() bool { return len(r.hellos) >= n && r.stream != nil })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hellos[n-1]
}

func TestExecutionsSurviveTheLossOfTheSession(t *testing.T) {
	r, _ := start(t)
	dir := t.TempDir()
	in := func(id, script string) {
		r.execute(t, &runtimev1.Execute{
			ExecutionId: id, WorkingDirectory: dir, Argv: []string{"/bin/sh", "-c", "mkfifo " + id + "; " + script},
		})
	}
	in("ends-after", "echo ready; read x <ends-after; echo more; exit 2")
	in("ends-meanwhile", "echo ready; read x <ends-meanwhile; echo more; exit 3")
	in("is-noisy", "echo ready; read x <is-noisy; head -c 1000000 /dev/zero; exit 4")
	in("ended-before", "echo ready")
	for _, id := range []string{"ends-after", "ends-meanwhile", "is-noisy"} {
		r.awaitStdout(t, id, "ready")
	}
	r.awaitExited(t, "ended-before")
	if hello := r.awaitHello(t, 1); hello.GetNonce() != "" || hello.GetProtocolVersion() != 2 || len(hello.GetExecutions()) > 0 {
		t.Errorf("a new server says %v", hello)
	}

	r.goAway()
	write(t, filepath.Join(dir, "ends-meanwhile"), "go\n", 0o600)
	write(t, filepath.Join(dir, "is-noisy"), "go\n", 0o600)
	r.listen(t)

	want := &runtimev1.Hello{
		ProtocolVersion: 2, Nonce: r.nonce, Executions: []string{"ends-after", "ends-meanwhile", "is-noisy"},
	}
	hello := r.awaitHello(t, 2)
	if diff := cmp.Diff(want, hello, cmpopts.IgnoreUnexported(runtimev1.Hello{}), cmpopts.IgnoreFields(runtimev1.Hello{}, "ServerVersion")); diff != "" {
		t.Errorf("second Hello (-want +got):\n%s", diff)
	}
	write(t, filepath.Join(dir, "ends-after"), "go\n", 0o600)
	for id, want := range map[string]outcome{
		"ends-after":     {Started: true, Cause: exitedCause, Code: 2, Stdout: "ready\nmore\n"},
		"ends-meanwhile": {Started: true, Cause: exitedCause, Code: 3, Stdout: "ready\nmore\n"},
		"is-noisy":       {Started: true, Cause: exitedCause, Code: 4, Stdout: "ready\n" + strings.Repeat("\x00", 1000000)},
	} {
		if diff := cmp.Diff(want, outcomeOf(r.awaitExited(t, id))); diff != "" {
			t.Errorf("outcome of %s (-want +got):\n%s", id, diff)
		}
	}
}

// restart takes the place of a runtimed that was killed: it knows nothing but the nonce.
func (r *runtimed) restart(t *testing.T) {
	t.Helper()
	r.goAway()
	r.mu.Lock()
	r.records = map[string]*record{}
	r.mu.Unlock()
	r.listen(t)
}

func TestARestartedRuntimedHearsWhatItDidNotAcknowledge(t *testing.T) {
	r, _ := start(t)
	r.keeps, r.silent = true, true
	dir := t.TempDir()
	r.execute(t, &runtimev1.Execute{ExecutionId: "goes-on", WorkingDirectory: dir,
		Argv: []string{"/bin/sh", "-c", "mkfifo f; echo first; echo second >&2; read x <f; echo third; exit 5"}})
	r.script(t, "ended", "echo all; exit 6")
	r.awaitStdout(t, "goes-on", "first")
	r.awaitExited(t, "ended")
	r.command(t, &runtimev1.Command{Command: &runtimev1.Command_Acknowledge{Acknowledge: &runtimev1.Acknowledge{
		ExecutionId: "goes-on", Stream: runtimev1.OutputStream_OUTPUT_STREAM_STDOUT, Bytes: 4}}})
	r.script(t, "after-that", "true") // commands are carried out in order
	r.awaitExited(t, "after-that")

	r.goAway()
	r.mu.Lock()
	r.records = map[string]*record{}
	r.record("goes-on").offsets[runtimev1.OutputStream_OUTPUT_STREAM_STDOUT] = 4
	r.keeps = false
	r.mu.Unlock()
	r.listen(t)
	write(t, filepath.Join(dir, "f"), "go\n", 0o600)
	for id, want := range map[string]outcome{
		"goes-on": {Started: true, Cause: exitedCause, Code: 5, Stdout: "t\nthird\n", Stderr: "second\n"},
		"ended":   {Started: true, Cause: exitedCause, Code: 6, Stdout: "all\n"},
	} {
		if diff := cmp.Diff(want, outcomeOf(r.awaitExited(t, id))); diff != "" {
			t.Errorf("outcome of %s (-want +got):\n%s", id, diff)
		}
	}
	r.script(t, "last", "true")
	r.awaitExited(t, "last")
	r.restart(t)
	for _, id := range r.awaitHello(t, 3).GetExecutions() {
		if id != "last" { // that it is forgotten may not have come through
			t.Errorf("%s was forgotten and is still told", id)
		}
	}
}

func TestOutputThatNobodyAcknowledgesHoldsTheExecutionUp(t *testing.T) {
	r, _ := start(t)
	r.mu.Lock()
	r.silent = true
	r.mu.Unlock()
	r.script(t, "x", "head -c 1000000 /dev/zero")
	r.await(t, "64 KiB", func() bool { return r.record("x").bytes() == 64<<10 })
	r.script(t, "y", "head -c 60000 /dev/zero") // is not held up by the other one
	r.awaitExited(t, "y")
	r.mu.Lock()
	if got := r.record("x").bytes(); got != 64<<10 || r.record("x").exited != nil {
		t.Errorf("%d bytes came, exited: %v", got, r.record("x").exited)
	}
	r.silent = false
	r.mu.Unlock()
	r.command(t, &runtimev1.Command{Command: &runtimev1.Command_Acknowledge{Acknowledge: &runtimev1.Acknowledge{
		ExecutionId: "x", Stream: runtimev1.OutputStream_OUTPUT_STREAM_STDOUT, Bytes: 64 << 10}}})
	r.awaitExited(t, "x")
	if got := r.record("x").bytes(); got != 1000000 {
		t.Errorf("%d bytes came", got)
	}
}

func TestForgetEndsWhatStillRuns(t *testing.T) {
	r, _ := start(t)
	r.script(t, "x", "trap '' TERM; echo $$; exec yes")
	left := pids(t, r.awaitStdout(t, "x", "y")[:1])
	r.command(t, &runtimev1.Command{Command: &runtimev1.Command_Forget{Forget: &runtimev1.Forget{ExecutionId: "x"}}})
	awaitGone(t, left...)
	r.script(t, "x", "echo again") // an id is executed once
	r.script(t, "y", "echo y")
	r.awaitExited(t, "y")
	if rec := r.record("x"); rec.exited != nil {
		t.Errorf("its end was told: %v", rec.exited)
	}
}

func TestTheServerWaitsForRuntimed(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "runtimed.sock")
	startServer(t, socket)
	r := newRuntimed(t, socket)
	r.script(t, "x", "echo hello")
	r.awaitExited(t, "x")
}

func TestARefusedServerTriesAgain(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "runtimed.sock")
	r := newRuntimed(t, socket)
	r.refuse = 3
	startServer(t, socket)
	r.script(t, "x", "echo hello")
	r.awaitExited(t, "x")
}

func TestALongSocketPath(t *testing.T) {
	short := t.TempDir()
	long := filepath.Join(t.TempDir(), strings.Repeat("long-", 30))
	if err := os.Symlink(short, long); err != nil {
		t.Fatal(err)
	}
	r := newRuntimed(t, filepath.Join(short, "runtimed.sock"))
	startServer(t, filepath.Join(long, "runtimed.sock"))
	r.script(t, "x", "echo hello")
	r.awaitExited(t, "x")
}

func TestSignalsEndAServerThatNobodyWelcomed(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			server := startServer(t, filepath.Join(t.TempDir(), "nobody.sock"))
			awaitSupervisors(t, server, 2) // It is up when it has its spare supervisors.
			if err := server.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if code := server.awaitEnd(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestOnlyRuntimedEndsAServerThatWasWelcomed(t *testing.T) {
	r, server := start(t)
	r.script(t, "welcomed", "true")
	r.awaitExited(t, "welcomed")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := server.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	r.script(t, "x", "trap '' TERM; setsid sleep 1000 & echo $!; echo ready; sleep 1000")
	left := pids(t, r.awaitStdout(t, "x", "ready"))
	supervisors := childrenOf(server.cmd.Process.Pid)
	r.shutdown(t)
	if code := server.awaitEnd(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if exited := r.awaitExited(t, "x").exited; exited.GetCause() != stoppedCause || exited.GetExitCode() != 137 {
		t.Errorf("got %v", exited)
	}
	requireGone(t, left...)
	awaitGone(t, supervisors...)
}

// TestAServerThatWasSignalledEndsWithoutRuntimed has a Pod that is being shut down and whose runtimed has died: nobody will
// start it again, and what executes must not go on until the grace period is over.
func TestAServerThatWasSignalledEndsWithoutRuntimed(t *testing.T) {
	for name, first := range map[string]bool{"signalled before runtimed is gone": true, "signalled afterwards": false} {
		t.Run(name, func(t *testing.T) {
			r, server := start(t)
			r.script(t, "x", "trap '' TERM; setsid sleep 1000 & echo $! $$ ready; sleep 1000")
			left := pids(t, r.awaitStdout(t, "x", "ready")[:2])
			signal := func() {
				if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			if first {
				signal()
			}
			r.goAway()
			if !first {
				signal()
			}
			if code := server.awaitEnd(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			requireGone(t, left...)
		})
	}
}

// TestAServerThatWasSignalledWaitsForRuntimed lets a runtimed come back that was restarted.
func TestAServerThatWasSignalledWaitsForRuntimed(t *testing.T) {
	r, server := start(t)
	r.script(t, "x", "echo ready; until [ -e go ]; do sleep 0.05; done")
	r.awaitStdout(t, "x", "ready")
	if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.goAway()
	r.listen(t)
	r.script(t, "after", "exit 7")
	if exited := r.awaitExited(t, "after").exited; exited.GetExitCode() != 7 {
		t.Errorf("got %v", exited)
	}
	r.stop(t, "x", 0)
	r.awaitExited(t, "x")
}

func TestShutdownIsCarriedOutWithoutRuntimed(t *testing.T) {
	r, server := start(t)
	r.script(t, "x", "echo $$ ready; exec yes")
	left := pids(t, r.awaitStdout(t, "x", "ready")[:1])
	r.pause(true) // Nothing gets through any more, the end of the execution included.
	r.shutdown(t)
	awaitGone(t, left...)
	r.goAway()
	if code := server.awaitEnd(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	requireGone(t, left...)
}

// awaitSupervisors waits until a server has n supervisors and returns their pids.
func awaitSupervisors(t *testing.T, server *process, n int) []int {
	t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if found := childrenOf(server.cmd.Process.Pid); len(found) == n {
			return found
		}
	}
	t.Fatalf("the server did not have %d supervisors within %v", n, patience)
	return nil
}
