package devcluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kruntimes.io/kruntimes/devcluster"
)

// krt is a krt dev command in a state directory of its own.
type krt struct {
	t        *testing.T
	stateDir string
	identity *syscall.Credential
}

func newKrt(t *testing.T) *krt {
	t.Helper()
	// t.TempDir would be out of reach for another user: its parents belong to this one.
	dir, err := os.MkdirTemp("", "krt-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &krt{t: t, stateDir: filepath.Join(dir, "dev")}
}

func (k *krt) command(args ...string) *exec.Cmd {
	cmd := exec.Command(krtBinary, append([]string{"dev", args[0], "--state-dir=" + k.stateDir}, args[1:]...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(k.stateDir), "KUBEBUILDER_ASSETS=" + assets}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: k.identity}
	return cmd
}

// run runs a command to its end and returns its exit code and what it wrote.
func (k *krt) run(args ...string) (code int, out, errOut string) {
	k.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := k.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		k.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// foreground is a running "krt dev up".
type foreground struct {
	*krt
	cmd   *exec.Cmd
	ended chan struct{}
	mu    sync.Mutex
	words bytes.Buffer
}

func (f *foreground) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.words.Write(p)
}

func (f *foreground) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.words.String()
}

// up starts a cluster in the foreground and waits until it takes work.
func (k *krt) up(args ...string) *foreground {
	k.t.Helper()
	f := &foreground{krt: k, ended: make(chan struct{}), cmd: k.command(append([]string{"up"}, args...)...)}
	f.cmd.Stderr = f
	if err := f.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	go func() {
		_ = f.cmd.Wait()
		close(f.ended)
	}()
	k.t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		<-f.ended
	})
	eventually(k.t, "the cluster is up", func() error {
		select {
		case <-f.ended:
			k.t.Fatalf("it ended: %s", f.said())
		default:
		}
		if strings.Contains(f.said(), "ctrl-C ends it") {
			return nil
		}
		return errors.New(f.said())
	})
	return f
}

// awaitEnd waits for the end of the process and returns its exit code.
func (f *foreground) awaitEnd() int {
	f.t.Helper()
	select {
	case <-f.ended:
	case <-time.After(patience):
		f.t.Fatalf("it did not end within %s", patience)
	}
	return f.cmd.ProcessState.ExitCode()
}

func (f *foreground) state() devcluster.State {
	f.t.Helper()
	state, err := devcluster.ReadState(f.stateDir)
	if err != nil {
		f.t.Fatal(err)
	}
	return state
}

// partPID returns the process of a part.
func (f *foreground) partPID(name string) int {
	f.t.Helper()
	for _, part := range f.state().Parts {
		if part.Name == name {
			return part.PID
		}
	}
	f.t.Fatalf("there is no part %s", name)
	return 0
}

