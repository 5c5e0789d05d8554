package bound

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// TestAnAPIServerThatLearnsOfWorkspacesLater has the group enabled while the Keeper runs: before that nothing is bound and
// nothing is logged, afterwards what is bound is seen. An API server that does not know the kind says so, or that nobody may read it.
func TestAnAPIServerThatLearnsOfWorkspacesLater(t *testing.T) {
	for reason, code := range map[metav1.StatusReason]int32{metav1.StatusReasonNotFound: http.StatusNotFound, metav1.StatusReasonForbidden: http.StatusForbidden} {
		t.Run(string(reason), func(t *testing.T) { learnsLater(t, code, reason) })
	}
}

func learnsLater(t *testing.T, code int32, reason metav1.StatusReason) {
	t.Helper()
	var isKnown atomic.Bool
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = &workspacesv1alpha1.PersistentWorkspaceList{
			TypeMeta: metav1.TypeMeta{APIVersion: workspacesv1alpha1.GroupVersion.String(), Kind: "PersistentWorkspaceList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items: []workspacesv1alpha1.PersistentWorkspace{{
				ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "ns", UID: "u"},
				Status:     workspacesv1alpha1.PersistentWorkspaceStatus{Phase: workspacesv1alpha1.WorkspaceBound, BoundPod: "p", BoundPodUID: "pu"},
			}},
		}
		refuse := func(code int32, reason metav1.StatusReason) {
			w.WriteHeader(int(code))
			answer = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason}
		}
		query := r.URL.Query()
		switch {
		case !isKnown.Load():
			refuse(code, reason)
		case query.Has("sendInitialEvents"):
			refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		case query.Has("watch"):
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	client, err := NewClient(&rest.Config{Host: api.URL}, "ns")
	if err != nil {
		t.Fatal(err)
	}
	var lines atomic.Int32
	clock := clocktesting.NewFakeClock(time.Now())
	k := NewKeeper(Options{Pod: "p", PodUID: "pu", Client: client, Clock: clock,
		Log: funcr.New(func(_, line string) { lines.Add(1); t.Log(line) }, funcr.Options{})})
	if n, _ := k.Bound(); n != 1 {
		t.Errorf("%d are bound before anybody knows, want 1", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { k.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done; api.Close() })

	awaitBound(t, k, 0, func() {})
	isKnown.Store(true)
	awaitBound(t, k, 1, func() { clock.Step(time.Minute) })
	if n := lines.Load(); n > 0 {
		t.Errorf("%d lines were logged", n)
	}
}

func awaitBound(t *testing.T, k *Keeper, want int, meanwhile func()) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		meanwhile()
		got, _ := k.Bound()
		return got == want, nil
	})
	if err != nil {
		got, _ := k.Bound()
		t.Fatalf("%d are bound, want %d", got, want)
	}
}
