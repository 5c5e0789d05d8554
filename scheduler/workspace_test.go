package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/cache"
	"kruntimes.io/kruntimes/scheduler/framework"
)

func in(workspace string) func(*corev1alpha1.Run) {
	return func(r *corev1alpha1.Run) { r.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: workspace} }
}

// workspace shows a PersistentWorkspace; pod is where it is bound.
func (w *world) workspace(name string, phase workspacesv1alpha1.WorkspacePhase, pod string) {
	info := &framework.WorkspaceInfo{Namespace: "n", Name: name, Runtime: "sh", Phase: phase}
	if pod != "" {
		info.Pod, info.PodUID = pod, types.UID("uid-"+pod)
	}
	w.engine.workspaceSeen(info)
}

// TestRunsFollowTheirWorkspace takes Runs through the life of a workspace. Each change wakes those that refer to it.
func TestRunsFollowTheirWorkspace(t *testing.T) {
	w := newWorld(t)
	w.runtime(2)
	for _, pod := range []string{"a", "b", "c"} {
		w.pod(pod, "")
	}
	expect := func(when, told string, placed ...string) {
		t.Helper()
		if diff := cmp.Diff(placed, w.settle()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		w.clock.Step(5 * time.Second)
		var want []string
		if told != "" {
			want = []string{told}
		}
		if diff := cmp.Diff(want, w.told(10)); diff != "" {
			t.Errorf("%s, told (-want +got):\n%s", when, diff)
		}
	}
	w.engine.runSeen(w.create("r1", "1", in("ws")))
	expect("without a workspace", `r1: WorkspaceNotFound: the namespace has no PersistentWorkspace "ws"`)
	w.workspace("ws", workspacesv1alpha1.WorkspacePending, "")
	expect("Pending", `r1: WorkspacePending: PersistentWorkspace "ws" has no Pod yet`)
	w.workspace("ws", workspacesv1alpha1.WorkspaceBound, "b")
	expect("Bound", "", "r1 on b")
	w.engine.runSeen(w.create("r2", "1", in("ws")))
	w.engine.runSeen(w.create("r3", "1", in("ws")))
	expect("full", "r3: InsufficientCapacity: 3 Pods: 2 without the workspace, 1 full (runs 2/2)", "r1 on b", "r2 on b")
	w.finish("r1")
	expect("freed", "", "r2 on b", "r3 on b")
	w.finish("r2")
	w.pod("b", "CrashLoopBackOff")
	w.engine.runSeen(w.create("r4", "1", in("ws")))
	expect("its Pod is not ready", `r4: WorkspacePodUnavailable: the Pod of PersistentWorkspace "ws" is not ready: CrashLoopBackOff`, "r3 on b")
	w.pod("b", "")
	expect("its Pod is back", "", "r3 on b", "r4 on b")
	w.workspace("ws", workspacesv1alpha1.WorkspaceLost, "b")
	w.engine.runSeen(w.create("r5", "1", in("ws")))
	expect("Lost", `r5: WorkspaceLost: PersistentWorkspace "ws" is lost: its Pod is gone, and its files with it`, "r3 on b", "r4 on b")
	w.engine.workspaceGone(types.NamespacedName{Namespace: "n", Name: "ws"})
	expect("deleted", `r5: WorkspaceNotFound: the namespace has no PersistentWorkspace "ws"`, "r3 on b", "r4 on b")
	w.workspace("ws", workspacesv1alpha1.WorkspaceBound, "c")
	expect("made anew", "", "r3 on b", "r4 on b", "r5 on c")
}

// TestAChangeWakesOnlyTheRunsOfItsWorkspace counts cycles.
func TestAChangeWakesOnlyTheRunsOfItsWorkspace(t *testing.T) {
	w := newWorld(t)
	w.runtime(1)
	w.pod("a", "")
	const others = 500
	for i := range others {
		w.engine.runSeen(w.create(fmt.Sprintf("r%03d", i), "1", in(fmt.Sprintf("ws-%03d", i))))
	}
	if got := w.settle(); len(got) > 0 {
		t.Fatalf("placed: %v", got)
	}
	w.workspace("ws-007", workspacesv1alpha1.WorkspaceBound, "a")
	tried := 0
	for {
		info, _, ok := w.engine.queue.Pop()
		if !ok {
			break
		}
		tried++
		if info.Name != "r007" {
			t.Errorf("%s was woken", info.Name)
		}
	}
	if tried != 1 {
		t.Errorf("%d Runs were woken", tried)
	}
}

// TestATerminatingPodTakesTheRunsOfItsWorkspaces expects that until what executes there is asked to end.
func TestATerminatingPodTakesTheRunsOfItsWorkspaces(t *testing.T) {
	w := newWorld(t)
	w.runtime(4)
	w.pod("a", "")
	w.workspace("ws", workspacesv1alpha1.WorkspaceBound, "b")
	w.engine.podSeen(cache.Pod{Runtime: shKey, Name: "b", UID: "uid-b", Terminating: true, TakesUntil: w.clock.Now().Add(time.Minute)})
	w.engine.runSeen(w.create("plain", "1"))
	w.engine.runSeen(w.create("in-time", "1", in("ws")))
	if diff := cmp.Diff([]string{"in-time on b", "plain on a"}, w.settle()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	w.clock.Step(time.Minute)
	w.engine.runSeen(w.create("late", "1", in("ws")))
	if diff := cmp.Diff([]string{"in-time on b", "plain on a"}, w.settle()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestAPodThatGoesWithoutItsNodeTakesNothing takes the Node away from a terminating Pod that holds a workspace.
func TestAPodThatGoesWithoutItsNodeTakesNothing(t *testing.T) {
	w := newWorld(t)
	w.runtime(4)
	w.engine.nodeSeen("node")
	w.engine.podSeen(cache.Pod{Runtime: shKey, Name: "b", UID: "uid-b", Node: "node", Terminating: true, TakesUntil: w.clock.Now().Add(time.Hour)})
	w.workspace("ws", workspacesv1alpha1.WorkspaceBound, "b")
	w.engine.runSeen(w.create("before", "1", in("ws")))
	decided := w.decide()[0]
	if !w.engine.stands(decided) {
		t.Error("the decision does not stand while the Pod has its Node")
	}
	w.engine.nodeGone("node")
	if w.engine.stands(decided) {
		t.Error("the decision stands though the Node of its Pod is gone")
	}
	w.engine.runSeen(w.create("after", "1", in("ws")))
	if late := w.decide(); len(late) > 0 {
		t.Errorf("%s was placed on %s, whose Node is gone", late[0].run.Name, late[0].podName)
	}
	w.clock.Step(5 * time.Second)
	want := []string{`after: WorkspacePodUnavailable: the Pod of PersistentWorkspace "ws" is on a Node that is gone`}
	if diff := cmp.Diff(want, w.told(10)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	w.engine.nodeSeen("node")
	if late := w.decide(); len(late) != 1 || late[0].run.Name != "after" {
		t.Errorf("decided %v when the Node was back, want one on after", late)
	}
}
