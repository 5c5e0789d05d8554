package krt

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/logrecord"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// kubelet is a Node that serves the log of the container runtimed, the same for every Pod.
type kubelet struct {
	node string

	mu      sync.Mutex
	lines   [][]byte
	changed chan struct{}
	// hangUpAfter closes each connection after so many lines; 0 means never.
	hangUpAfter int
	requests    []url.Values
	// execute does what is executed in the container runtimed; its error is the exit code 1.
	execute func(argv []string, out, errOut io.Writer) error
}

// newKubelet registers a Node whose kubelet is this test.
func newKubelet(t *testing.T, name string) *kubelet {
	t.Helper()
	k := &kubelet{node: name, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/runtimed", k.serve)
	mux.HandleFunc("/exec/{namespace}/{pod}/runtimed", k.serveExec)
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	address := server.Listener.Addr().(*net.TCPAddr)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	shared.Create(t, node)
	t.Cleanup(func() { _ = shared.Admin().Delete(context.WithoutCancel(t.Context()), node) })
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(address.Port)
	if err := shared.Admin().Status().Update(t.Context(), node); err != nil {
		t.Fatalf("reporting the Node: %v", err)
	}
	return k
}

// serve streams the log, from sinceSeconds or sinceTime on.
func (k *kubelet) serve(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	k.mu.Lock()
	k.requests = append(k.requests, query)
	k.mu.Unlock()
	follow, _ := strconv.ParseBool(query.Get("follow"))
	w.WriteHeader(http.StatusOK)
	for sent := 0; ; {
		k.mu.Lock()
		lines, changed, limit := k.lines, k.changed, k.hangUpAfter
		k.mu.Unlock()
		for ; sent < len(lines); sent++ {
			if limit > 0 && sent == limit {
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler) // the connection breaks
			}
			_, _ = w.Write(lines[sent])
		}
		w.(http.Flusher).Flush()
		if !follow {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// serveExec executes a command in the container runtimed.
func (k *kubelet) serveExec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, k, r.PathValue("pod"), "", corev1alpha1.ContainerRuntimed, r.URL.Query()["command"], options,
		time.Minute, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer implements remotecommand.Executor.
func (k *kubelet) ExecInContainer(_ context.Context, _, _, _ string, argv []string, _ io.Reader, out, errOut io.WriteCloser, _ bool,
	_ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	k.mu.Lock()
	execute := k.execute
	k.mu.Unlock()
	if err := execute(argv, out, errOut); err != nil {
		return utilexec.CodeExitError{Err: err, Code: 1}
	}
	return nil
}

// write adds records to the log.
func (k *kubelet) write(t *testing.T, records ...logrecord.Record) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range records {
		var buf bytes.Buffer
		if err := r.Encode(&buf); err != nil {
			t.Fatal(err)
		}
		k.lines = append(k.lines, buf.Bytes())
	}
	close(k.changed)
	k.changed = make(chan struct{})
}

func (k *kubelet) setHangUp(after int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hangUpAfter = after
}

// pod makes a ready Pod of a Runtime on the Node.
func (k *kubelet) pod(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{corev1alpha1.LabelRuntime: "bash"}},
		Spec: corev1.PodSpec{NodeName: k.node, Containers: []corev1.Container{
			{Name: corev1alpha1.ContainerRuntime, Image: "runtime"}, {Name: corev1alpha1.ContainerRuntimed, Image: "node"}}},
	}
	shared.ServiceAccount(t, namespace, "default")
	shared.Create(t, pod)
	shared.SetReady(t, pod, true)
	return pod
}

// line is a record of a Run's present attempt.
func line(run *corev1alpha1.Run, stream, text string) logrecord.Record {
	return logrecord.Record{Time: time.Now(), Run: run.Name, UID: string(run.UID), Attempt: run.Status.Attempt, Stream: stream}.WithBytes([]byte(text))
}

func end(run *corev1alpha1.Run) logrecord.Record {
	return logrecord.Record{Time: time.Now(), Run: run.Name, UID: string(run.UID), Attempt: run.Status.Attempt, End: true}
}

// shows waits until a krt has printed something.
func shows(t *testing.T, p *process, text string) {
	t.Helper()
	cluster.Eventually(t, "krt to show "+text, func(context.Context) (bool, error) {
		if bytes.Contains([]byte(p.out.String()+p.errOut.String()), []byte(text)) {
			return true, nil
		}
		return false, fmt.Errorf("shown so far: %q and %q", p.out.String(), p.errOut.String())
	})
}
