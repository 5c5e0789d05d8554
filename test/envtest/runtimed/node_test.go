package runtimed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/logrecord"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// node is a Runtime's Pod whose containers are processes of this machine.
type node struct {
	namespace string
	pod       *corev1.Pod
	dir       string
	health    string
	config    *rest.Config
	runtimed  *process
	server    *process
	// flags are further arguments of runtimed.
	flags []string
}

// newNode lays a Pod out; nothing of it runs yet.
func newNode(t *testing.T) *node {
	t.Helper()
	return newNodeIn(t, shared.Namespace(t), "runtime-sh-0")
}

// newNodeIn lays a Pod of a namespace out; nothing of it runs yet.
func newNodeIn(t *testing.T, namespace, pod string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "node-") //nolint:usetesting // t.TempDir is too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{namespace: namespace, dir: dir, health: freeAddress(t)}
	n.pod = shared.RuntimePod(t, n.namespace, "sh", pod)
	n.config = shared.Pod(t, n.pod)
	for _, name := range []string{"scratch", "state", "socket", "token", "workspace"} {
		if err := os.Mkdir(n.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n.write(t, "token/token", n.config.BearerToken)
	n.write(t, "token/ca.crt", string(n.config.CAData))
	return n
}

// startNode lays a Pod out and starts both containers.
func startNode(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	n.start(t)
	return n
}

// start starts both containers of a Pod.
func (n *node) start(t *testing.T) {
	t.Helper()
	n.startRuntimed(t)
	n.startServer(t)
	n.awaitReady(t)
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *node) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(n.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (n *node) args() []string {
	return append([]string{
		"--socket=" + n.path("socket/runtimed.sock"), "--scratch=" + n.path("scratch"), "--state=" + n.path("state"),
		"--workspace=" + n.path("workspace"), "--token-dir=" + n.path("token"), "--health-address=" + n.health,
		"--interpreter=/bin/sh", "--interpreter=-e",
	}, n.flags...)
}

// environ is the environment of this process without what make sets for the API servers of suites: in a Pod, runtimed decides for
// itself how much memory it takes for less work.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GOGC=") })
}

func (n *node) env(t *testing.T) []string {
	t.Helper()
	host, err := url.Parse(n.config.Host)
	if err != nil || host.Hostname() == "" {
		host = &url.URL{Host: n.config.Host}
	}
	return append(environ(),
		"POD_NAME="+n.pod.Name, "POD_NAMESPACE="+n.namespace, "POD_UID="+string(n.pod.UID),
		"KUBERNETES_SERVICE_HOST="+host.Hostname(), "KUBERNETES_SERVICE_PORT="+host.Port())
}

func (n *node) startRuntimed(t *testing.T) {
	t.Helper()
	n.runtimed = start(t, n, "runtimed", n.args(), n.env(t))
}

func (n *node) startServer(t *testing.T) {
	t.Helper()
	n.server = start(t, n, "runtime-server", []string{"serve", "--socket=" + n.path("socket/runtimed.sock")}, environ())
}

// ready asks the readiness probe.
func (n *node) ready(ctx context.Context) (bool, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.health+"/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err.Error()
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return false, err.Error()
	}
	return response.StatusCode == http.StatusOK, strings.TrimSpace(string(text))
}

func (n *node) awaitReady(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, "runtimed to be ready", func(ctx context.Context) (bool, error) {
		ok, why := n.ready(ctx)
		if !ok {
			return false, errors.New(why)
		}
		return true, nil
	})
}

// submit creates a Run and binds it to the Pod, as the scheduler would.
func (n *node) submit(t *testing.T, name string, spec corev1alpha1.RunSpec) *corev1alpha1.Run {
	t.Helper()
	run := n.create(t, name, spec)
	n.bind(t, run)
	return run
}

func (n *node) create(t *testing.T, name string, spec corev1alpha1.RunSpec) *corev1alpha1.Run {
	t.Helper()
	spec.Runtime = "sh"
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name}, Spec: spec}
	shared.Create(t, run)
	return run
}

func (n *node) bind(t *testing.T, run *corev1alpha1.Run) {
	t.Helper()
	before := client.MergeFrom(run.DeepCopy())
	now := metav1.NowMicro()
	run.Status.Phase = corev1alpha1.RunScheduled
	run.Status.AssignedPod, run.Status.AssignedPodUID = n.pod.Name, string(n.pod.UID)
	run.Status.Attempt, run.Status.ScheduledTime = 1, &now
	if err := shared.Admin().Status().Patch(t.Context(), run, before); err != nil {
		t.Fatalf("binding Run %s: %v", run.Name, err)
	}
}

