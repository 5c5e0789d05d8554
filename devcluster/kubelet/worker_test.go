package kubelet

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
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
