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
		if err := r.loadCaller(ctx, o); err != nil {
			return nil, err
		}
		return o, r.loadWorkspaces(ctx, o)
	case !isInitialized(&run.Status):
		return o, r.resolveActions(ctx, o)
	}
	o.missing = map[identity]string{}
	expected := r.expected(run)
	for _, load := range []func() error{
		func() error { return r.loadRuns(ctx, o, expected) },
		func() error { return r.loadCalls(ctx, o, expected) },
		func() error { return r.loadActions(ctx, o) },
		func() error { return r.loadWorkspaces(ctx, o) },
	} {
		if err := load(); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// expected are the names of the children that must be there: those that the status names, and those that were created a
// moment ago. The cache may lag behind, so only the API server is believed that one of them is gone.
func (r *WorkflowRunReconciler) expected(run *workflowsv1alpha1.WorkflowRun) map[identity]string {
	names := r.memory.unseen(run)
	for id := range names {
		if hasEnded(&run.Status, id) {
			r.memory.saw(run, id)
			delete(names, id)
		}
	}
	if names == nil {
		names = map[identity]string{}
	}
	maps.Copy(names, recorded(&run.Status))
	return names
}

// loadRuns finds the Runs of a WorkflowRun: those of the index, and live those that the index lacks.
func (r *WorkflowRunReconciler) loadRuns(ctx context.Context, o *observation, expected map[identity]string) error {
	var list corev1alpha1.RunList
	if err := r.listChildren(ctx, o, &list); err != nil {
		return fmt.Errorf("listing the Runs of the WorkflowRun: %w", err)
	}
	all := make([]*corev1alpha1.Run, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	o.children, o.surplus = sortOut(r, o, all, expected)
	for id, name := range expected {
		if id.isCall() || o.children[id] != nil {
			continue
		}
		child := &corev1alpha1.Run{}
		if found, err := r.findChild(ctx, o, id, name, child); err != nil {
			return fmt.Errorf("reading Run %s: %w", name, err)
		} else if found {
			o.children[id] = child
		}
	}
	return nil
}

// loadCalls does the same for child WorkflowRuns. The cache drops most of one that has ended, so that it is read again where
// that matters.
func (r *WorkflowRunReconciler) loadCalls(ctx context.Context, o *observation, expected map[identity]string) error {
	if !callWorkflow(o.run.Spec.Jobs) {
		return nil
	}
	var list workflowsv1alpha1.WorkflowRunList
	if err := r.listChildren(ctx, o, &list); err != nil {
		return fmt.Errorf("listing the child WorkflowRuns: %w", err)
	}
	all := make([]*workflowsv1alpha1.WorkflowRun, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	seen, surplus := sortOut(r, o, all, expected)
	o.calls, o.surplusCalls = make(map[string]*workflowsv1alpha1.WorkflowRun, len(seen)), surplus
	for id, child := range seen {
		if child.Status.Phase.IsTerminal() && !o.run.Status.Jobs[id.job].Phase.IsTerminal() {
			expected[id] = child.Name
			continue
		}
		o.calls[id.job] = child
	}
	for id, name := range expected {
		if !id.isCall() || o.calls[id.job] != nil {
			continue
		}
		child := &workflowsv1alpha1.WorkflowRun{}
		if found, err := r.findChild(ctx, o, id, name, child); err != nil {
			return fmt.Errorf("reading WorkflowRun %s: %w", name, err)
		} else if found {
			o.calls[id.job] = child
		}
	}
	return nil
}

// sortOut gives each identity one of the children that the index has of it; the others are surplus.
func sortOut[T client.Object](r *WorkflowRunReconciler, o *observation, all []T, expected map[identity]string) (chosen map[identity]T, surplus []T) {
	chosen = make(map[identity]T, len(all))
	for _, child := range all {
		id := identityOf(child)
		r.memory.saw(o.run, id)
		if other, ok := chosen[id]; ok {
			var loser T
			child, loser = prefer(other, child, expected[id])
			surplus = append(surplus, loser)
		}
		chosen[id] = child
	}
	return chosen, surplus
}

// findChild reads a child from the API server, and tells whether it is there; one that is not is missing.
func (r *WorkflowRunReconciler) findChild(ctx context.Context, o *observation, id identity, name string, into client.Object) (bool, error) {
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.run.Namespace, Name: name}, into)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	if err == nil && belongs(into, o.run, id) {
		return true, nil
	}
	o.missing[id] = name
	return false, nil
}

// listChildren lists from the index or, when the WorkflowRun is to end early, from the API server: then a child that
// nobody recorded must not be left running.
func (r *WorkflowRunReconciler) listChildren(ctx context.Context, o *observation, list client.ObjectList) error {
	if o.endsEarly() {
		return r.Live.List(ctx, list, client.InNamespace(o.run.Namespace),
			client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(o.run.UID)})
	}
	return r.Client.List(ctx, list, client.InNamespace(o.run.Namespace),
		client.MatchingFields{indexOwner: string(o.run.UID)}, client.UnsafeDisableDeepCopy)
}