// await waits until the Run satisfies the condition, and returns it.
func await(t *testing.T, run *corev1alpha1.Run, what string, condition func(*corev1alpha1.Run) bool) *corev1alpha1.Run {
	t.Helper()
	seen := &corev1alpha1.Run{}
	cluster.Eventually(t, "Run "+run.Name+" to be "+what, func(ctx context.Context) (bool, error) {
		if err := shared.Admin().Get(ctx, client.ObjectKeyFromObject(run), seen); err != nil {
			return false, err
		}
		if !condition(seen) {
			return false, fmt.Errorf("its phase is %s, its message %q", seen.Status.Phase, seen.Status.Message)
		}
		return true, nil
	})
	return seen
}

func awaitEnd(t *testing.T, run *corev1alpha1.Run) *corev1alpha1.Run {
	t.Helper()
	return await(t, run, "terminal", func(r *corev1alpha1.Run) bool { return r.Status.Phase.IsTerminal() })
}

func awaitPhase(t *testing.T, run *corev1alpha1.Run, phase corev1alpha1.RunPhase) *corev1alpha1.Run {
	t.Helper()
	return await(t, run, string(phase), func(r *corev1alpha1.Run) bool { return r.Status.Phase == phase })
}

func requestCancel(t *testing.T, run *corev1alpha1.Run) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancelRequested":true}}`))
	if err := shared.Admin().Patch(t.Context(), run.DeepCopy(), patch); err != nil {
		t.Fatalf("cancelling Run %s: %v", run.Name, err)
	}
}

// awaitClean waits until nothing is left of any execution.
func (n *node) awaitClean(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, "directories and markers to be removed", func(context.Context) (bool, error) {
		for _, name := range []string{"scratch", "state/runs"} {
			entries, err := os.ReadDir(n.path(name))
			if err != nil {
				return false, err
			}
			if len(entries) > 0 {
				return false, fmt.Errorf("%s holds %v", name, entries)
			}
		}
		return true, nil
	})
}

// records returns the log records of a Run.
func (n *node) records(t *testing.T, run *corev1alpha1.Run) []logrecord.Record {
	t.Helper()
	log, err := os.ReadFile(n.path("runtimed.out"))
	if err != nil {
		t.Fatal(err)
	}
	var records []logrecord.Record
	for line := range strings.Lines(string(log)) {
		r, ok := logrecord.Parse([]byte(line))
		if !ok {
			t.Errorf("not a record: %q", line)
		}
		if r.UID == string(run.UID) {
			records = append(records, r)
		}
	}
	return records
}

// text joins the bytes of one stream.
func text(t *testing.T, records []logrecord.Record, stream string) string {
	t.Helper()
	var all strings.Builder
	for _, r := range records {
		if r.Stream != stream {
			continue
		}
		b, err := r.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// script is the spec of a Run with an inline script.
func script(text string) corev1alpha1.RunSpec {
	return corev1alpha1.RunSpec{Source: &corev1alpha1.RunSource{Inline: text}}
}

// args is the spec of a Run without a source.
func args(words ...string) corev1alpha1.RunSpec {
	return corev1alpha1.RunSpec{Mode: corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Args: words}}}
}

// process is a container that runs as a process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// start starts a binary; its output is appended to <name>.out and <name>.err of the node.
func start(t *testing.T, n *node, name string, args, env []string) *process {
	t.Helper()
	return startAt(t, n, filepath.Join(binaries, name), name, args, env)
}

func startAt(t *testing.T, n *node, binary, name string, args, env []string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Env = env
	var files []*os.File
	for _, suffix := range []string{".out", ".err"} {
		f, err := os.OpenFile(n.path(name+suffix), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p.cmd.Stdout, p.cmd.Stderr = files[0], files[1]
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		for _, f := range files {
			_ = f.Close()
		}
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill(t)
		if t.Failed() {
			if log, err := os.ReadFile(n.path(name + ".err")); err == nil {
				t.Logf("%s said:\n%s", name, log)
			}
		}
	})
	return p
}

// kill kills the process and waits for its end.
func (p *process) kill(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Kill() // it may have ended already
	p.awaitExit(t)
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// awaitExit waits for the end of the process and returns its exit code, -1 after a signal.
func (p *process) awaitExit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(cluster.Deadline):
		t.Fatal("the process does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
