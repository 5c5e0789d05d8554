package runtimeserver_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// newCgroup makes a cgroup v1 of a controller below our own, or skips the test.
func newCgroup(t *testing.T, controller string) string {
	t.Helper()
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip("needs cgroups")
	}
	for line := range strings.Lines(string(membership)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || fields[1] != controller {
			continue
		}
		dir := filepath.Join("/sys/fs/cgroup", controller, fields[2], fmt.Sprintf("runtimeserver-%d-%s", os.Getpid(), t.Name()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("needs a cgroup of its own: %v", err)
		}
		t.Cleanup(func() {
			// The kernel still counts processes for a moment after their end.
			for err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist); err = os.Remove(dir) {
				_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)
			}
		})
		return dir
	}
	t.Skipf("needs the %s controller of cgroup v1", controller)
	return ""
}

func set(t *testing.T, dir, name, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

func TestOutOfMemory(t *testing.T) {
	dir := newCgroup(t, "memory")
	set(t, dir, "memory.limit_in_bytes", fmt.Sprint(memoryLimit))
	r := newRuntimed(t, filepath.Join(t.TempDir(), "runtimed.sock"))
	server := startCommand(t, "/bin/sh", "-c", "echo $$ >"+dir+"/cgroup.procs; exec "+binary+" serve --socket="+r.socket)
	t.Cleanup(func() {
		_ = server.cmd.Process.Kill()
		server.awaitEnd(t)
	})
	cases := map[string]struct {
		script string
		want   outcome
	}{
		"the main process": {
			script: "echo start; exec tail /dev/zero",
			want: outcome{Started: true, Cause: runtimev1.ExitCause_EXIT_CAUSE_OOM_KILLED, Code: 137,
				Message: "the kernel killed a process of it for its memory use", Stdout: "start\n"},
		},
		"a child whose code the script passes on": {
			script: "echo start; tail /dev/zero 2>/dev/null; exit $?",
			want: outcome{Started: true, Cause: runtimev1.ExitCause_EXIT_CAUSE_OOM_KILLED, Code: 137,
				Message: "the kernel killed a process of it for its memory use", Stdout: "start\n"},
		},
		"a child that the script can do without": {
			script: "tail /dev/zero 2>/dev/null; echo $?",
			want:   outcome{Started: true, Cause: exitedCause, Stdout: "137\n"},
		},
		"no memory, but a signal of its own": {
			script: "kill -9 $$",
			want:   outcome{Started: true, Cause: exitedCause, Code: 137, Message: "ended by signal 9 (killed)"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r.script(t, name, c.script)
			got := outcomeOf(r.awaitExited(t, name))
			got.Stderr = "" // The shell's word for it.
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// A supervisor that does not carry out a Stop is killed. It may take that in only later.
func TestASupervisorThatIsStuck(t *testing.T) {
	dir := newCgroup(t, "freezer")
	r, _ := start(t, "--unkillable-after=100ms")
	r.script(t, "x", "trap '' TERM; echo $PPID $$; while :; do sleep 1000; done")
	found := pids(t, r.awaitStdout(t, "x", "\n"))
	set(t, dir, "cgroup.procs", fmt.Sprint(found[0]))
	set(t, dir, "freezer.state", "FROZEN")
	r.stop(t, "x", 0)
	awaitPendingKill(t, found[0])
	set(t, dir, "freezer.state", "THAWED")
	if exited := r.awaitExited(t, "x").exited; exited.GetCause() != runtimev1.ExitCause_EXIT_CAUSE_SUPERVISOR_LOST {
		t.Errorf("got %v", exited)
	}
	requireGone(t, found...)
}

// awaitPendingKill waits until SIGKILL was sent to a process that does not run.
func awaitPendingKill(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, pending, _ := strings.Cut(string(status), "ShdPnd:")
		mask, err := strconv.ParseUint(strings.Fields(pending)[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if mask&(1<<(unix.SIGKILL-1)) != 0 {
			return
		}
	}
	t.Fatalf("nobody killed process %d", pid)
}

// A frozen process of cgroup v1 does not hear SIGKILL: the nearest thing to a process that hangs in the kernel.
func TestAnUnkillableProcess(t *testing.T) {
	dir := newCgroup(t, "freezer")
	r, server := start(t, "--unkillable-after=300ms")
	r.script(t, "x", fmt.Sprintf(`sh -c 'echo $$ >%s/cgroup.procs; echo $$ ready; sleep 1000; :' & read x </dev/tty; sleep 1000`, dir))
	pid := pids(t, r.awaitStdout(t, "x", "ready"))[0]
	r.script(t, "other", "echo ready; sleep 1000")
	r.awaitStdout(t, "other", "ready")
	set(t, dir, "freezer.state", "FROZEN")
	r.stop(t, "x", 0)
	exited := r.awaitExited(t, "x").exited
	if exited.GetCause() != runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE || !strings.Contains(exited.GetMessage(), fmt.Sprint(pid)) {
		t.Errorf("got %v, want it to name process %d", exited, pid)
	}
	r.script(t, "y", "true")
	want := outcome{Cause: failedCause, Code: 1,
		Message: "the runtime server takes no execution: execution x left processes that cannot be killed"}
	if diff := cmp.Diff(want, outcomeOf(r.awaitExited(t, "y"))); diff != "" {
		t.Errorf("outcome of an execution after it (-want +got):\n%s", diff)
	}
	r.stop(t, "other", 0)
	if exited := r.awaitExited(t, "other").exited; exited.GetCause() != stoppedCause {
		t.Errorf("got %v", exited)
	}
	set(t, dir, "freezer.state", "THAWED")
	awaitGone(t, pid)
	r.shutdown(t)
	server.awaitEnd(t)
}
