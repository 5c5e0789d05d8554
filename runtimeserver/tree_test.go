package runtimeserver_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// maxSupervisors is how many supervisors may wait when nothing runs.
const maxSupervisors = 32

// Everything that a script leaves behind says its pid on standard output, and must be gone when Exited comes.
func TestNothingSurvivesTheMainProcess(t *testing.T) {
	cases := map[string]string{
		"a background process":             `sleep 1000 & echo $!`,
		"a process in its own session":     `setsid sh -c 'echo $$ >fifo; exec sleep 1000' & read pid <fifo; echo $pid`,
		"a daemon by double fork":          `( setsid sh -c 'echo $$ >fifo; exec sleep 1000' & ) ; read pid <fifo; echo $pid`,
		"a process that ignores SIGTERM":   `sh -c 'trap "" TERM HUP INT; echo $$ >fifo; while :; do sleep 1000; done' & read pid <fifo; echo $pid $!`,
		"a process that closed its pipes":  `sh -c 'exec >/dev/null 2>&1 </dev/null; echo $$ >fifo; exec sleep 1000' & read pid <fifo; echo $pid`,
		"a process that is stopped":        `sleep 1000 & echo $!; kill -STOP $!`,
		"a pair that restarts each other":  pair,
		"a chain that forks and exits":     `sh -c 'c() { ( c ) & }; c' & echo $!`,
		"a tree three levels deep":         `sh -c 'echo $$; sh -c "echo \$\$; sleep 1000 & echo \$! >fifo; wait" & wait' & read pid <fifo; echo $pid`,
		"two hundred children":             `i=0; while [ $i -lt 200 ]; do sleep 1000 & echo $!; i=$((i+1)); done`,
		"children that fork two more each": `sh -c 'sleep 1000 & echo $!; sleep 1000 & echo $!; echo >fifo; wait' & read x <fifo`,
	}
	r, _ := start(t)
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r.execute(t, &runtimev1.Execute{
				ExecutionId: name, WorkingDirectory: dir, Argv: []string{"/bin/sh", "-c", "mkfifo fifo; " + script + "; echo end; exit 3"},
			})
			rec := r.awaitExited(t, name)
			left := pids(t, strings.Fields(rec.stdout.String()))
			t.Logf("cleared in %v", time.Since(time.UnixMicro(rec.exited.GetExitTimeUnixMicros())))
			requireGone(t, left...)
			if len(left) == 0 {
				t.Fatalf("the script named no process: %q, %q", rec.stdout.String(), rec.stderr.String())
			}
			if rec.exited.GetCause() != exitedCause || rec.exited.GetExitCode() != 3 {
				t.Errorf("got %v, want exit code 3", rec.exited)
			}
		})
	}
}

// pair starts two processes that each start the other one again when it dies.
const pair = `
cat >one <<'END'
while :; do sh two & echo $$ $! >>pids; wait $!; done
END
cat >two <<'END'
echo $$ >>pids
sleep 1000 & wait $!
setsid sh one &
END
setsid sh one &
until [ -s pids ]; do :; done
cat pids`

// A chain in which every link leaves its session, so that no process group holds two of them.
func TestAChainOfSessionsIsCaught(t *testing.T) {
	perl, err := exec.LookPath("perl")
	if err != nil {
		t.Skip("needs perl")
	}
	r, server := start(t)
	const chain = `use POSIX; $| = 1; fork and do { sleep 1 while !-e "chained"; print "end\n"; exit 5 };
		my $n = 0; while (1) { fork and POSIX::_exit(0); POSIX::setsid(); if (++$n == 50) { open F, ">chained"; close F } }`
	r.execute(t, &runtimev1.Execute{
		ExecutionId: "chain", WorkingDirectory: t.TempDir(), Argv: []string{perl, "-e", chain},
	})
	rec := r.awaitExited(t, "chain")
	if rec.exited.GetCause() != exitedCause {
		t.Errorf("got %v", rec.exited)
	}
	r.shutdown(t)
	server.awaitEnd(t)
}

