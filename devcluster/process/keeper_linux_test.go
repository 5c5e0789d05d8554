package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

func newKeeper(t *testing.T) *Keeper {
	t.Helper()
	k, err := NewKeeper(t.Context(), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// start runs a shell script as the first process of owner.
func start(t *testing.T, k *Keeper, owner, script string) *Child {
	t.Helper()
	c, err := k.Start(owner, shell(script))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func shell(script string) *exec.Cmd {
	return &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + "/usr/bin:/bin"}}
}

// eventually waits until check returns true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-deadline:
			t.Fatalf("not after %s: %s", patience, what)
		case <-tick.C:
		}
	}
}

// pidIn waits for a process to write a process id into a file.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	var pid int
	eventually(t, "a process id in "+path, func() bool {
		content, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(content), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
		return err == nil
	})
	return pid
}

// alive tells whether a process runs. A zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestFinishEndsWhatAnOwnerLeaves(t *testing.T) {
	cases := map[string]string{
		"a background process":                 `sleep 600 & echo $! >%s`,
		"a process in a session of its own":    `setsid sleep 600 & echo $! >%s`,
		"a double fork":                        `(setsid sh -c 'echo $$ >%s; exec sleep 600' &) ; sleep 0.1`,
		"one that ignores SIGTERM":             `setsid sh -c 'trap "" TERM HUP; echo $$ >%s; sleep 600; sleep 600' & sleep 0.1`,
		"one whose environment names no owner": `env -i setsid sleep 600 & echo $! >%s`,
	}
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t)
			file := filepath.Join(t.TempDir(), "pid")
			c := start(t, k, "owner", fmt.Sprintf(script, file))
			if err := c.Wait(); err != nil {
				t.Fatal(err)
			}
			pid := pidIn(t, file)
			if err := k.Finish("owner"); err != nil {
				t.Fatal(err)
			}
			if alive(pid) {
				t.Errorf("process %d is still there", pid)
			}
		})
	}
}

func TestFinishEndsTheMainProcessToo(t *testing.T) {
	k := newKeeper(t)
	c := start(t, k, "owner", "exec sleep 600")
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	if err := k.Finish("owner"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("it ended with %v, want SIGKILL", err)
		}
	case <-time.After(patience):
		t.Fatal("it did not end")
	}
}

func TestNeighboursAreSpared(t *testing.T) {
	k := newKeeper(t)
	dir := t.TempDir()
	// The neighbour's daemon has lost its parent, so it is a child of the keeper just as the garbage is.
	daemon := filepath.Join(dir, "daemon")
	neighbour := start(t, k, "neighbour", fmt.Sprintf(`(setsid sh -c 'echo $$ >%s; exec sleep 600' &); exec sleep 600`, daemon))
	garbage := filepath.Join(dir, "garbage")
	c := start(t, k, "owner", fmt.Sprintf(`sleep 600 & echo $! >%s`, garbage))
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	daemonPID, garbagePID := pidIn(t, daemon), pidIn(t, garbage)
	if err := k.Finish("owner"); err != nil {
		t.Fatal(err)
	}
	if alive(garbagePID) {
		t.Error("the garbage is still there")
	}
	if !alive(daemonPID) || !alive(neighbour.PID()) {
		t.Error("the neighbour's processes are gone")
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if alive(daemonPID) {
		t.Error("the neighbour's daemon has outlived the keeper")
	}
}

func TestNobodyJoinsAnOwnerThatIsFinished(t *testing.T) {
	k := newKeeper(t)
	c := start(t, k, "owner", "true")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	joined, err := k.Join("owner", shell("exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := joined.Wait(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("Wait() = %v, want exit status 3", err)
	}
	if err := k.Finish("owner"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Join("owner", shell("true")); !errors.Is(err, errFinished) {
		t.Errorf("Join() after the end = %v, want %v", err, errFinished)
	}
}

func TestOrphansLeaveNoZombies(t *testing.T) {
	k := newKeeper(t)
	start(t, k, "owner", `for i in 1 2 3 4 5; do (sh -c 'sleep 0.01' &); done; exec sleep 600`)
	eventually(t, "only the main process is left", func() bool {
		pids, err := Children()
		return err == nil && len(pids) == 1
	})
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pid")
	parent := exec.Command(os.Args[0], "-test.run=^TestHelperParent$")
	parent.Env = append(os.Environ(), "HELPER_PID_FILE="+file, "HELPER_LOG="+filepath.Join(dir, "log"))
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	child := pidIn(t, file)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	eventually(t, "the child of a killed parent ends", func() bool { return !alive(child) })
}

// TestHelperParent is no test: TestChildrenDieWithTheirParent runs it as the parent that is killed.
func TestHelperParent(t *testing.T) {
	file := os.Getenv("HELPER_PID_FILE")
	if file == "" {
		t.Skip("only for TestChildrenDieWithTheirParent")
	}
	p, err := Start(Command{
		Path: "/bin/sh", Args: []string{"-c", "echo $$ >" + file + "; exec sleep 600"}, LogFile: os.Getenv("HELPER_LOG"),
		Env: []string{"PATH=/usr/bin:/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
}

func TestErrQuotesTheEndOfTheLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := Start(Command{
		Path: "/bin/sh", Args: []string{"-c", "i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; done; exit 7"}, LogFile: log,
		Env: []string{"PATH=/usr/bin:/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	want := "exit status 7; the end of " + log + ":\n"
	for i := 30 - quotedLines + 1; i <= 30; i++ {
		want += fmt.Sprintf("    line %d\n", i)
	}
	if got := p.Err().Error() + "\n"; got != want {
		t.Errorf("Err() = %q, want %q", got, want)
	}
}
