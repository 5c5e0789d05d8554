package workspaces

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// assign gives a Run a Pod, as the scheduler does.
func assign(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
	t.Helper()
	before := client.MergeFrom(run.DeepCopy())
	run.Status.Phase, run.Status.Attempt = corev1alpha1.RunScheduled, 1
	run.Status.AssignedPod, run.Status.AssignedPodUID = pod.Name, string(pod.UID)
	if err := shared.Admin().Status().Patch(t.Context(), run, before); err != nil {
		t.Fatal(err)
	}
}

// finish ends a Run, as runtimed does.
func finish(t *testing.T, run *corev1alpha1.Run, phase corev1alpha1.RunPhase, at time.Time) {
	t.Helper()
	before := client.MergeFrom(run.DeepCopy())
	run.Status.Phase, run.Status.CompletionTime = phase, &metav1.MicroTime{Time: at}
	if err := shared.Admin().Status().Patch(t.Context(), run, before); err != nil {
		t.Fatal(err)
	}
}

// wholeSeconds is what is stored of a time.
func wholeSeconds(t time.Time) time.Time {
	return t.Truncate(time.Microsecond).Add(time.Second - 1).Truncate(time.Second)
}

func expectLastUsed(t *testing.T, w *workspacesv1alpha1.PersistentWorkspace, want time.Time) {
	t.Helper()
	if got := w.Status.LastUsedTime; got == nil || !got.Time.Equal(wholeSeconds(want)) {
		t.Errorf("lastUsedTime is %v, want %v", got, want)
	}
}

func isUsed(w *workspacesv1alpha1.PersistentWorkspace) bool { return w.Status.LastUsedTime != nil }

// TestLastUsedTimeIsWrittenOncePerIdlePeriod has the steps of a job follow each other, and counts the versions that are
// stored of the workspace.
func TestLastUsedTimeIsWrittenOncePerIdlePeriod(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	pod := bind(t, ns)
	bound := get(t, ns, "ws")
	var last time.Time
	for _, name := range []string{"one", "two", "three", "four"} {
		run := newRun(ns, name, "ws")
		shared.Create(t, run)
		assign(t, run, pod)
		last = time.Now()
		finish(t, run, corev1alpha1.RunSucceeded, last)
		fence(t, ns)
	}
	if w := get(t, ns, "ws"); w.ResourceVersion != bound.ResourceVersion {
		t.Errorf("the workspace was written between the steps: %+v", w.Status)
	}
	expectLastUsed(t, await(t, ns, "ws", "its last use", isUsed), last)
}

func TestAnUnusedWorkspaceIsDeletedAfterItsTimeToLive(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	pod := bind(t, ns, ttl(3600))
	for name, change := range map[string]func(*workspacesv1alpha1.PersistentWorkspace){
		"unused": ttl(0), "used": ttl(0), "busy": ttl(0), "later": ttl(3600), "no-time": func(w *workspacesv1alpha1.PersistentWorkspace) {
			w.Spec.CleanupPolicy = workspacesv1alpha1.CleanupDeleteAfterTTL
		}, "retained": func(w *workspacesv1alpha1.PersistentWorkspace) {
			w.Spec.CleanupPolicy, w.Spec.TTLSecondsAfterUnused = workspacesv1alpha1.CleanupRetain, new(int32)
		},
	} {
		if name == "busy" || name == "used" {
			shared.Create(t, newRun(ns, name, name))
		}
		shared.Create(t, newWorkspace(ns, name, change))
	}
	j := startJanitor(t, pod)
	run := newRun(ns, "used", "")
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(run), run); err != nil {
		t.Fatal(err)
	}
	finish(t, run, corev1alpha1.RunCancelled, time.Now())
	awaitGone(t, newWorkspace(ns, "unused"))
	awaitGone(t, newWorkspace(ns, "used"))
	j.expect(t, "unused", "used")
	for _, name := range []string{"ws", "busy", "later", "no-time", "retained"} {
		if w := get(t, ns, name); w.Status.Phase != workspacesv1alpha1.WorkspaceBound || w.DeletionTimestamp != nil {
			t.Errorf("workspace %s is %s, deleted %v", name, w.Status.Phase, w.DeletionTimestamp)
		}
	}
	expectEvent(t, ns, "used", "Normal Released: nobody has used the workspace for its time to live: it is deleted with its directory")
}

// TestARunThatIsDeletedCountsAsAUse deletes Runs before their use was written down: one that had finished, and one that was
// active.
func TestARunThatIsDeletedCountsAsAUse(t *testing.T) {
	for name, isActive := range map[string]bool{"finished": false, "active": true} {
		t.Run(name, func(t *testing.T) {
			shared.StartManager(t)
			ns := shared.Namespace(t)
			pod := bind(t, ns)
			run := newRun(ns, "r", "ws")
			shared.Create(t, run)
			assign(t, run, pod)
			fence(t, ns)
			began := time.Now().Truncate(time.Microsecond)
			if !isActive {
				finish(t, run, corev1alpha1.RunSucceeded, began)
			}
			shared.Delete(t, run)
			got := await(t, ns, "ws", "its last use", isUsed).Status.LastUsedTime.Time
			if isActive && got.Before(began) || !isActive && !got.Equal(wholeSeconds(began)) {
				t.Errorf("lastUsedTime is %v; the Run was deleted after %v", got, began)
			}
		})
	}
}

