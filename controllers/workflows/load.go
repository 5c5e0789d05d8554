package workflows

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// load reads all that a decision about a WorkflowRun rests on. It returns no observation when the WorkflowRun is gone.
// What it returns is shared with the cache and must not be changed.
func (r *WorkflowRunReconciler) load(ctx context.Context, key types.NamespacedName) (*observation, error) {
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := r.Client.Get(ctx, key, run, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		r.memory.forget(key)
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the WorkflowRun: %w", err)
	}
	run = r.memory.newest(run)
	o := &observation{run: run, held: r.memory.holds(run), now: r.Clock.Now(), jobWorkspaces: r.Workspaces}
	switch {
	case run.Status.Phase.IsTerminal():
		return o, r.loadWorkspaces(ctx, o)
	case !isInitialized(&run.Status):
		return o, nil
	}
	if err := r.loadChildren(ctx, o); err != nil {
		return nil, err
	}
	return o, r.loadWorkspaces(ctx, o)
}

// loadChildren finds the Runs of a WorkflowRun: those of the index, and live those that must be there and that the index
// lacks: the ones that the status names, and the ones that were created a moment ago. The cache may lag behind, so only
// the API server is believed that a child is gone.
func (r *WorkflowRunReconciler) loadChildren(ctx context.Context, o *observation) error {
	names := recorded(&o.run.Status)
	runs, err := r.listChildren(ctx, o)
	if err != nil {
		return fmt.Errorf("listing the Runs of the WorkflowRun: %w", err)
	}
	o.children = make(map[identity]*corev1alpha1.Run, len(runs))
	for i := range runs {
		child := &runs[i]
		id := identityOf(child)
		r.memory.saw(o.run, id)
		if other, ok := o.children[id]; ok {
			var loser *corev1alpha1.Run
			child, loser = prefer(other, child, names[id])
			o.surplus = append(o.surplus, loser)
		}
		o.children[id] = child
	}
	expected := r.memory.unseen(o.run)
	if expected == nil {
		expected = names
	} else {
		maps.Copy(expected, names)
	}
	o.missing = map[identity]string{}
	for id, name := range expected {
		if o.children[id] != nil {
			continue
		}
		if hasEnded(&o.run.Status, id) {
			r.memory.saw(o.run, id)
			continue
		}
		child := &corev1alpha1.Run{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.run.Namespace, Name: name}, child)
		switch {
		case apierrors.IsNotFound(err), err == nil && !belongs(child, o.run, id):
			o.missing[id] = name
		case err != nil:
			return fmt.Errorf("reading Run %s: %w", name, err)
		default:
			o.children[id] = child
		}
	}
	return nil
}

// listChildren lists from the index or, when the WorkflowRun is to end early, from the API server: then a child that
// nobody recorded must not be left running.
func (r *WorkflowRunReconciler) listChildren(ctx context.Context, o *observation) ([]corev1alpha1.Run, error) {
	var runs corev1alpha1.RunList
	if o.endsEarly() {
		err := r.Live.List(ctx, &runs, client.InNamespace(o.run.Namespace),
			client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(o.run.UID)})
		return runs.Items, err
	}
	err := r.Client.List(ctx, &runs, client.InNamespace(o.run.Namespace),
		client.MatchingFields{indexOwner: string(o.run.UID)}, client.UnsafeDisableDeepCopy)
	return runs.Items, err
}
