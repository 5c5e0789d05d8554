package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// atOnce bounds the requests that one action has under way.
const atOnce = 16

// apply carries the action of a decision out and adds its result to the desired status. All targets of an action are
// tried. An error means that the action has to be tried again, and that the status must not be written.
func (r *WorkflowRunReconciler) apply(ctx context.Context, o *observation, d *decision) error {
	switch {
	case d.expire:
		return r.expire(ctx, o.run)
	case d.snapshot:
		name, err := r.createSnapshot(ctx, o.run)
		d.status.SnapshotName = name
		return err
	case len(d.cancel) > 0:
		return r.cancel(ctx, d.cancel)
	case len(d.start) > 0:
		return r.start(ctx, o, d)
	default:
		return nil
	}
}

// start creates child Runs. One that is refused for good fails its job; one that is refused for now is held back, so
// that the next reconciliation goes on with the others.
func (r *WorkflowRunReconciler) start(ctx context.Context, o *observation, d *decision) error {
	key := client.ObjectKeyFromObject(o.run)
	names, errs := make([]string, len(d.start)), make([]error, len(d.start))
	workqueue.ParallelizeUntil(ctx, atOnce, len(d.start), func(i int) {
		names[i], errs[i] = r.createChild(ctx, o.run, d.start[i])
	})
	var passing []error
	for i, t := range d.start {
		switch err := errs[i]; {
		case names[i] != "":
			r.memory.created(key, t.id)
			record(*o, &d.status, t.id, names[i])
		case err == nil: // ctx has ended before its turn.
			passing = append(passing, ctx.Err())
		case isFinal(err):
			refuse(*o, &d.status, t.id, reasonOf(err))
		default:
			r.memory.postpone(key, t.id, reasonOf(err), o.now)
			passing = append(passing, fmt.Errorf("creating the Run of step %s of job %s: %w", t.id.step, t.id.job, err))
		}
	}
	settle(*o, &d.status)
	finish(*o, &d.status)
	return errors.Join(passing...)
}

// takenError says that every name that a child may have is held by another object.
type takenError struct{ names []string }

func (e *takenError) Error() string {
	return "the names " + strings.Join(e.names, " and ") + " are taken by other Runs: delete or rename those"
}

// createChild creates one child under the first of its names that is free, and returns that name. A Run that exists
// already and is this very child counts as created: an earlier attempt made it and did not live to record it.
func (r *WorkflowRunReconciler) createChild(ctx context.Context, owner *workflowsv1alpha1.WorkflowRun, t target) (string, error) {
	names := childNames(owner, t.id)
	for _, name := range names {
		child := t.run.DeepCopy()
		child.Name = name
		err := r.Client.Create(ctx, child)
		if err == nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Created Run", "run", name, "job", t.id.job, "step", t.id.step)
			return name, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return "", err
		}
		holder := &corev1alpha1.Run{}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: name}, holder); err != nil {
			return "", fmt.Errorf("reading the Run that holds the name %s: %w", name, err)
		}
		if belongs(holder, owner, t.id) {
			return name, nil
		}
	}
	return "", &takenError{names: names}
}

// isFinal tells whether the API server refuses an object for good: trying the same again is of no use. Quota and rights
// may change; what a policy or webhook says, or the schema, does not for an immutable definition.
func isFinal(err error) bool {
	var taken *takenError
	switch {
	case errors.As(err, &taken), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return true
	case apierrors.IsForbidden(err):
		// The API has no code that tells a policy's word from a missing right or an exceeded quota.
		text := err.Error()
		return strings.Contains(text, "ValidatingAdmissionPolicy") || strings.Contains(text, "denied the request")
	default:
		return false
	}
}

// reasonOf is what an error says, without the words around it.
func reasonOf(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// cancel asks for the end of children.
func (r *WorkflowRunReconciler) cancel(ctx context.Context, children []*corev1alpha1.Run) error {
	errs := make([]error, len(children))
	workqueue.ParallelizeUntil(ctx, atOnce, len(children), func(i int) {
		child := children[i]
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"cancelRequested":true}}`, child.UID)
		target := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: child.Namespace, Name: child.Name}}
		if err := r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
			errs[i] = fmt.Errorf("cancelling Run %s: %w", child.Name, err)
		}
	})
	return errors.Join(append(errs, ctx.Err())...)
}

// createSnapshot stores the accepted spec in a ControllerRevision and returns its name.
func (r *WorkflowRunReconciler) createSnapshot(ctx context.Context, owner *workflowsv1alpha1.WorkflowRun) (string, error) {
	data, err := json.Marshal(map[string]any{"spec": owner.Spec})
	if err != nil {
		return "", fmt.Errorf("encoding the snapshot: %w", err)
	}
	names := snapshotNames(owner)
	for _, name := range names {
		snapshot := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: owner.Namespace, Name: name,
				Labels: map[string]string{
					corev1alpha1.LabelManagedBy:           corev1alpha1.ManagedBy,
					workflowsv1alpha1.LabelWorkflowRun:    corev1alpha1.RuntimeLabelValue(owner.Name),
					workflowsv1alpha1.LabelWorkflowRunUID: string(owner.UID),
				},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, workflowsv1alpha1.GroupVersion.WithKind("WorkflowRun"))},
			},
			Data:     runtime.RawExtension{Raw: data},
			Revision: 1,
		}
		err := r.Client.Create(ctx, snapshot)
		if err == nil {
			return name, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("creating the snapshot: %w", err)
		}
		holder := &appsv1.ControllerRevision{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(snapshot), holder); err != nil {
			return "", fmt.Errorf("reading the ControllerRevision that holds the name %s: %w", name, err)
		}
		if metav1.IsControlledBy(holder, owner) && string(holder.Data.Raw) == string(data) {
			return name, nil
		}
	}
	return "", fmt.Errorf("creating the snapshot: the names %s are taken by other ControllerRevisions", strings.Join(names, " and "))
}

// expire deletes exactly the WorkflowRun that was looked at: not a successor, and not one whose time to live was changed.
func (r *WorkflowRunReconciler) expire(ctx context.Context, run *workflowsv1alpha1.WorkflowRun) error {
	err := r.Client.Delete(ctx, run, client.Preconditions{UID: &run.UID, ResourceVersion: &run.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the expired WorkflowRun: %w", err)
	}
	return nil
}