func TestAnExplicitDeletionWaitsForRuntimed(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	pod := bind(t, ns)
	run := newRun(ns, "r", "ws")
	shared.Create(t, run)
	assign(t, run, pod)
	shared.SetReady(t, pod, false)
	if err := shared.Admin().Delete(t.Context(), newWorkspace(ns, "ws")); err != nil {
		t.Fatal(err)
	}
	awaitStanding(t, ns, "ws", boundTo(pod).released())
	expectEvent(t, ns, "ws", "Normal Released: the workspace is deleted, and its directory on Pod a with it")
	j := startJanitor(t, pod)
	fence(t, ns)
	if got := j.names(); len(got) > 0 {
		t.Errorf("cleaned up %v while a Run used it", got)
	}
	finish(t, run, corev1alpha1.RunFailed, time.Now())
	awaitGone(t, newWorkspace(ns, "ws"))
	j.expect(t, "ws")
}

func TestAPodThatIsGoneUnblocksTheFinalizer(t *testing.T) {
	cases := map[string]func(t *testing.T, ns string, pod *corev1.Pod){
		"the Pod goes while the workspace is Released": func(t *testing.T, ns string, pod *corev1.Pod) {
			deleteWorkspace(t, ns)
			awaitPhase(t, ns, "ws", workspacesv1alpha1.WorkspaceReleased)
			shared.Delete(t, pod)
		},
		"the Pod is replaced while the workspace is Released": func(t *testing.T, ns string, pod *corev1.Pod) {
			deleteWorkspace(t, ns)
			awaitPhase(t, ns, "ws", workspacesv1alpha1.WorkspaceReleased)
			shared.Delete(t, pod)
			shared.RuntimePod(t, ns, "sh", pod.Name)
		},
		"the workspace is Lost already": func(t *testing.T, ns string, pod *corev1.Pod) {
			shared.Delete(t, pod)
			awaitPhase(t, ns, "ws", workspacesv1alpha1.WorkspaceLost)
			expectEvent(t, ns, "ws", "Warning PodLost: the Pod a is gone, and the directory with it: Runs that refer to this workspace wait until it is replaced")
			deleteWorkspace(t, ns)
		},
		"both at once": func(t *testing.T, ns string, pod *corev1.Pod) {
			deleteWorkspace(t, ns)
			shared.Delete(t, pod)
		},
	}
	for name, act := range cases {
		t.Run(name, func(t *testing.T) {
			shared.StartManager(t)
			ns := shared.Namespace(t)
			pod := bind(t, ns)
			act(t, ns, pod)
			awaitGone(t, newWorkspace(ns, "ws"))
		})
	}
}

func TestAWorkspaceThatWasNeverBoundIsLetGo(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	shared.Create(t, newWorkspace(ns, "ws", func(w *workspacesv1alpha1.PersistentWorkspace) {
		w.Finalizers = []string{workspacesv1alpha1.Finalizer} // as the WorkflowRun controller makes them
	}))
	awaitStanding(t, ns, "ws", waiting("RuntimeNotFound"))
	deleteWorkspace(t, ns)
	awaitGone(t, newWorkspace(ns, "ws"))
}

// TestALostWorkspaceIsDeletedAfterItsTimeToLive keeps what nobody can use from staying for ever.
func TestALostWorkspaceIsDeletedAfterItsTimeToLive(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	pod := bind(t, ns, ttl(3600))
	shared.Delete(t, pod)
	awaitPhase(t, ns, "ws", workspacesv1alpha1.WorkspaceLost)
	if err := shared.Admin().Patch(t.Context(), newWorkspace(ns, "ws"), mergePatch(`{"spec":{"ttlSecondsAfterUnused":1}}`)); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, newWorkspace(ns, "ws"))
}

func deleteWorkspace(t *testing.T, namespace string) {
	t.Helper()
	if err := shared.Admin().Delete(t.Context(), newWorkspace(namespace, "ws")); err != nil {
		t.Fatal(err)
	}
}

// expectEvent waits for an event about a workspace.
func expectEvent(t *testing.T, namespace, workspace, want string) {
	t.Helper()
	var got []string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("events: %q", got)
		}
	})
	cluster.Eventually(t, "the event "+want, func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := shared.Admin().List(ctx, &list, client.InNamespace(namespace))
		got = nil
		for _, e := range list.Items {
			if e.Regarding.Name == workspace && e.Regarding.Kind == workspacesv1alpha1.Kind {
				got = append(got, e.Type+" "+e.Reason+": "+e.Note)
			}
		}
		return slices.Contains(got, want), err
	})
}
