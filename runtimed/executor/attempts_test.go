package executor

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/bound"
	"kruntimes.io/kruntimes/runtimed/logs"
	"kruntimes.io/kruntimes/runtimed/runs"
	"kruntimes.io/kruntimes/runtimed/server"
	"kruntimes.io/kruntimes/runtimed/staging"
	"kruntimes.io/kruntimes/runtimed/state"
	"kruntimes.io/kruntimes/runtimed/workspace"
)

// TestAnAttemptBeginsAfterTheOneBeforeIsOver hands a Run in a workspace back, whose next attempt is on this Pod before the
// answer to that arrives. Both attempts have the same place in the workspace, which the first one removes at its end.
func TestAnAttemptBeginsAfterTheOneBeforeIsOver(t *testing.T) {
	inWorkspace := func(r *corev1alpha1.Run) {
		r.Spec.Workspace, r.Spec.Source = &corev1alpha1.WorkspaceReference{Name: "ws"}, &corev1alpha1.RunSource{Inline: "true"}
	}
	first := assigned("1", withRetries, inWorkspace, inPhase(corev1alpha1.RunRunning)) // without a marker: lost
	second := assigned("3", withRetries, inWorkspace, inAnotherAttempt)
	entered, answered := make(chan struct{}), make(chan struct{})
	enter, finish := sync.OnceFunc(func() { close(entered) }), sync.OnceFunc(func() { close(answered) })
	var e *Executor
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = second
		switch {
		case strings.Contains(r.URL.Path, "persistentworkspaces"):
			enter()
			answer = boundWorkspace()
		case r.Method == http.MethodPatch:
			e.Changed(second)
			select {
			case <-entered:
				t.Error("the second attempt is in the workspace before the first one is over")
			case <-time.After(300 * time.Millisecond):
			}
			answer = assigned("2", withRetries, inWorkspace, handedBack)
			defer finish()
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer api.Close()
	e = executorOn(t, api.URL)
	e.Changed(first)
	for _, awaited := range []<-chan struct{}{answered, entered} {
		select {
		case <-awaited:
		case <-time.After(30 * time.Second):
			t.Fatal("the first attempt is not handed back, or the second one does not come into the workspace")
		}
	}
}

func boundWorkspace() *workspacesv1alpha1.PersistentWorkspace {
	return &workspacesv1alpha1.PersistentWorkspace{
		TypeMeta:   metav1.TypeMeta{APIVersion: workspacesv1alpha1.GroupVersion.String(), Kind: "PersistentWorkspace"},
		ObjectMeta: metav1.ObjectMeta{Name: "ws", Namespace: "ns", UID: "w"},
		Status:     workspacesv1alpha1.PersistentWorkspaceStatus{Phase: workspacesv1alpha1.WorkspaceBound, BoundPod: "p", BoundPodUID: "pu"},
	}
}

// executorOn returns an Executor of Pod p that talks to an API server, and to no runtime server.
func executorOn(t *testing.T, host string) *Executor {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	area, err := staging.Open(t.TempDir())
	must(err)
	volume, err := workspace.Open(t.TempDir())
	must(err)
	store, err := state.Open(t.TempDir(), "boot")
	must(err)
	client, err := runs.NewClient(&rest.Config{Host: host}, "ns")
	must(err)
	workspaces, err := bound.NewClient(&rest.Config{Host: host}, "ns")
	must(err)
	connection, err := server.New(server.Options{Nonces: store, Clock: clock.RealClock{}, Log: logr.Discard()})
	must(err)
	return New(t.Context(), Options{
		Pod: Pod{Name: "p", Namespace: "ns", UID: "pu"}, Client: client, Clock: clock.RealClock{}, Area: area, Server: connection,
		Workspaces: workspaces, Volume: volume, Occupancy: &workspace.Occupancy{}, State: store,
		Logs: logs.NewWriter(io.Discard, time.Now), Log: logr.Discard(), Interpreter: []string{"sh"},
		Timing: Timing{ServerPatience: time.Millisecond},
	})
}
