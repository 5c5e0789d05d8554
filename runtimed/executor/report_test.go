package executor

import (
	"encoding/json"
	"io"
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

// answer is what the API server says to one request: a Run or an error.
type answer struct {
	code int
	run  *corev1alpha1.Run
}

// script answers requests in order and keeps what was asked.
type scriptedAPI struct {
	answers []answer
	asked   []string
	patches []string
}

func (s *scriptedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Method)
	if r.Method == http.MethodPatch {
		body, _ := io.ReadAll(r.Body)
		s.patches = append(s.patches, string(body))
	}
	next := answer{code: http.StatusTeapot}
	if len(s.answers) > 0 {
		next, s.answers = s.answers[0], s.answers[1:]
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(next.code)
	if next.run != nil {
		_ = json.NewEncoder(w).Encode(next.run)
		return
	}
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusFailure, Code: int32(next.code), Reason: reasons[next.code]})
}

var reasons = map[int]metav1.StatusReason{
	http.StatusConflict: metav1.StatusReasonConflict, http.StatusNotFound: metav1.StatusReasonNotFound,
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
}

// assigned returns a Run of the Pod at a resourceVersion, changed by the given functions.
func assigned(version string, change ...func(*corev1alpha1.Run)) *corev1alpha1.Run {
	run := &corev1alpha1.Run{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1alpha1.GroupVersion.String(), Kind: "Run"},
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "ns", UID: "u", ResourceVersion: version},
		Status:     corev1alpha1.RunStatus{Phase: corev1alpha1.RunScheduled, AssignedPod: "p", AssignedPodUID: "pu", Attempt: 1},
	}
	for _, f := range change {
		f(run)
	}
	return run
}

func inPhase(phase corev1alpha1.RunPhase) func(*corev1alpha1.Run) {
	return func(r *corev1alpha1.Run) { r.Status.Phase = phase }
}

func withCancel(r *corev1alpha1.Run)       { r.Spec.CancelRequested = true }
func onAnotherPod(r *corev1alpha1.Run)     { r.Status.AssignedPodUID = "other" }
func ofAnotherUID(r *corev1alpha1.Run)     { r.UID = "other" }
func inAnotherAttempt(r *corev1alpha1.Run) { r.Status.Attempt = 2 }

// silent is a log without output.
type silent struct{}

func (silent) End() error { return nil }

