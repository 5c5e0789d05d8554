package workspaces

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// observation is all that a decision rests on. What it refers to is shared with the cache and must not be changed.
type observation struct {
	// workspace is the PersistentWorkspace as it is stored.
	workspace *workspacesv1alpha1.PersistentWorkspace
	// now is the time of the decision.
	now time.Time

	// runtime is the Runtime that an unbound workspace names; nil when there is none.
	runtime *corev1alpha1.Runtime
	// candidates are the Pods to which an unbound workspace may be bound, in no particular order.
	candidates []*corev1.Pod

	// pod has the name of the bound Pod, be it that Pod or not; nil when there is none. That it is not the bound one has
	// been confirmed by a live read.
	pod *corev1.Pod
	// unwatched tells that only a live read has found the bound Pod, so that its end would not be heard of.
	unwatched bool

	// active tells that a Run which refers to the workspace has not finished. Known while the workspace is Bound or Lost, and
	// while it is being deleted: then only Runs count that are on the bound Pod, since others never come there.
	active bool
	// lastUse is when the last of the Runs that refer to the workspace ended; zero when none has. Known while none is active.
	lastUse time.Time
}

// isCandidate tells whether a workspace may be bound to a Pod of its Runtime, if the Pod has its Node; see hasNode.
func isCandidate(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && corev1alpha1.PodIsReady(pod)
}

// holds tells whether pod, which may be nil, is the one to which w is bound and still has its directory. A Pod that has
// ended, as an evicted one has, never runs again, and its node has removed its volumes.
func holds(pod *corev1.Pod, w *workspacesv1alpha1.PersistentWorkspace) bool {
	return pod != nil && string(pod.UID) == w.Status.BoundPodUID && !hasEnded(pod)
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// isDeleting tells whether the deletion of w was asked for.
func isDeleting(w *workspacesv1alpha1.PersistentWorkspace) bool { return !w.DeletionTimestamp.IsZero() }
