package executor

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/runs"
	"kruntimes.io/kruntimes/runtimed/staging"
)

func withRetries(r *corev1alpha1.Run) {
	r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 3, Backoff: &metav1.Duration{}}
}

func handedBack(r *corev1alpha1.Run) {
	r.Status = corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Attempt: 2}
}

// orderedAPI notes what was left of executions at any request.
type orderedAPI struct {
	scriptedAPI
	t    *testing.T
	area *staging.Area
	left []string
}

func (o *orderedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	names, err := o.area.Names()
	if err != nil {
		o.t.Error(err)
	}
	o.left = append(o.left, names...)
	o.scriptedAPI.ServeHTTP(w, r)
}

func TestHandBack(t *testing.T) {
	const conflict, ok = http.StatusConflict, http.StatusOK
	lost := decision.Lost()
	done := answer{code: ok, run: assigned("9", handedBack)}
	cases := map[string]struct {
		answers []answer
		phases  []string
	}{
		"at once": {[]answer{done}, []string{"Pending"}},
		"after a conflict": {[]answer{{code: conflict}, {ok, assigned("2", withRetries, inPhase(corev1alpha1.RunRunning))}, done},
			[]string{"Pending", "Pending"}},
		"not when a cancel came between": {[]answer{{code: conflict}, {ok, assigned("2", withRetries, withCancel)}, done},
			[]string{"Pending", "Cancelled"}},
		"not twice when the answer was lost": {[]answer{{code: 500}, {ok, assigned("2", withRetries, handedBack)}},
			[]string{"Pending"}},
		"not when the next attempt is on this Pod already": {[]answer{{code: 500}, {ok, assigned("2", withRetries, inAnotherAttempt)}},
			[]string{"Pending"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			area, err := staging.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer area.Close()
			dir, err := area.Create("u.1", "true")
			if err != nil {
				t.Fatal(err)
			}
			if err := dir.Close(); err != nil {
				t.Fatal(err)
			}
			api := &orderedAPI{scriptedAPI: scriptedAPI{answers: tc.answers}, t: t, area: area}
			server := httptest.NewServer(api)
			defer server.Close()
			client, err := runs.NewClient(&rest.Config{Host: server.URL}, "ns")
			if err != nil {
				t.Fatal(err)
			}
			e := &Executor{Options: Options{Pod: Pod{Name: "p", Namespace: "ns", UID: "pu"}, Client: client, Clock: clock.RealClock{}, Area: area}}
			e.Log = logr.Discard()
			newClaim(e, assigned("1", withRetries), "u.1").end(t.Context(), silent{}, lost, time.Time{})
			var phases []string
			for _, patch := range api.patches {
				var got struct{ Status struct{ Phase string } }
				if err := json.Unmarshal([]byte(patch), &got); err != nil {
					t.Fatal(err)
				}
				phases = append(phases, got.Status.Phase)
			}
			if diff := cmp.Diff(tc.phases, phases); diff != "" {
				t.Errorf("phases, -want +got:\n%s", diff)
			}
			if len(api.left) > 0 {
				t.Errorf("directories were left at a request: %v", api.left)
			}
		})
	}
}

// TestHandBackPatch is what "one patch" means: everything of the old attempt is cleared in it.
func TestHandBackPatch(t *testing.T) {
	area, err := staging.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer area.Close()
	api := &orderedAPI{scriptedAPI: scriptedAPI{answers: []answer{{code: http.StatusOK, run: assigned("9", handedBack)}}}, t: t, area: area}
	server := httptest.NewServer(api)
	defer server.Close()
	client, err := runs.NewClient(&rest.Config{Host: server.URL}, "ns")
	if err != nil {
		t.Fatal(err)
	}
	e := &Executor{Options: Options{Pod: Pod{Name: "p", Namespace: "ns", UID: "pu"}, Client: client, Clock: clock.RealClock{}, Area: area}}
	e.Log = logr.Discard()
	at := metav1.NewMicroTime(time.Now().Add(-time.Second))
	run := assigned("1", withRetries, func(r *corev1alpha1.Run) { r.Status.ScheduledTime, r.Status.StartTime = &at, &at })
	newClaim(e, run, "u.1").end(t.Context(), silent{}, decision.Lost(), at.Time)
	var got struct {
		Metadata map[string]string
		Status   map[string]any
	}
	if err := json.Unmarshal([]byte(api.patches[0]), &got); err != nil {
		t.Fatal(err)
	}
	if next, ok := got.Status["nextAttemptTime"].(string); !ok || next == "" {
		t.Errorf("no nextAttemptTime in %s", api.patches[0])
	}
	delete(got.Status, "nextAttemptTime")
	delete(got.Status, "conditions")
	want := map[string]any{
		"phase": "Pending", "attempt": 2.0, "assignedPod": nil, "assignedPodUID": nil, "scheduledTime": nil, "startTime": nil,
		"reason": "ExecutionLost", "message": decision.Lost().Message,
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"resourceVersion": "1", "uid": "u"}, got.Metadata); diff != "" {
		t.Errorf("metadata, -want +got:\n%s", diff)
	}
}

// TestEarlierAttemptLeaves shows the next attempt of a Run before anything said that the one before is over.
func TestEarlierAttemptLeaves(t *testing.T) {
	e := &Executor{ctx: t.Context(), claims: map[key]*claim{}, marked: map[string]bool{}, quiet: make(chan struct{})}
	e.Log = logr.Discard()
	earlier := newClaim(e, assigned("1"), "u.1")
	e.claims[key{uid: "u", attempt: 1}] = earlier
	e.claims[key{uid: "u", attempt: 2}] = &claim{done: true}
	other := newClaim(e, assigned("1", ofAnotherUID), "other.1")
	e.claims[key{uid: "other", attempt: 1}] = other
	e.leaveEarlier(key{uid: "u", attempt: 3})
	if !earlier.hasLeft() {
		t.Error("the attempt that executes was not told to leave")
	}
	if e.claims[key{uid: "u", attempt: 2}] != nil {
		t.Error("the attempt that is done was not forgotten")
	}
	if other.hasLeft() {
		t.Error("another Run was told to leave")
	}
}
