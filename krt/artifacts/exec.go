package artifacts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// What is executed in the container runtimed of a Pod: the program, and its state directory, from which it learns of the store.
const (
	programPath = "/runtimed"
	statePath   = "/kruntimes/state"
	// maxSaid is how much of what the program says is kept. Unit: bytes.
	maxSaid = 4096
)

// podContainer is where an artifact is read.
type podContainer struct{ namespace, pod string }

// catInPod has runtimed of a Pod read an artifact from its store, and writes the bytes to out.
func catInPod(ctx context.Context, f *cli.Factory, at podContainer, ref corev1alpha1.ArtifactRef, out io.Writer) error {
	config, err := f.RESTConfig()
	if err != nil {
		return err
	}
	clients, err := f.Clientset()
	if err != nil {
		return err
	}
	address, err := json.Marshal(ref)
	if err != nil {
		return fmt.Errorf("encoding the address: %w", err)
	}
	request := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(at.namespace).Name(at.pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: corev1alpha1.ContainerRuntimed, Stdout: true, Stderr: true,
			Command: []string{programPath, "artifact", "cat", "--state=" + statePath, "--ref=" + string(address)},
		}, scheme.ParameterCodec)
	executor, err := newExecutor(config, request)
	if err != nil {
		return fmt.Errorf("preparing to execute in Pod %s: %w", at.pod, err)
	}
	// The streams end with the writing, not with the program, where that fails.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	said := &tail{max: maxSaid}
	into := &breaking{to: out, broken: cancel}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: into, Stderr: said})
	into.close() // What is still under way has come too late.
	return explain(ctx, at, err, said.String())
}

// explain says why an artifact could not be read: the reason why nobody took the bytes, else the program's own words.
func explain(ctx context.Context, at podContainer, err error, said string) error {
	var exit utilexec.CodeExitError
	cause := context.Cause(ctx)
	switch {
	case cause != nil:
		return cause
	case err == nil:
		return nil
	case errors.As(err, &exit) && said != "":
		return fmt.Errorf("reading it in Pod %s: %s", at.pod, said)
	case apierrors.IsForbidden(err), strings.Contains(err.Error(), "is forbidden"):
		return cli.WithHint(fmt.Errorf("executing in Pod %s: %w", at.pod, err), "it takes the right to create pods/exec in namespace %s", at.namespace)
	default:
		return fmt.Errorf("executing in Pod %s: %w", at.pod, err)
	}
}

// newExecutor speaks as kubectl does: over a web socket, or SPDY where something on the way knows no web sockets.
func newExecutor(config *rest.Config, request *rest.Request) (remotecommand.Executor, error) {
	socket, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// breaking tells at once when nobody takes the bytes any more.
type breaking struct {
	broken context.CancelCauseFunc

	mu     sync.Mutex
	to     io.Writer
	closed bool
}

// close refuses all further bytes.
func (b *breaking) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// Write implements io.Writer.
func (b *breaking) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, io.ErrClosedPipe
	}
	n, err := b.to.Write(p)
	if err != nil {
		b.broken(err)
	}
	return n, err
}

// tail keeps the end of what is written to it.
type tail struct {
	max int

	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if more := len(t.kept) - t.max; more > 0 {
		t.kept = bytes.Clone(t.kept[more:])
	}
	return len(p), nil
}

// String is what was kept, without the lines' ends around it.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
