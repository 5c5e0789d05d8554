package runtimeserver_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// stubborn leaves nothing out that could keep processes alive, and says their pids.
const stubborn = `
trap '' TERM HUP INT
setsid sh -c 'trap "" TERM HUP; echo $$; exec >/dev/null 2>&1; while :; do sleep 1000; done' &
( setsid sh -c 'echo $$; exec sleep 1000' & )
echo $$
sleep 1000 &
echo $! ready
while :; do sleep 1000; done`

func startStubborn(t *testing.T, r *runtimed, id string) []int {
	t.Helper()
	r.script(t, id, stubborn)
	var left []int
	r.await(t, "four pids of "+id, func() bool {
		left = pids(t, strings.Fields(r.record(id).stdout.String()))
		return len(left) == 4
	})
	return left
}

func TestNothingSurvivesAServerThatIsKilled(t *testing.T) {
	for name, signalSupervisors := range map[string]syscall.Signal{
		"": 0, "while its supervisors are stopped": syscall.SIGSTOP,
	} {
		t.Run(name, func(t *testing.T) {
			r, server := start(t)
			var left []int
			for i := range 4 {
				left = append(left, startStubborn(t, r, fmt.Sprint(i))...)
			}
			supervisors := childrenOf(server.cmd.Process.Pid)
			if signalSupervisors != 0 {
				for _, pid := range supervisors {
					_ = syscall.Kill(pid, signalSupervisors)
				}
			}
			if err := server.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			awaitGone(t, append(left, supervisors...)...)
		})
	}
}

func TestASupervisorThatIsKilled(t *testing.T) {
	cases := map[string]string{
		"by its script":                     "kill -9 $PPID; sleep 1000",
		"by its script, which ends at once": "kill -9 $PPID",
		"by a child, with daemons running": `
			setsid sh -c 'echo $$ >>left; exec >/dev/null 2>&1; exec sleep 1000' &
			( setsid sh -c 'echo $$ >>left; trap "" TERM; while :; do sleep 1000; done' & )
			until [ "$(wc -l <left)" = 2 ]; do :; done
			parent=$PPID; sh -c "kill -9 $parent"; sleep 1000`,
	}
	r, server := start(t)
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			for i := range 10 {
				dir := t.TempDir()
				left := write(t, filepath.Join(dir, "left"), "", 0o600)
				id := name + strconv.Itoa(i)
				r.execute(t, &runtimev1.Execute{
					ExecutionId: id, WorkingDirectory: dir, Argv: []string{"/bin/sh", "-c", "echo $$ >&2;" + script},
				})
				rec := r.awaitExited(t, id)
				text, err := os.ReadFile(left)
				if err != nil {
					t.Fatal(err)
				}
				requireGone(t, pids(t, strings.Fields(string(text)+rec.stderr.String()))...)
				if rec.exited.GetCause() != runtimev1.ExitCause_EXIT_CAUSE_SUPERVISOR_LOST {
					t.Errorf("got %v", rec.exited)
				}
			}
		})
	}
	r.script(t, "after", "exit 5")
	if rec := r.awaitExited(t, "after"); rec.exited.GetExitCode() != 5 {
		t.Errorf("got %v", rec.exited)
	}
	requireNoZombies(t, server.cmd.Process.Pid)
}

func TestOthersLiveOnWhenASupervisorIsKilled(t *testing.T) {
	r, _ := start(t)
	r.script(t, "lives", "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done")
	r.awaitStdout(t, "lives", "ready")
	r.script(t, "dies", "kill -9 $PPID; sleep 1000")
	r.awaitExited(t, "dies")
	r.stop(t, "lives", patience)
	rec := r.awaitExited(t, "lives")
	if rec.exited.GetExitCode() != 3 || rec.stdout.String() != "ready\nbye\n" {
		t.Errorf("got %v and output %q", rec.exited, rec.stdout.String())
	}
}

