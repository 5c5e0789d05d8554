package definitions

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// workflowCall and actionCall are where indexCalls has those that call a Workflow or an Action. No name holds a slash.
func workflowCall(name string) string { return "workflow/" + name }

func actionCall(name string) string { return "action/" + name }

// callsOf is what a Workflow calls by itself.
func callsOf(o client.Object) []string {
	w, ok := o.(*workflowsv1alpha1.Workflow)
	if !ok {
		return nil
	}
	called := sets.New[string]()
	for _, job := range w.Spec.Jobs {
		if job.Uses != "" {
			called.Insert(workflowCall(job.Uses))
		}
		for i := range job.Steps {
			if uses := job.Steps[i].Uses; uses != "" {
				called.Insert(actionCall(uses))
			}
		}
	}
	return sets.List(called)
}

// changes lets through what is news for the callers of a definition: that it appears, that its spec changes, and that it is
// gone. What is there when a controller starts is none: callers are judged for their own sake then.
func changes() predicate.Funcs {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		CreateFunc:  func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(e event.UpdateEvent) bool {
			// A watch that broke may show one that was deleted and made again as a change.
			return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
		},
	}
}

// own lets through what is news for a definition itself: the same, and that it is there when a controller starts.
func own() predicate.Funcs {
	p := changes()
	p.CreateFunc = nil
	return p
}

// callersOf finds the Workflows that call a Workflow or an Action, directly or further down. Each is found once, also where
// they call each other in a circle. An event comes once: an error cannot be waited out here, and nothing but an index that
// nobody registered, or the end of ctx, makes one.
func (r *WorkflowReconciler) callersOf(ctx context.Context, called client.Object) []reconcile.Request {
	next := []string{workflowCall(called.GetName())}
	if _, isAction := called.(*workflowsv1alpha1.Action); isAction {
		next = []string{actionCall(called.GetName())}
	}
	var requests []reconcile.Request
	found := sets.New[string]()
	for len(next) > 0 {
		var callers workflowsv1alpha1.WorkflowList
		err := r.Client.List(ctx, &callers, client.InNamespace(called.GetNamespace()), client.MatchingFields{indexCalls: next[0]}, client.UnsafeDisableDeepCopy)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			panic(fmt.Sprintf("listing the Workflows that call %s: %v", next[0], err)) // a bug, seen by every test of the controller
		}
		next = next[1:]
		for i := range callers.Items {
			caller := &callers.Items[i]
			if !found.Has(caller.Name) {
				found.Insert(caller.Name)
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(caller)})
				next = append(next, workflowCall(caller.Name))
			}
		}
	}
	return requests
}
