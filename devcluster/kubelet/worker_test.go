package kubelet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/devcluster/kubelet/containerlog"
)

const patience = 10 * time.Second

// await fails the test when done is not closed in time.
func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: not within %s", what, patience)
	}
}

// TestASlowAPIServerKeepsNobodyFromTheLogs lets a Pod wait for an answer, and asks for its logs meanwhile.
func TestASlowAPIServerKeepsNobodyFromTheLogs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	api := fake.NewClientset()
	api.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(asked)
		<-ctx.Done()
		return true, nil, ctx.Err()
	})
	pod := labelledPod(func(s *corev1.PodSpec) {
		s.Containers = []corev1.Container{{Name: "main", Image: "i", Command: []string{"true"}, Env: []corev1.EnvVar{{Name: "PASSWORD",
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("slow"), Key: "password"}}}}}}
	})
	k := &Kubelet{config: Config{NodeName: "dev", PodsDir: t.TempDir()}, client: api, clock: clock.RealClock{}, log: logr.Discard(), workers: map[types.UID]*worker{}}
	k.workerOf(ctx, pod)
	defer k.running.Wait()
	defer cancel()
	await(t, "asking for the Secret", asked)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.serveLogs)
	answer := httptest.NewRecorder()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		mux.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/containerLogs/ns/pod/main", nil))
	}()
	await(t, "the answer to a request for logs", answered)
	if got, want := strings.TrimSpace(answer.Body.String()), `container "main" in pod "pod" is waiting to start: ContainerCreating`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAContainerIsNotHeldUpByALogThatTakesNothing writes more than a pipe holds to a log on a full disk.
func TestAContainerIsNotHeldUpByALogThatTakesNothing(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full")
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	log, err := containerlog.Create(full, time.Now)
	if err != nil {
		t.Skipf("there is no /dev/full: %v", err)
	}
	reader, writer := io.Pipe()
	result := make(chan error, 1)
	go func() { result <- keepOutput(log, containerlog.Stdout, reader) }()
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range 100 {
			_, _ = writer.Write([]byte(strings.Repeat("x", 1023) + "\n"))
		}
		_ = writer.Close()
	}()
	await(t, "writing 100 KiB", written)
	if err := <-result; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got error %v, want %v", err, syscall.ENOSPC)
	}
}