func TestStop(t *testing.T) {
	const long = time.Hour
	// What is ready has no trap of its parent any more: a shell forgets a signal that hits between fork and exec.
	cases := map[string]struct {
		script string
		grace  time.Duration
		want   outcome
	}{
		"ends a script by SIGTERM": {
			script: "echo ready; sleep 1000", grace: long,
			want: outcome{Started: true, Cause: stoppedCause, Code: 143, Message: "ended by signal 15 (terminated)", Stdout: "ready\n"},
		},
		"lets a script clean up and keeps its exit code": {
			script: "trap 'echo cleaned; exit 7' TERM; sh -c 'echo ready; exec sleep 1000' & wait", grace: long,
			want: outcome{Started: true, Cause: stoppedCause, Code: 7, Stdout: "ready\ncleaned\n"},
		},
		"lets a child clean up when the main process is faster": {
			script: `sh -c 'trap "echo cleaned; exit" TERM; sh -c "echo ready; exec sleep 1000" & wait'; echo not reached`, grace: long,
			want: outcome{Started: true, Cause: stoppedCause, Code: 143, Message: "ended by signal 15 (terminated)", Stdout: "ready\ncleaned\n"},
		},
		"kills a script that ignores SIGTERM": {
			script: "trap '' TERM; echo ready; while :; do sleep 1000; done", grace: 50 * time.Millisecond,
			want: outcome{Started: true, Cause: stoppedCause, Code: 137, Message: "ended by signal 9 (killed)", Stdout: "ready\n"},
		},
		"kills a script that forks on SIGTERM": {
			script: "trap 'while :; do setsid sleep 1000 & done' TERM; sleep 1000 & echo ready; wait", grace: 50 * time.Millisecond,
			want: outcome{Started: true, Cause: stoppedCause, Code: 137, Message: "ended by signal 9 (killed)", Stdout: "ready\n"},
		},
		"reaches a script that is stopped": {
			script: "sh -c 'kill -STOP $PPID; echo ready'; sleep 1000", grace: long,
			want: outcome{Started: true, Cause: stoppedCause, Code: 143, Message: "ended by signal 15 (terminated)", Stdout: "ready\n"},
		},
		"kills at once without grace": {
			script: "trap 'echo cleaned' TERM; sleep 1000 & echo ready; wait", grace: 0,
			want: outcome{Started: true, Cause: stoppedCause, Code: 137, Message: "ended by signal 9 (killed)", Stdout: "ready\n"},
		},
	}
	r, _ := start(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r.script(t, name, c.script)
			r.awaitStdout(t, name, "ready")
			r.stop(t, name, c.grace)
			if diff := cmp.Diff(c.want, outcomeOf(r.awaitExited(t, name))); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASecondStopShortensTheGrace(t *testing.T) {
	r, _ := start(t)
	r.script(t, "x", "trap 'echo heard' TERM; sleep 1000 & echo ready; while :; do wait $!; sleep 1000 & done")
	r.awaitStdout(t, "x", "ready")
	r.stop(t, "x", time.Hour)
	r.awaitStdout(t, "x", "heard")
	r.stop(t, "x", 2*time.Hour)
	r.stop(t, "x", 10*time.Millisecond)
	if rec := r.awaitExited(t, "x"); rec.exited.GetCause() != stoppedCause || rec.exited.GetExitCode() != 137 {
		t.Errorf("got %v", rec.exited)
	}
}

func TestStopRightAfterExecute(t *testing.T) {
	r, _ := start(t)
	for i := range 100 {
		id := fmt.Sprintf("x%d", i)
		r.script(t, id, "sleep 1000 & echo $!; wait")
		r.stop(t, id, time.Duration(i%3)*time.Hour)
	}
	for i := range 100 {
		rec := r.awaitExited(t, fmt.Sprintf("x%d", i))
		requireGone(t, pids(t, strings.Fields(rec.stdout.String()))...)
		if rec.exited.GetCause() != stoppedCause {
			t.Errorf("got %v", rec.exited)
		}
	}
}

func TestStopRacesWithExit(t *testing.T) {
	r, _ := start(t)
	for i := range 100 {
		id := fmt.Sprintf("x%d", i)
		r.script(t, id, "exit 4")
		if i%2 == 0 {
			r.await(t, "start", func() bool { return r.record(id).started != nil })
		}
		r.stop(t, id, time.Hour)
	}
	for i := range 100 {
		exited := r.awaitExited(t, fmt.Sprintf("x%d", i)).exited
		switch {
		case exited.GetCause() == exitedCause && exited.GetExitCode() == 4:
		case exited.GetCause() == stoppedCause:
		default:
			t.Errorf("got %v", exited)
		}
	}
}

func TestAnExecutionRunsOnce(t *testing.T) {
	r, _ := start(t)
	dir := t.TempDir()
	again := &runtimev1.Execute{
		ExecutionId: "x", WorkingDirectory: dir, Argv: []string{"/bin/sh", "-c", "echo ran >>log; mkfifo f; echo ready; read x <f"},
	}
	r.execute(t, again)
	r.execute(t, again)
	r.awaitStdout(t, "x", "ready")
	r.execute(t, again)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.awaitExited(t, "x")
	r.execute(t, again)
	r.script(t, "y", "cat "+dir+"/log")
	want := outcome{Started: true, Cause: exitedCause, Stdout: "ran\n"}
	if diff := cmp.Diff(want, outcomeOf(r.awaitExited(t, "y"))); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestTwoHundredExecutionsSixteenAtATime(t *testing.T) {
	r, server := start(t)
	const total, parallel = 200, 16
	begin := func(i int) {
		r.script(t, fmt.Sprint(i), fmt.Sprintf("echo %d; echo e%d >&2; sleep 1000 & exit %d", i, i, i%7))
	}
	for i := range parallel {
		begin(i)
	}
	for i := range total {
		got := outcomeOf(r.awaitExited(t, fmt.Sprint(i)))
		want := outcome{
			Started: true, Cause: exitedCause, Code: int32(i % 7),
			Stdout: fmt.Sprintf("%d\n", i), Stderr: fmt.Sprintf("e%d\n", i),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outcome of %d (-want +got):\n%s", i, diff)
		}
		if next := i + parallel; next < total {
			begin(next)
		}
	}
	requireNoZombies(t, server.cmd.Process.Pid)
}

// requireNoZombies waits until a server has no child but supervisors that live, and none too many of them.
func requireNoZombies(t *testing.T, server int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	var states []string
	for time.Now().Before(deadline) {
		states = states[:0]
		for _, pid := range childrenOf(server) {
			states = append(states, stateOf(pid))
		}
		if len(states) <= maxSupervisors && !slices.Contains(states, "Z") {
			return
		}
	}
	t.Errorf("the server has children in the states %q", states)
}