// startPod starts a Pod with a process that has left its session, and waits for both.
func (f *foreground) startPod() {
	f.t.Helper()
	manifest := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"main","image":"none",` +
		`"command":["sh","-c","setsid sleep 6001 & exec sleep 6000"]}]}}`
	client := clientFor(f.t, filepath.Join(f.stateDir, "kubeconfig"))
	eventually(f.t, "the Pod is created", func() error {
		return client.Post().Namespace("default").Resource("pods").Body([]byte(manifest)).
			SetHeader("Content-Type", "application/json").Do(f.t.Context()).Error()
	})
	eventually(f.t, "the Pod's processes run", func() error {
		if n := len(processesOf(f.t, "KRUNTIMES_DEV_OWNER")); n == 0 {
			return errors.New("there is none")
		}
		count := 0
		for _, pid := range processesOf(f.t, f.stateDir) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.HasPrefix(string(line), "sleep\x00600") {
				count++
			}
		}
		if count != 2 {
			return fmt.Errorf("%d of 2 run", count)
		}
		return nil
	})
}

func TestInterruptLeavesNothing(t *testing.T) {
	f := newKrt(t).up()
	f.startPod()
	if err := f.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := f.awaitEnd(); code != 0 {
		t.Errorf("exit code %d, want 0; it said: %s", code, f.said())
	}
	if pids := processesOf(t, f.stateDir); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	if _, err := os.Stat(filepath.Join(f.stateDir, "kubeconfig")); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig is left: %v", err)
	}
}

func TestKillLeavesNothing(t *testing.T) {
	f := newKrt(t).up("--separate-processes=false")
	f.startPod()
	if err := f.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.awaitEnd()
	noProcessesOf(t, f.stateDir)
	// What is left in the state directory does not look like a running cluster and hinders no new one.
	if code, _, errOut := f.run("status"); code != 3 || !strings.Contains(errOut, "no dev cluster is running") {
		t.Errorf("status after the kill: exit code %d, %q", code, errOut)
	}
	again := f.krt.up()
	if err := again.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := again.awaitEnd(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}

// leftovers returns what is in the state directory but not meant to stay.
func (k *krt) leftovers() []string {
	k.t.Helper()
	entries, err := os.ReadDir(k.stateDir)
	if err != nil {
		k.t.Fatal(err)
	}
	var left []string
	for _, entry := range entries {
		if name := entry.Name(); name != "logs" && name != "lock" && !strings.HasPrefix(name, ".") {
			left = append(left, name)
		}
	}
	return left
}

func TestDownRemovesWhatAKilledClusterLeft(t *testing.T) {
	f := newKrt(t).up()
	f.startPod()
	if err := f.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.awaitEnd()
	if code, _, errOut := f.run("down"); code != 0 || !strings.Contains(errOut, "Removed what one that was killed had left") {
		t.Errorf("down: exit code %d, %s", code, errOut)
	}
	if left := f.leftovers(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestASecondInterruptLeavesNothing(t *testing.T) {
	f := newKrt(t).up()
	f.startPod()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} { // The same one twice may come as one.
		if err := f.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	f.awaitEnd()
	if pids := processesOf(t, f.stateDir); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	if left := f.leftovers(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestADirectoryOfSomebodyElseIsRefused(t *testing.T) {
	k := newKrt(t)
	mine := filepath.Join(k.stateDir, "up.log")
	if err := errors.Join(os.Mkdir(k.stateDir, 0o755), os.WriteFile(mine, []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"up"}, {"up", "--detach"}} {
		if code, _, errOut := k.run(args...); code != 1 || !strings.Contains(errOut, "lacks the file .kruntimes-dev") {
			t.Errorf("%v: exit code %d, %s", args, code, errOut)
		}
	}
	if content, err := os.ReadFile(mine); err != nil || string(content) != "mine" {
		t.Errorf("the file was changed to %q (%v)", content, err)
	}
}

func TestPartThatDiesEndsTheWhole(t *testing.T) {
	for _, part := range []string{"etcd", "kubelet"} {
		t.Run(part, func(t *testing.T) {
			f := newKrt(t).up()
			f.startPod()
			if err := syscall.Kill(f.partPID(part), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if code := f.awaitEnd(); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if want := part + " ended unexpectedly: signal: killed; the end of " + f.stateDir + "/logs/" + part + ".log:\n"; !strings.Contains(f.said(), want) {
				t.Errorf("it said %q, want %q", f.said(), want)
			}
			if pids := processesOf(t, f.stateDir); len(pids) > 0 {
				t.Errorf("processes are left: %v", pids)
			}
		})
	}
}

func TestDetachedCluster(t *testing.T) {
	k := newKrt(t)
	for _, command := range []string{"status", "kubeconfig"} {
		if code, _, errOut := k.run(command); code != 3 || !strings.Contains(errOut, "dev up") {
			t.Errorf("%s without a cluster: exit code %d, %q; want 3 and what to do", command, code, errOut)
		}
	}
	if code, _, errOut := k.run("up", "--detach"); code != 0 {
		t.Fatalf("up --detach: exit code %d, %s", code, errOut)
	}
	t.Cleanup(func() { _, _, _ = k.run("down") })
	if code, _, errOut := k.run("up"); code != 1 || !strings.Contains(errOut, "is running already") {
		t.Errorf("a second up: exit code %d, %q", code, errOut)
	}
	code, out, _ := k.run("status", "-o", "json")
	var status struct {
		Healthy bool
		Parts   []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil || code != 0 || !status.Healthy || len(status.Parts) != 6 {
		t.Errorf("status: exit code %d, %v, %s", code, err, out)
	}
	_, path, _ := k.run("kubeconfig", "--path")
	if err := clientFor(t, strings.TrimSpace(path)).Get().AbsPath("/readyz").Do(t.Context()).Error(); err != nil {
		t.Errorf("the API server: %v", err)
	}
	for range 2 { // the second time there is nothing to do
		if code, _, errOut := k.run("down"); code != 0 {
			t.Errorf("down: exit code %d, %s", code, errOut)
		}
	}
	if pids := processesOf(t, k.stateDir); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	k := newKrt(t)
	port := takePort(t)
	code, _, errOut := k.run("up", "--port="+strconv.Itoa(port))
	want := fmt.Sprintf("port %d cannot be used, choose another one", port)
	if code != 1 || !strings.Contains(errOut, want) {
		t.Errorf("exit code %d, %q; want 1 and %q", code, errOut, want)
	}
	noProcessesOf(t, k.stateDir)
}

func TestOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("every other test shows it")
	}
	k := newKrt(t)
	k.identity = &syscall.Credential{Uid: 65534, Gid: 65534}
	if err := os.Chown(filepath.Dir(k.stateDir), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	f := k.up()
	f.startPod()
	if err := f.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := f.awaitEnd(); code != 0 {
		t.Errorf("exit code %d: %s", code, lastLine(f.said()))
	}
	if pids := processesOf(t, k.stateDir); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
}
