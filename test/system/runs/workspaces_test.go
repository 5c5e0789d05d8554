package runs

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// workspace creates a PersistentWorkspace of the Runtime sh.
func (s *scene) workspace(name string, change func(*workspacesv1alpha1.PersistentWorkspaceSpec)) *workspacesv1alpha1.PersistentWorkspace {
	s.t.Helper()
	w := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	w.Spec.Runtime = "sh"
	if change != nil {
		change(&w.Spec)
	}
	if err := admin.Create(s.t.Context(), w); err != nil {
		s.t.Fatal(err)
	}
	return w
}

// workspacePhase waits for a phase, and returns the workspace.
func (s *scene) workspacePhase(name string, phase workspacesv1alpha1.WorkspacePhase) *workspacesv1alpha1.PersistentWorkspace {
	s.t.Helper()
	w := &workspacesv1alpha1.PersistentWorkspace{}
	s.until(fmt.Sprintf("workspace %s is %s", name, phase), func() (bool, string) {
		if err := admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, w); err != nil {
			return false, err.Error()
		}
		return w.Status.Phase == phase, fmt.Sprintf("%+v", w.Status)
	})
	return w
}

// workspaceGone waits until a workspace is not there any more.
func (s *scene) workspaceGone(name string) {
	s.t.Helper()
	s.until(fmt.Sprintf("workspace %s is gone", name), func() (bool, string) {
		w := &workspacesv1alpha1.PersistentWorkspace{}
		err := admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, w)
		return apierrors.IsNotFound(err), fmt.Sprintf("%v %+v", w.Finalizers, w.Status)
	})
}

// runIn creates a Run of a script in a workspace.
func (s *scene) runIn(workspace, name, script string) {
	s.t.Helper()
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	run.Spec.Runtime, run.Spec.Source = "sh", &corev1alpha1.RunSource{Inline: script}
	run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: workspace}
	if err := admin.Create(s.t.Context(), run); err != nil {
		s.t.Fatal(err)
	}
}

// TestWorkspaceLives takes a workspace from its binding over use by many Runs to its time to live.
func TestWorkspaceLives(t *testing.T) {
	s := newScene(t)
	s.workspace("ws", func(spec *workspacesv1alpha1.PersistentWorkspaceSpec) {
		spec.CleanupPolicy, spec.TTLSecondsAfterUnused = workspacesv1alpha1.CleanupDeleteAfterTTL, ptr.To[int32](8)
	})
	if w := s.workspacePhase("ws", workspacesv1alpha1.WorkspacePending); w.Status.BoundPod != "" {
		t.Errorf("bound to %s without a Runtime", w.Status.BoundPod)
	}
	s.warm(s.runtime("sh", 3, "2", nil))
	pod := s.workspacePhase("ws", workspacesv1alpha1.WorkspaceBound).Status.BoundPod
	const total = 10
	for i := range total {
		s.runIn("ws", fmt.Sprintf("run-%d", i), s.signs()+"echo line >>lines\n")
	}
	for name, run := range s.settled() {
		if run.Status.Phase != corev1alpha1.RunSucceeded || run.Status.AssignedPod != pod {
			t.Errorf("%s: %s %s on %s, want Succeeded on %s", name, run.Status.Phase, run.Status.Message, run.Status.AssignedPod, pod)
		}
	}
	s.eachSignedOnce(total)
	s.runIn("ws", "counts", fmt.Sprintf("[ $(wc -l <lines) -eq %d ]\n", total))
	s.phase("counts", corev1alpha1.RunSucceeded)
	s.workspaceGone("ws")
	s.workspace("ws", nil)
	s.workspacePhase("ws", workspacesv1alpha1.WorkspaceBound)
	s.runIn("ws", "successor", "[ ! -e lines ]\n")
	s.phase("successor", corev1alpha1.RunSucceeded)
}

// TestWorkspaceIsLostWithItsPod deletes the Pod under a Run: the workspace is never bound again, and a Run that refers to
// it waits and says why. Deleting the workspace needs nobody.
func TestWorkspaceIsLostWithItsPod(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 2, "2", nil))
	s.workspace("ws", nil)
	pod := s.workspacePhase("ws", workspacesv1alpha1.WorkspaceBound).Status.BoundPod
	s.runIn("ws", "active", "exec sleep 300\n")
	s.phase("active", corev1alpha1.RunRunning)
	began := time.Now()
	doomed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: pod}}
	if err := admin.Delete(t.Context(), doomed, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	lost := s.workspacePhase("ws", workspacesv1alpha1.WorkspaceLost)
	t.Logf("from the Pod's deletion to Lost: %v", time.Since(began).Round(time.Millisecond))
	if run := s.phase("active", corev1alpha1.RunFailed); run.Status.Reason != corev1alpha1.RunReasonRuntimePodLost {
		t.Errorf("active: %s", run.Status.Reason)
	}
	s.runIn("ws", "waits", "true\n")
	s.waitsBecause("waits", corev1alpha1.ReasonWorkspaceLost)
	if lost.Status.BoundPod != pod {
		t.Errorf("bound to %s, was bound to %s", lost.Status.BoundPod, pod)
	}
	if err := admin.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	s.workspaceGone("ws")
	s.waitsBecause("waits", corev1alpha1.ReasonWorkspaceNotFound)
}

// TestWorkspacesEndInAnyOrder deletes Runtime, workspace, Run and namespace in various orders. Everything ends.
func TestWorkspacesEndInAnyOrder(t *testing.T) {
	orders := map[string][]string{
		"the Runtime first":     {"runtime", "workspace", "run"},
		"the workspace first":   {"workspace", "runtime", "run"},
		"the Run first":         {"run", "workspace", "runtime"},
		"the namespace at once": {"namespace"},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			runtime := s.runtime("sh", 1, "2", func(r *corev1alpha1.Runtime) {
				r.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](15)
			})
			s.warm(runtime)
			s.workspace("ws", nil)
			s.workspacePhase("ws", workspacesv1alpha1.WorkspaceBound)
			s.runIn("ws", "active", "exec sleep 300\n")
			s.phase("active", corev1alpha1.RunRunning)
			objects := map[string]client.Object{
				"runtime":   runtime,
				"workspace": &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ws"}},
				"run":       &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "active"}},
				"namespace": &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}},
			}
			for _, what := range order {
				if err := admin.Delete(t.Context(), objects[what]); err != nil {
					t.Fatal(err)
				}
			}
			s.workspaceGone("ws")
			if order[0] != "namespace" {
				return
			}
			s.until("the namespace is gone", func() (bool, string) {
				ns := &corev1.Namespace{}
				err := admin.Get(t.Context(), client.ObjectKey{Name: s.namespace}, ns)
				return apierrors.IsNotFound(err), fmt.Sprintf("%+v", ns.Status.Conditions)
			})
		})
	}
}
