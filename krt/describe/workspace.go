package describe

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/runs"
)

// workspaceView is a PersistentWorkspace and what was read along with it.
type workspaceView struct {
	workspace *workspacesv1alpha1.PersistentWorkspace
	runs      []corev1alpha1.Run
	runsErr   error
	events    []corev1.Event
	eventsErr error
}

// loadWorkspace reads a PersistentWorkspace and what belongs to it. What this person may not read is left out.
func loadWorkspace(ctx context.Context, c client.Reader, key client.ObjectKey) (*workspaceView, error) {
	var workspace workspacesv1alpha1.PersistentWorkspace
	if err := c.Get(ctx, key, &workspace); err != nil {
		return nil, cli.Missing(err, cli.KindWorkspace, key.Namespace, key.Name)
	}
	view := &workspaceView{workspace: &workspace}
	view.runsErr = runs.Each(ctx, c, &client.ListOptions{Namespace: key.Namespace}, func(run *corev1alpha1.Run) {
		if run.Spec.Workspace != nil && run.Spec.Workspace.Name == key.Name {
			view.runs = append(view.runs, *run)
		}
	})
	view.events, view.eventsErr = eventsOf(ctx, c, &workspace)
	return view, nil
}

// text puts the view into words.
func (v *workspaceView) text(now time.Time) string {
	p := &page{now: now}
	v.head(p)
	p.conditions(v.workspace.Status.Conditions)
	p.runs(v.runs, v.runsErr, v.workspace.Namespace)
	p.events(v.events, v.eventsErr)
	return p.String()
}

func (v *workspaceView) head(p *page) {
	w := v.workspace
	p.field("Name", w.Name)
	p.field("Namespace", w.Namespace)
	p.field("Labels", pairs(w.Labels))
	if owner := metav1.GetControllerOf(w); owner != nil {
		p.field("Owner", owner.Kind+" "+owner.Name)
	}
	p.field("Runtime", w.Spec.Runtime)
	p.field("Mode", string(w.Spec.Mode))
	p.field("Phase", string(w.Status.Phase))
	if w.Status.BoundPod != "" {
		p.field("Pod", w.Status.BoundPod+" (uid "+w.Status.BoundPodUID+")")
	}
	p.field("Path", w.Status.Path)
	p.field("Cleanup", cleanup(&w.Spec))
	p.field("Created", p.ago(w.CreationTimestamp.Time))
	if used := w.Status.LastUsedTime; used != nil {
		p.field("Last used", p.ago(used.Time))
	}
	if w.DeletionTimestamp != nil {
		p.field("Deleting", "since "+p.ago(w.DeletionTimestamp.Time)+v.holders())
	}
}

// holders says what a workspace waits for that is being deleted.
func (v *workspaceView) holders() string {
	w := v.workspace
	isThere := w.Status.BoundPod != "" && w.Status.Phase != workspacesv1alpha1.WorkspaceLost
	if isThere && slices.Contains(w.Finalizers, workspacesv1alpha1.Finalizer) {
		for _, c := range w.Status.Conditions {
			if c.Reason == workspacesv1alpha1.ReasonCleanupStuck {
				return "; " + c.Message
			}
		}
		return "; its Pod has to remove the directory, once no Run is executed there"
	}
	return ""
}

// cleanup says when a workspace is deleted.
func cleanup(spec *workspacesv1alpha1.PersistentWorkspaceSpec) string {
	if spec.CleanupPolicy != workspacesv1alpha1.CleanupDeleteAfterTTL {
		return "Retain: it stays until somebody deletes it"
	}
	ttl := spec.TTLSecondsAfterUnused
	if ttl == nil {
		return "DeleteAfterTTL, but without a time to live: it stays until somebody deletes it"
	}
	return "DeleteAfterTTL: " + runs.Duration(time.Duration(*ttl)*time.Second) + " after its last use"
}
