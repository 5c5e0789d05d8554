package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/controllers/workflows/definitions"
	"kruntimes.io/kruntimes/workflow/calls"
)

// Actions are frozen with the WorkflowRun that calls them: what it executes is what was there when it was accepted.

// frozenAction is what the ControllerRevision of an Action holds.
type frozenAction struct {
	// Action is its name.
	Action string                       `json:"action"`
	Spec   workflowsv1alpha1.ActionSpec `json:"spec"`
}

// resolveActions finds the Actions that a new WorkflowRun calls: those that a predecessor has frozen already, and the others
// as they are now.
func (r *WorkflowRunReconciler) resolveActions(ctx context.Context, o *observation) error {
	if !callActions(o.run.Spec.Jobs) {
		return nil
	}
	frozen, err := r.listFrozen(ctx, o.run)
	if err != nil {
		return err
	}
	o.actions, o.unresolved, err = calls.Actions(&thawed{Definitions: definitions.Of(ctx, r.Live, o.run.Namespace), actions: frozen}, o.run.Spec.Jobs)
	if err != nil {
		return fmt.Errorf("reading the Actions that are called: %w", err)
	}
	return nil
}

// thawed are definitions in which frozen Actions count in place of what is stored now.
type thawed struct {
	calls.Definitions
	actions map[string]*workflowsv1alpha1.ActionSpec
}

// Action returns the Action of the given name.
func (t *thawed) Action(name string) (*workflowsv1alpha1.ActionSpec, error) {
	if action := t.actions[name]; action != nil {
		return action, nil
	}
	return t.Definitions.Action(name)
}

// loadActions finds the frozen Actions of an accepted WorkflowRun. They never change, so that they are read once.
func (r *WorkflowRunReconciler) loadActions(ctx context.Context, o *observation) error {
	if !callActions(o.run.Spec.Jobs) {
		return nil
	}
	if o.actions = r.memory.frozen(o.run); o.actions != nil {
		return nil
	}
	var err error
	if o.actions, err = r.listFrozen(ctx, o.run); err != nil {
		return err
	}
	r.memory.froze(o.run, o.actions)
	return nil
}

// listFrozen reads the frozen Actions of a WorkflowRun.
func (r *WorkflowRunReconciler) listFrozen(ctx context.Context, owner *workflowsv1alpha1.WorkflowRun) (map[string]*workflowsv1alpha1.ActionSpec, error) {
	var list appsv1.ControllerRevisionList
	err := r.Live.List(ctx, &list, client.InNamespace(owner.Namespace),
		client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(owner.UID)})
	if err != nil {
		return nil, fmt.Errorf("listing the frozen Actions of the WorkflowRun: %w", err)
	}
	actions := map[string]*workflowsv1alpha1.ActionSpec{}
	for i := range list.Items {
		if stored, ok := frozenIn(&list.Items[i], owner); ok {
			actions[stored.Action] = &stored.Spec
		}
	}
	return actions, nil
}

// frozenIn reads the Action that a ControllerRevision holds for owner; false where it holds none, or has not the name of
// one that holds it.
func frozenIn(revision *appsv1.ControllerRevision, owner *workflowsv1alpha1.WorkflowRun) (frozenAction, bool) {
	var stored frozenAction
	if !metav1.IsControlledBy(revision, owner) || json.Unmarshal(revision.Data.Raw, &stored) != nil || stored.Action == "" {
		return stored, false
	}
	return stored, slices.Contains(actionNames(owner, stored.Action), revision.Name)
}

// freeze stores the Actions that a WorkflowRun calls.
func (r *WorkflowRunReconciler) freeze(ctx context.Context, o *observation) error {
	names := sortedKeys(o.actions)
	errs := make([]error, len(names))
	workqueue.ParallelizeUntil(ctx, atOnce, len(names), func(i int) {
		errs[i] = r.freezeAction(ctx, o.run, frozenAction{Action: names[i], Spec: *o.actions[names[i]]})
	})
	for i, err := range append(errs, ctx.Err()) {
		if err != nil && i < len(names) {
			return fmt.Errorf("storing Action %s: %w", names[i], err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (r *WorkflowRunReconciler) freezeAction(ctx context.Context, owner *workflowsv1alpha1.WorkflowRun, action frozenAction) error {
	data, err := canonical(&action)
	if err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	build := func(name string) client.Object { return revisionOf(owner, name, data) }
	_, err = r.createUnderFreeName(ctx, actionNames(owner, action.Action), build, func(holder client.Object) bool {
		revision, ok := holder.(*appsv1.ControllerRevision)
		if !ok {
			return false
		}
		stored, ok := frozenIn(revision, owner)
		return ok && stored.Action == action.Action
	})
	return err
}

// revisionOf makes a ControllerRevision that goes with its WorkflowRun.
func revisionOf(owner *workflowsv1alpha1.WorkflowRun, name string, data []byte) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.Namespace, Name: name, Labels: ownerLabels(owner),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, workflowsv1alpha1.GroupVersion.WithKind("WorkflowRun"))},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: 1,
	}
}