func TestSupervisorsThatAreKilledWhileTheyWait(t *testing.T) {
	r, server := start(t)
	for i := range 20 {
		for _, pid := range childrenOf(server.cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		id := fmt.Sprint(i)
		r.script(t, id, "exit 5")
		exited := r.awaitExited(t, id).exited
		switch {
		case exited.GetCause() == exitedCause && exited.GetExitCode() == 5:
		case exited.GetCause() == runtimev1.ExitCause_EXIT_CAUSE_SUPERVISOR_LOST: // It had the spec when it died.
		default:
			t.Errorf("got %v", exited)
		}
	}
}

func TestSignalsToSupervisorAndServerHaveNoEffect(t *testing.T) {
	r, server := start(t)
	for _, signal := range []string{
		"TERM", "INT", "HUP", "QUIT", "ABRT", "USR1", "ALRM", "TSTP", "CHLD", "PIPE", "SEGV", "BUS", "TRAP", "SYS", "PROF",
	} {
		r.script(t, signal, fmt.Sprintf("kill -%s $PPID %d; exit 3", signal, server.cmd.Process.Pid))
		want := outcome{Started: true, Cause: exitedCause, Code: 3}
		if diff := cmp.Diff(want, outcomeOf(r.awaitExited(t, signal))); diff != "" {
			t.Errorf("outcome with %s (-want +got):\n%s", signal, diff)
		}
	}
	r.script(t, "STOP", "kill -STOP $PPID; exit 3")
	if rec := r.awaitExited(t, "STOP"); rec.exited.GetExitCode() != 3 {
		t.Errorf("got %v", rec.exited)
	}
}

func TestAForkBombIsStopped(t *testing.T) {
	const bomb = `
f() { echo x; if [ $1 -gt 0 ]; then f $(($1-1)) & setsid sh bomb $(($1-1)) & fi; exec sleep 1000; }
f $1`
	r, server := start(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bomb"), bomb, 0o600)
	r.execute(t, &runtimev1.Execute{
		ExecutionId: "x", WorkingDirectory: dir, Argv: []string{"/bin/sh", "bomb", "9"}, // 1023 processes at most
	})
	r.await(t, "200 processes", func() bool { return r.record("x").bytes() >= 400 })
	descendants := len(childrenOf(server.cmd.Process.Pid))
	r.stop(t, "x", 0)
	if exited := r.awaitExited(t, "x").exited; exited.GetCause() != stoppedCause {
		t.Errorf("got %v with %d children", exited, descendants)
	}
	requireNobodyIn(t, dir)
}

// requireNobodyIn fails when a process works in dir.
func requireNobodyIn(t *testing.T, dir string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir) {
			t.Errorf("%s is still in %s", link, target)
		}
	}
}

func TestAServerAsPID1(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	unshare, unshareErr := exec.LookPath("unshare")
	nsenter, nsenterErr := exec.LookPath("nsenter")
	if unshareErr != nil || nsenterErr != nil {
		t.Skip("needs unshare and nsenter")
	}
	r := newRuntimed(t, filepath.Join(t.TempDir(), "runtimed.sock"))
	container := startCommand(t, unshare, "--pid", "--fork", "--mount-proc", "--kill-child", binary, "serve", "--socket="+r.socket)
	r.script(t, "x", "( setsid sleep 1000 & ); tr '\\0' '\\n' </proc/1/cmdline | sed -n 2p; exit 3")
	want := outcome{Started: true, Cause: exitedCause, Code: 3, Stdout: "serve\n"}
	if diff := cmp.Diff(want, outcomeOf(r.awaitExited(t, "x"))); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	r.script(t, "y", "kill -9 1; kill -9 $PPID; sleep 1000") // PID 1 cannot be killed from within.
	if rec := r.awaitExited(t, "y"); rec.exited.GetCause() != runtimev1.ExitCause_EXIT_CAUSE_SUPERVISOR_LOST || rec.exited.GetMessage() != "" {
		t.Errorf("got %v", rec.exited)
	}

	// What somebody who opens a shell in the container leaves behind comes to PID 1 without a word.
	server := childrenOf(container.cmd.Process.Pid)[0]
	shell := exec.Command(nsenter, "--target", fmt.Sprint(server), "--pid", "--mount", "/bin/sh", "-c",
		"setsid sleep 1000 >/dev/null 2>&1 &")
	if output, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("entering the container: %v\n%s", err, output)
	}
	var orphans []int
	for _, pid := range childrenOf(server) {
		argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && len(argv) > 0 && !bytes.Contains(argv, []byte(filepath.Base(binary))) {
			orphans = append(orphans, pid)
		}
	}
	if len(orphans) != 1 {
		t.Fatalf("the server got the orphans %v", orphans)
	}
	r.script(t, "z", "true")
	r.awaitExited(t, "z")
	awaitGone(t, orphans...)
	requireNoZombies(t, server)
}
