package decision

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// scheduled returns a Run that is assigned to Pod p, changed by the given functions.
func scheduled(change ...func(*corev1alpha1.Run)) *corev1alpha1.Run {
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u", Generation: 3}}
	run.Spec.Source = &corev1alpha1.RunSource{Inline: "true"}
	run.Status = corev1alpha1.RunStatus{Phase: corev1alpha1.RunScheduled, AssignedPod: "p", AssignedPodUID: "pu", Attempt: 2}
	for _, f := range change {
		f(run)
	}
	return run
}

func isRunning(r *corev1alpha1.Run)   { r.Status.Phase = corev1alpha1.RunRunning }
func isCancelled(r *corev1alpha1.Run) { r.Spec.CancelRequested = true }
func isDeleted(r *corev1alpha1.Run)   { r.DeletionTimestamp = ptr.To(metav1.Now()) }
func hasGit(r *corev1alpha1.Run) {
	r.Spec.Source = &corev1alpha1.RunSource{Git: &corev1alpha1.GitSource{}}
}
func hasWorkspace(r *corev1alpha1.Run) {
	r.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: "w"}
}
func hasInputs(r *corev1alpha1.Run) {
	r.Spec.ArtifactInputs = []corev1alpha1.ArtifactInput{{Path: "a"}}
}

func TestForFound(t *testing.T) {
	type brief struct {
		Kind   ClaimKind
		Phase  corev1alpha1.RunPhase
		Reason corev1alpha1.RunReason
	}
	lost := brief{ClaimLost, corev1alpha1.RunFailed, corev1alpha1.RunReasonExecutionLost}
	reattach := brief{ClaimReattach, corev1alpha1.RunFailed, corev1alpha1.RunReasonExecutionLost}
	cancelled := brief{ClaimEnd, corev1alpha1.RunCancelled, corev1alpha1.RunReasonCancelled}
	cases := map[string]struct {
		found Found
		want  brief
	}{
		"new":                   {Found{Run: scheduled()}, brief{Kind: ClaimExecute}},
		"new in the first list": {Found{Run: scheduled(), First: true}, brief{Kind: ClaimExecute}},
		"new, although the node was started anew":    {Found{Run: scheduled(), BootChanged: true}, brief{Kind: ClaimExecute}},
		"in the first list after a boot of the node": {Found{Run: scheduled(), First: true, BootChanged: true}, lost},
		"marked":                               {Found{Run: scheduled(), Marked: true, First: true}, reattach},
		"marked, and Running":                  {Found{Run: scheduled(isRunning), Marked: true, First: true}, reattach},
		"marked before a boot of the node":     {Found{Run: scheduled(), Marked: true, BootChanged: true}, lost},
		"Running, although the marker is gone": {Found{Run: scheduled(isRunning), First: true}, lost},
		"marked and cancelled":                 {Found{Run: scheduled(isCancelled), Marked: true}, reattach},
		"cancelled":                            {Found{Run: scheduled(isCancelled)}, cancelled},
		"being deleted":                        {Found{Run: scheduled(isDeleted)}, cancelled},
		"with a git source":                    {Found{Run: scheduled(hasGit)}, brief{Kind: ClaimExecute}},
		"with a workspace":                     {Found{Run: scheduled(hasWorkspace)}, brief{Kind: ClaimExecute}},
		"with artifact inputs":                 {Found{Run: scheduled(hasInputs)}, brief{Kind: ClaimExecute}},
		"new, while the Pod drains":            {Found{Run: scheduled(), Draining: &Draining{}}, brief{ClaimEnd, corev1alpha1.RunFailed, corev1alpha1.RunReasonPodTerminated}},
		"cancelled, while the Pod drains":      {Found{Run: scheduled(isCancelled), Draining: &Draining{}}, cancelled},
		"marked, while the Pod drains":         {Found{Run: scheduled(), Marked: true, Draining: &Draining{}}, reattach},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ForFound(tc.found)
			if diff := cmp.Diff(tc.want, brief{got.Kind, got.Result.Phase, got.Result.Reason}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if tc.want.Kind != ClaimExecute && got.Result.Message == "" {
				t.Error("no message")
			}
		})
	}
}

func TestFinal(t *testing.T) {
	lost := Lost()
	cases := map[string]struct {
		result Result
		run    *corev1alpha1.Run
		want   Result
	}{
		"nothing asked for": {lost, scheduled(), lost},
		"an unknown end and a cancel": {lost, scheduled(isCancelled), Result{Phase: corev1alpha1.RunCancelled,
			Reason: corev1alpha1.RunReasonCancelled, Message: "Cancelled: " + lost.Message}},
		"a known end stays, whatever was asked for": {Result{Phase: corev1alpha1.RunSucceeded}, scheduled(isCancelled), Result{Phase: corev1alpha1.RunSucceeded}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Final(tc.result, tc.run)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRefusedNeverSucceeds(t *testing.T) {
	got := Refused(Result{Phase: corev1alpha1.RunSucceeded, Outputs: map[string]string{"a": "b"}}, errors.New("too long"))
	want := Result{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonOutputsInvalid, Message: "The API server refused the result: too long"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestIsOurs(t *testing.T) {
	cases := map[string]struct {
		run  *corev1alpha1.Run
		want bool
	}{
		"as claimed": {scheduled(), true},
		"Running":    {scheduled(isRunning), true},
		"finished":   {scheduled(func(r *corev1alpha1.Run) { r.Status.Phase = corev1alpha1.RunFailed }), false},
		"handed back": {scheduled(func(r *corev1alpha1.Run) {
			r.Status = corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Attempt: 3}
		}), false},
		"another attempt":  {scheduled(func(r *corev1alpha1.Run) { r.Status.Attempt = 3 }), false},
		"another Pod":      {scheduled(func(r *corev1alpha1.Run) { r.Status.AssignedPod = "q" }), false},
		"a Pod's namesake": {scheduled(func(r *corev1alpha1.Run) { r.Status.AssignedPodUID = "other" }), false},
		"a Run's namesake": {scheduled(func(r *corev1alpha1.Run) { r.UID = "other" }), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := IsOurs(tc.run, "u", 2, "p", "pu"); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}
