package workspace

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

func TestARunGoesWhereItsWorkspaceIs(t *testing.T) {
	bound := framework.WorkspaceInfo{
		Namespace: "ns", Name: "w", Runtime: "sh", Phase: workspacesv1alpha1.WorkspaceBound, Pod: "b", PodUID: "ub",
	}
	but := func(change func(*framework.WorkspaceInfo)) *framework.WorkspaceInfo {
		w := bound
		change(&w)
		return &w
	}
	in := func(phase workspacesv1alpha1.WorkspacePhase) *framework.WorkspaceInfo {
		return but(func(w *framework.WorkspaceInfo) { w.Phase = phase })
	}
	ready := []*framework.PodInfo{{Name: "a", UID: "ua", Ready: true}, {Name: "b", UID: "ub", Ready: true}}
	type verdict struct{ Pods, Reason, Message string }
	cases := map[string]struct {
		workspace *framework.WorkspaceInfo
		pods      []*framework.PodInfo
		want      verdict
	}{
		"bound": {&bound, ready, verdict{Pods: "b"}},
		"missing": {nil, ready, verdict{Reason: corev1alpha1.ReasonWorkspaceNotFound,
			Message: `the namespace has no PersistentWorkspace "w"`}},
		"of another Runtime": {but(func(w *framework.WorkspaceInfo) { w.Runtime = "other" }), ready,
			verdict{Reason: corev1alpha1.ReasonWorkspaceMismatch, Message: `PersistentWorkspace "w" belongs to Runtime "other", not "sh"`}},
		"Pending": {in(workspacesv1alpha1.WorkspacePending), ready,
			verdict{Reason: corev1alpha1.ReasonWorkspacePending, Message: `PersistentWorkspace "w" has no Pod yet`}},
		"Released": {in(workspacesv1alpha1.WorkspaceReleased), ready,
			verdict{Reason: corev1alpha1.ReasonWorkspaceReleased, Message: `PersistentWorkspace "w" is being deleted`}},
		"Lost": {in(workspacesv1alpha1.WorkspaceLost), ready,
			verdict{Reason: corev1alpha1.ReasonWorkspaceLost, Message: `PersistentWorkspace "w" is lost: its Pod is gone, and its files with it`}},
		"its Pod has another UID": {&bound, []*framework.PodInfo{ready[0], {Name: "b", UID: "later", Ready: true}},
			verdict{Reason: corev1alpha1.ReasonWorkspacePodUnavailable,
				Message: `the Pod of PersistentWorkspace "w" has been replaced by another of its name`}},
		"both Pods of the name are there": {&bound, []*framework.PodInfo{{Name: "b", UID: "later", Ready: true}, ready[1]}, verdict{Pods: "b"}},
		"its Pod is gone": {&bound, ready[:1], verdict{Reason: corev1alpha1.ReasonWorkspacePodUnavailable,
			Message: `the Pod of PersistentWorkspace "w" is gone`}},
		"its Pod is not ready": {&bound, []*framework.PodInfo{ready[0], {Name: "b", UID: "ub", NotReadyReason: "CrashLoopBackOff"}},
			verdict{Reason: corev1alpha1.ReasonWorkspacePodUnavailable,
				Message: `the Pod of PersistentWorkspace "w" is not ready: CrashLoopBackOff`}},
		"its Pod is terminating": {&bound, []*framework.PodInfo{ready[0], {Name: "b", UID: "ub", Ready: true, Terminating: true}},
			verdict{Reason: corev1alpha1.ReasonWorkspacePodUnavailable, Message: `the Pod of PersistentWorkspace "w" is terminating`}},
		"its Pod is terminating and takes its Runs": {but(func(w *framework.WorkspaceInfo) { w.PodTakes = true }),
			[]*framework.PodInfo{ready[0], {Name: "b", UID: "ub", Terminating: true}}, verdict{Pods: "b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &framework.RunInfo{Namespace: "ns", Runtime: "sh", Workspace: &corev1alpha1.WorkspaceReference{Name: "w"}}
			cycle := &framework.Cycle{Run: run, Snapshot: &framework.Snapshot{Pods: tc.pods, Workspace: tc.workspace}}
			var got verdict
			if status := New().PreFilter(cycle); status.Rejected() {
				got.Reason, got.Message = status.Reason, status.Message()
			} else {
				for _, pod := range tc.pods {
					if !New().Filter(cycle, pod).Rejected() {
						got.Pods += pod.Name
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRunsWithoutAWorkspaceAreLeftAlone(t *testing.T) {
	if got := New().PreFilter(&framework.Cycle{Run: &framework.RunInfo{}, Snapshot: &framework.Snapshot{}}); got.Code != framework.Skip {
		t.Errorf("got %+v", got)
	}
}
