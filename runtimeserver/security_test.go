package runtimeserver_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// ordinaryUser is who Runtimes run as by default.
const ordinaryUser = 65532

// startAsOrdinaryUser starts a server without privileges, also when the tests run as root.
func startAsOrdinaryUser(t *testing.T) (*runtimed, *process) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // One for the test, and one for its directories.
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "runtimed.sock")
	r := newRuntimed(t, socket)
	if os.Geteuid() != 0 {
		return r, startServer(t, socket)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("needs setpriv")
	}
	id := fmt.Sprint(ordinaryUser)
	return r, startCommand(t, setpriv, "--reuid", id, "--regid", id, "--clear-groups", "--no-new-privs",
		binary, "serve", "--socket="+socket)
}

func TestUserCodeCannotLookIntoTheServer(t *testing.T) {
	r, server := startAsOrdinaryUser(t)
	r.awaitHello(t, 1)
	cases := map[string]string{
		"memory of the server":          "cat /proc/$SERVER/mem",
		"memory map of the server":      "cat /proc/$SERVER/maps",
		"environment of the server":     "cat /proc/$SERVER/environ",
		"descriptors of the server":     "ls /proc/$SERVER/fd/",
		"memory of the supervisor":      "cat /proc/$PPID/mem",
		"environment of the supervisor": "cat /proc/$PPID/environ",
		"descriptors of the supervisor": "ls /proc/$PPID/fd/",
		"control of the supervisor":     ": >/proc/$PPID/fd/3",
		"root of the server":            "ls /proc/$SERVER/root/",
		"OOM score of the supervisor":   "echo 1000 >/proc/$PPID/oom_score_adj",
	}
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			r.execute(t, &runtimev1.Execute{
				ExecutionId: name, Argv: []string{"/bin/sh", "-c", script},
				Env: []*runtimev1.EnvVar{{Name: "SERVER", Value: fmt.Sprint(server.cmd.Process.Pid)}},
			})
			rec := r.awaitExited(t, name)
			if rec.exited.GetExitCode() == 0 || rec.stdout.Len() > 0 {
				t.Errorf("got %v and output %q", rec.exited, rec.stdout.String())
			}
			if errors := rec.stderr.String(); !strings.Contains(strings.ToLower(errors), "permission denied") {
				t.Errorf("got the errors %q, want permission denied", errors)
			}
		})
	}
}

func TestTheNonceIsNowhereToBeSeen(t *testing.T) {
	r, server := start(t) // As root user code would see even more.
	r.script(t, "x", `env; for f in /proc/`+fmt.Sprint(server.cmd.Process.Pid)+` /proc/$PPID /proc/self; do
		tr '\0' '\n' <$f/cmdline; tr '\0' '\n' <$f/environ; done`)
	rec := r.awaitExited(t, "x")
	if output := rec.stdout.String(); strings.Contains(output, r.nonce) || !strings.Contains(output, "supervise") {
		t.Errorf("got %s", output)
	}
}

func TestTheServerWorksWithoutPrivileges(t *testing.T) {
	r, server := startAsOrdinaryUser(t)
	var left []int
	for i := range 3 {
		left = append(left, startStubborn(t, r, fmt.Sprint(i))...)
	}
	r.script(t, "daemon", "( setsid sleep 1000 & ); kill -9 $PPID")
	if rec := r.awaitExited(t, "daemon"); rec.exited.GetCause() != runtimev1.ExitCause_EXIT_CAUSE_SUPERVISOR_LOST {
		t.Errorf("got %v", rec.exited)
	}
	r.stop(t, "0", 0)
	if rec := r.awaitExited(t, "0"); rec.exited.GetCause() != stoppedCause {
		t.Errorf("got %v", rec.exited)
	}
	requireGone(t, left[:4]...)
	if err := syscall.Kill(server.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, left...)
}

func TestInstall(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "runtime-server")
	write(t, dst, "what was here before", 0o444)
	for range 2 { // A second time, as when the Pod's init container runs again.
		if output, err := exec.Command(binary, "install", dst).CombinedOutput(); err != nil {
			t.Fatalf("installing: %v\n%s", err, output)
		}
	}
	info, err := os.Stat(dst)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode(); mode != 0o555 {
		t.Errorf("got mode %v, want -r-xr-xr-x", mode)
	}
	want, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(dst)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the installed program has %d bytes and differs from the %d of the source", len(got), len(want))
	}
	if entries, err := os.ReadDir(filepath.Dir(dst)); err != nil || len(entries) != 1 {
		t.Errorf("got entries %v and error %v, want the program alone", entries, err)
	}
	if err := exec.Command(binary, "install", filepath.Join(dst, "under", "a", "file")).Run(); err == nil {
		t.Error("installing where nothing can be succeeded")
	}
}
