package workspaces

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// now is when the decisions of these tests are made.
var now = time.Date(2026, 7, 6, 12, 0, 0, 0, time.UTC)

// The times at which the workspace of these tests was created and bound.
var (
	createdAt = now.Add(-3 * time.Hour)
	boundAt   = now.Add(-2 * time.Hour)
)

// world makes observations, each from a fresh copy: build on one with the methods, and end with done.
type world struct{ observation }

// pending is a workspace that was just created, in a namespace without a Runtime.
func pending() *world {
	return &world{observation{now: now, workspace: &workspacesv1alpha1.PersistentWorkspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ws", UID: "ws-uid", Generation: 1, CreationTimestamp: metav1.NewTime(createdAt)},
		Spec:       workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh", CleanupPolicy: workspacesv1alpha1.CleanupRetain},
		Status:     workspacesv1alpha1.PersistentWorkspaceStatus{Phase: workspacesv1alpha1.WorkspacePending},
	}}}
}

// bound is a workspace that was bound to the ready Pod a two hours ago, as the controller writes it.
func bound() *world {
	w := pending().runtime().ready("a")
	w.now = boundAt
	w.workspace.Finalizers = []string{workspacesv1alpha1.Finalizer}
	return w.next().at(now)
}

// next stores what is decided, and looks again: unbound no more, it sees the Pod to which it was bound.
func (w *world) next() *world {
	d := calculate(&w.observation)
	w.workspace = w.workspace.DeepCopy()
	w.workspace.Status = d.status
	if d.pod != nil {
		w.pod, w.candidates = d.pod, nil
	}
	return w
}

func (w *world) at(t time.Time) *world {
	w.now = t
	return w
}

func (w *world) runtime() *world {
	w.observation.runtime = &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sh"}}
	return w
}

func (w *world) ready(names ...string) *world {
	for _, name := range names {
		w.candidates = append(w.candidates, readyPod(name))
	}
	return w
}

// change changes the bound Pod.
func (w *world) change(f func(*corev1.Pod)) *world {
	w.pod = w.pod.DeepCopy()
	f(w.pod)
	return w
}

// gone takes the Pod away.
func (w *world) gone() *world {
	w.pod = nil
	return w
}

// deleted asks for the deletion of the workspace.
func (w *world) deleted() *world {
	w.workspace = w.workspace.DeepCopy()
	w.workspace.DeletionTimestamp = &metav1.Time{Time: w.now}
	w.workspace.Generation++
	return w
}

// ttl has the workspace deleted when it was not used for that long.
func (w *world) ttl(d time.Duration) *world {
	seconds := int32(d / time.Second)
	w.workspace.Spec.CleanupPolicy = workspacesv1alpha1.CleanupDeleteAfterTTL
	w.workspace.Spec.TTLSecondsAfterUnused = &seconds
	return w
}

func (w *world) inUse() *world {
	w.active = true
	return w
}

func (w *world) usedUntil(t time.Time) *world {
	w.active, w.lastUse = false, t
	return w
}

func readyPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid"),
			Labels:      map[string]string{corev1alpha1.LabelRuntime: "sh", corev1alpha1.LabelManagedBy: corev1alpha1.ManagedBy},
			Annotations: map[string]string{corev1alpha1.AnnotationRuntime: "sh"}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func notReady(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now} }

// outcome is a decision in a form that can be compared.
type outcome struct {
	Phase                       workspacesv1alpha1.WorkspacePhase
	Bound, Available            string
	Pod, PodUID, Path, LastUsed string
	Action                      action
	Recheck                     time.Duration
}

func outcomeOf(d decision) outcome {
	s := &d.status
	out := outcome{Phase: s.Phase, Pod: s.BoundPod, PodUID: s.BoundPodUID, Path: s.Path, Action: d.action, Recheck: d.recheck}
	for _, c := range s.Conditions {
		text := string(c.Status) + " " + c.Reason
		switch c.Type {
		case workspacesv1alpha1.WorkspaceConditionBound:
			out.Bound = text
		case workspacesv1alpha1.WorkspaceConditionAvailable:
			out.Available = text
		}
	}
	if s.LastUsedTime != nil {
		out.LastUsed = s.LastUsedTime.UTC().Format(time.TimeOnly)
	}
	return out
}

// onPod is the outcome for a workspace that is bound to Pod a.
func onPod(change func(*outcome)) outcome {
	out := outcome{Phase: workspacesv1alpha1.WorkspaceBound, Bound: "True Bound", Available: "True PodReady",
		Pod: "a", PodUID: "a-uid", Path: "/workspace/persistent/ws"}
	if change != nil {
		change(&out)
	}
	return out
}