func TestEnd(t *testing.T) {
	const (
		get, patch = http.MethodGet, http.MethodPatch
		conflict   = http.StatusConflict
		ok         = http.StatusOK
	)
	success := decision.Result{Phase: corev1alpha1.RunSucceeded, Outputs: map[string]string{"a": "b"}}
	written := answer{code: ok, run: assigned("9", inPhase(corev1alpha1.RunSucceeded))}
	cases := map[string]struct {
		result  decision.Result
		answers []answer
		asked   []string
		phase   string // of the last patch; empty when the last patch was not to be
		version string
	}{
		"at once": {success, []answer{written}, []string{patch}, "Succeeded", "1"},
		"after a conflict, with the version that was read": {
			success, []answer{{code: conflict}, {ok, assigned("2", withCancel)}, written}, []string{patch, get, patch}, "Succeeded", "2"},
		"after conflicts again and again": {
			success, []answer{{code: conflict}, {ok, assigned("2")}, {code: conflict}, {ok, assigned("3", inPhase(corev1alpha1.RunRunning))}, written},
			[]string{patch, get, patch, get, patch}, "Succeeded", "3"},
		"a lost execution after a cancel": {
			decision.Lost(), []answer{{code: conflict}, {ok, assigned("2", withCancel)}, written}, []string{patch, get, patch}, "Cancelled", "2"},
		"after failures of the API server": {
			success, []answer{{code: 500}, {code: 500}, {ok, assigned("2")}, written}, []string{patch, get, get, patch}, "Succeeded", "2"},
		"after a refusal that passes": {
			success, []answer{{code: http.StatusForbidden}, {ok, assigned("1")}, written}, []string{patch, get, patch}, "Succeeded", "1"},
		"an invalid result": {
			success, []answer{{code: http.StatusUnprocessableEntity}, {ok, assigned("1")}, written}, []string{patch, get, patch}, "Failed", "1"},
		"not when the answer was lost but the write was not": {
			success, []answer{{code: 500}, {ok, assigned("2", inPhase(corev1alpha1.RunSucceeded))}}, []string{patch, get}, "", ""},
		"not when the Run is gone":               {success, []answer{{code: http.StatusNotFound}}, []string{patch}, "", ""},
		"not when the Run is gone at the read":   {success, []answer{{code: conflict}, {code: http.StatusNotFound}}, []string{patch, get}, "", ""},
		"not when another Run has the name":      {success, []answer{{code: conflict}, {ok, assigned("2", ofAnotherUID)}}, []string{patch, get}, "", ""},
		"not when another Pod has the Run":       {success, []answer{{code: conflict}, {ok, assigned("2", onAnotherPod)}}, []string{patch, get}, "", ""},
		"not when the Run is in another attempt": {success, []answer{{code: conflict}, {ok, assigned("2", inAnotherAttempt)}}, []string{patch, get}, "", ""},
		"not when somebody else ended the Run":   {success, []answer{{code: conflict}, {ok, assigned("2", inPhase(corev1alpha1.RunFailed))}}, []string{patch, get}, "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := &scriptedAPI{answers: tc.answers}
			server := httptest.NewServer(api)
			defer server.Close()
			client, err := runs.NewClient(&rest.Config{Host: server.URL}, "ns")
			if err != nil {
				t.Fatal(err)
			}
			e := &Executor{Options: Options{Pod: Pod{Name: "p", Namespace: "ns", UID: "pu"}, Client: client, Clock: clock.RealClock{}}}
			e.Log = logr.Discard()
			newClaim(e, assigned("1"), "u.1").end(t.Context(), silent{}, tc.result, time.Time{})
			if diff := cmp.Diff(tc.asked, api.asked); diff != "" {
				t.Errorf("requests, -want +got:\n%s", diff)
			}
			if tc.phase == "" {
				return
			}
			var got struct {
				Metadata struct{ ResourceVersion, UID string }
				Status   struct{ Phase string }
			}
			if err := json.Unmarshal([]byte(api.patches[len(api.patches)-1]), &got); err != nil {
				t.Fatal(err)
			}
			if got.Status.Phase != tc.phase || got.Metadata.ResourceVersion != tc.version || got.Metadata.UID != "u" {
				t.Errorf("want phase %s at version %s, got %+v", tc.phase, tc.version, got)
			}
		})
	}
}

// TestTombstone lets a claim end before the API says that its Run left: late events must not start it again.
func TestTombstone(t *testing.T) {
	area, err := staging.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer area.Close()
	e := &Executor{ctx: t.Context(), claims: map[key]*claim{}, marked: map[string]bool{}, quiet: make(chan struct{})}
	e.Log, e.Area = logr.Discard(), area
	run := assigned("1")
	c := newClaim(e, run, "u.1")
	e.claims[keyOf(run)] = c
	e.finish(keyOf(run), c)
	e.Changed(assigned("2"))
	if got := e.claims[keyOf(run)]; got == nil || !got.done {
		t.Errorf("want a tombstone, got %+v", got)
	}
	e.Left(run)
	if len(e.claims) != 0 {
		t.Errorf("something is left: %v", e.claims)
	}

	e.claims[keyOf(run)] = newClaim(e, run, "u.1")
	e.Left(run)
	e.finish(keyOf(run), e.claims[keyOf(run)])
	if len(e.claims) != 0 {
		t.Errorf("something is left when the Run left first: %v", e.claims)
	}
}
