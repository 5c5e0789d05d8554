package workspaces

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

func waiting(reason string) standing {
	return standing{Phase: workspacesv1alpha1.WorkspacePending, Bound: "False " + reason, Available: "False " + reason}
}

// boundTo is where workspace ws stands when it is bound to a Pod that is ready.
func boundTo(pod *corev1.Pod) standing {
	return standing{Phase: workspacesv1alpha1.WorkspaceBound, Bound: "True Bound", Available: "True PodReady",
		Runtime: "sh", Pod: pod.Name, PodUID: string(pod.UID), Path: "/workspace/persistent/ws"}
}

func (s standing) unavailable(reason string) standing {
	s.Available = "False " + reason
	return s
}

func (s standing) lost() standing {
	s.Phase, s.Bound, s.Available = workspacesv1alpha1.WorkspaceLost, "False PodLost", "False PodLost"
	return s
}

func (s standing) released() standing {
	s.Phase, s.Available = workspacesv1alpha1.WorkspaceReleased, "False Released"
	return s
}

// bind makes workspace ws and the Pod to which it is bound. A manager must run.
func bind(t *testing.T, namespace string, change ...func(*workspacesv1alpha1.PersistentWorkspace)) *corev1.Pod {
	t.Helper()
	shared.Create(t, newRuntime(namespace, "sh"))
	pod := shared.RuntimePod(t, namespace, "sh", "a")
	shared.Create(t, newWorkspace(namespace, "ws", change...))
	awaitPhase(t, namespace, "ws", workspacesv1alpha1.WorkspaceBound)
	return pod
}

// TestAWorkspaceFromItsCreationToItsLoss follows rules 1 to 5 of the binding lifecycle.
func TestAWorkspaceFromItsCreationToItsLoss(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	shared.Create(t, newWorkspace(ns, "ws"))
	awaitStanding(t, ns, "ws", waiting("RuntimeNotFound"))
	shared.Create(t, newRuntime(ns, "sh"))
	awaitStanding(t, ns, "ws", waiting("NoReadyPods"))
	shared.RuntimePod(t, ns, "other", "of-another-runtime")
	pod := shared.RuntimePod(t, ns, "sh", "a")
	awaitStanding(t, ns, "ws", boundTo(pod))
	if w := get(t, ns, "ws"); !cmp.Equal(w.Finalizers, []string{workspacesv1alpha1.Finalizer}) {
		t.Errorf("bound with finalizers %v", w.Finalizers)
	}

	other := shared.RuntimePod(t, ns, "sh", "0")
	shared.SetReady(t, pod, false)
	awaitStanding(t, ns, "ws", boundTo(pod).unavailable("PodNotReady"))
	shared.SetReady(t, pod, true)
	awaitStanding(t, ns, "ws", boundTo(pod))
	if err := shared.Admin().Delete(t.Context(), pod, client.GracePeriodSeconds(600)); err != nil {
		t.Fatal(err)
	}
	awaitStanding(t, ns, "ws", boundTo(pod).unavailable("PodTerminating"))
	shared.Delete(t, pod)
	lost := awaitStanding(t, ns, "ws", boundTo(pod).lost())

	// A successor of the same name, and other events, change nothing.
	shared.RuntimePod(t, ns, "sh", "a")
	shared.SetReady(t, other, false)
	fence(t, ns)
	if diff := cmp.Diff(lost.Status, get(t, ns, "ws").Status); diff != "" {
		t.Errorf("a Lost workspace changed (-before +after):\n%s", diff)
	}
}

// fence waits until the manager has seen all that was done in a namespace before.
func fence(t *testing.T, namespace string) {
	t.Helper()
	w := newWorkspace(namespace, "")
	w.GenerateName, w.Spec.Runtime = "fence-", "none"
	shared.Create(t, w)
	awaitStanding(t, namespace, w.Name, waiting("RuntimeNotFound"))
}

// TestAPodWithoutItsNodeIsNotBoundTo deletes the Node of a Pod that goes on to say that it is ready, as it does until Kubernetes
// removes it.
func TestAPodWithoutItsNodeIsNotBoundTo(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns + "-a"}}
	shared.Create(t, newRuntime(ns, "sh"))
	pod := shared.RuntimePodOn(t, node.Name, ns, "sh", "a")
	shared.Delete(t, node)
	shared.Create(t, newWorkspace(ns, "ws"))
	awaitStanding(t, ns, "ws", waiting("NoReadyPods"))
	shared.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}})
	awaitStanding(t, ns, "ws", boundTo(pod))
}

func TestAPodOfAnotherUIDIsAnotherPod(t *testing.T) {
	stop := shared.StartManager(t)
	ns := shared.Namespace(t)
	pod := bind(t, ns)
	stop() // The manager sees nothing of the time between the two Pods.
	shared.Delete(t, pod)
	shared.RuntimePod(t, ns, "sh", pod.Name)
	shared.StartManager(t)
	awaitStanding(t, ns, "ws", boundTo(pod).lost())
}

func TestAnEvictedPodIsLost(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	pod := bind(t, ns)
	before := client.MergeFrom(pod.DeepCopy())
	pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
	if err := shared.Admin().Status().Patch(t.Context(), pod, before); err != nil {
		t.Fatal(err)
	}
	awaitStanding(t, ns, "ws", boundTo(pod).lost())
}

// TestAPodThatLosesItsLabelsIsStillThere takes the labels away by which the manager watches Pods.
func TestAPodThatLosesItsLabelsIsStillThere(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	pod := bind(t, ns)
	if err := shared.Admin().Patch(t.Context(), pod, mergePatch(`{"metadata":{"labels":null}}`)); err != nil {
		t.Fatal(err)
	}
	fence(t, ns)
	if diff := cmp.Diff(boundTo(pod), standingOf(get(t, ns, "ws"))); diff != "" {
		t.Errorf("standing (-want +got):\n%s", diff)
	}
	if err := shared.Admin().Delete(t.Context(), get(t, ns, "ws")); err != nil {
		t.Fatal(err)
	}
	awaitStanding(t, ns, "ws", boundTo(pod).released())
	shared.Delete(t, pod) // Nobody hears of that; the manager looks from time to time.
	if err := shared.Admin().Patch(t.Context(), get(t, ns, "ws"), mergePatch(`{"metadata":{"labels":{"touched":"x"}}}`)); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, newWorkspace(ns, "ws"))
}

func TestWorkspacesSpreadAndEachIsBoundOnce(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	shared.Create(t, newRuntime(ns, "sh"))
	var names []string
	for range 20 {
		w := newWorkspace(ns, "")
		w.GenerateName = "ws-"
		shared.Create(t, w)
		names = append(names, w.Name)
	}
	for _, pod := range []string{"a", "b", "c"} {
		shared.RuntimePod(t, ns, "sh", pod)
	}
	first := map[string]string{}
	for _, name := range names {
		first[name] = awaitPhase(t, ns, name, workspacesv1alpha1.WorkspaceBound).Status.BoundPodUID
	}
	shared.RuntimePod(t, ns, "sh", "d")
	fence(t, ns)
	for _, name := range names {
		if got := get(t, ns, name).Status.BoundPodUID; got != first[name] {
			t.Errorf("workspace %s was bound to %s, and is to %s now", name, first[name], got)
		}
	}
}
