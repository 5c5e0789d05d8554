package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/controllers/workflows/definitions"
)

// ownPolicy is in the name of the policy that keeps others from making children.
const ownPolicy = "run-identity'"

// interrupted is in the words of an API server that had no time to evaluate the rules of an object, which it calls invalid
// then.
const interrupted = "operation interrupted"

// atOnce bounds the requests that one action has under way.
const atOnce = 16

// apply carries the action of a decision out and adds its result to the desired status. All targets of an action are
// tried. An error means that the action has to be tried again, and that the status must not be written.
func (r *WorkflowRunReconciler) apply(ctx context.Context, o *observation, d *decision) error {
	switch {
	case d.expire:
		return r.expire(ctx, o.run)
	case d.snapshot:
		if err := r.snapshot(ctx, o, d); err != nil || !d.snapshot {
			return err
		}
		return r.provision(ctx, o, d)
	case len(d.provision) > 0:
		return r.provision(ctx, o, d)
	case len(d.cancel) > 0:
		return r.cancel(ctx, d.cancel)
	case len(d.start) > 0:
		return r.start(ctx, o, d)
	case len(d.remove) > 0:
		return r.remove(ctx, d.remove)
	default:
		return nil
	}
}

// snapshot stores the accepted spec, and the Actions that it calls. A WorkflowRun whose snapshot is refused for good is not accepted.
func (r *WorkflowRunReconciler) snapshot(ctx context.Context, o *observation, d *decision) error {
	name, err := r.createSnapshot(ctx, o.run)
	if err == nil {
		err = r.freeze(ctx, o)
	}
	switch {
	case err == nil:
		d.status.SnapshotName = name
		r.memory.froze(o.run, o.actions)
		return nil
	case isFinal(err):
		d.snapshot = false
		reject(*o, &d.status, workflowsv1alpha1.ReasonSnapshotRefused, "the snapshot cannot be stored: "+reasonOf(err))
		return nil
	default:
		r.memory.postpone(o.run, identity{}, reasonOf(err), o.now)
		return err
	}
}

// start creates children. One that is refused for good fails its job; one that is refused for now is held back, so
// that the next reconciliation goes on with the others.
func (r *WorkflowRunReconciler) start(ctx context.Context, o *observation, d *decision) error {
	names, errs := make([]string, len(d.start)), make([]error, len(d.start))
	workqueue.ParallelizeUntil(ctx, atOnce, len(d.start), func(i int) {
		if t := d.start[i]; t.call != nil {
			names[i], errs[i] = r.createCall(ctx, o.run, t)
		} else {
			names[i], errs[i] = r.createChild(ctx, o.run, t.id, t.run)
		}
	})
	var passing []error
	for i, t := range d.start {
		switch err := errs[i]; {
		case names[i] != "":
			r.memory.created(o.run, t.id, names[i])
			record(*o, &d.status, t.id, names[i])
		case err == nil: // ctx has ended before its turn.
			passing = append(passing, ctx.Err())
		case isInvalidCall(err):
			refuse(*o, &d.status, t.id, err.Error())
		case isFinal(err):
			refuse(*o, &d.status, t.id, workflowsv1alpha1.WordChildRefused+": "+reasonOf(err))
		default:
			r.memory.postpone(o.run, t.id, reasonOf(err), o.now)
			passing = append(passing, fmt.Errorf("creating the child of step %q of job %s: %w", t.id.step, t.id.job, err))
		}
	}
	settle(*o, &d.status)
	finish(*o, &d.status, d.left)
	return errors.Join(passing...)
}

// takenError says that every name that a child may have is held by another object.
type takenError struct{ names []string }

func (e *takenError) Error() string {
	return "the names " + strings.Join(e.names, " and ") + " are taken by other objects: delete or rename those"
}

// createChild creates one child, which is complete but for its name, and returns that.
func (r *WorkflowRunReconciler) createChild(ctx context.Context, owner *workflowsv1alpha1.WorkflowRun, id identity, child client.Object) (string, error) {
	build := func(name string) client.Object {
		named := child.DeepCopyObject().(client.Object)
		named.SetName(name)
		return named
	}
	name, err := r.createUnderFreeName(ctx, childNames(owner, id), build, func(holder client.Object) bool { return belongs(holder, owner, id) })
	if err == nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Created child", "name", name, "job", id.job, "step", id.step, "actionStep", id.actionStep)
	}
	return name, err
}

// createCall makes the child WorkflowRun of a call from the Workflow as it is now, and returns its name. A child that is
// there already was made from it as it was then, and stays.
func (r *WorkflowRunReconciler) createCall(ctx context.Context, owner *workflowsv1alpha1.WorkflowRun, t target) (string, error) {
	child, err := materialize(definitions.Of(ctx, r.Live, owner.Namespace), t.call)
	if isInvalidCall(err) {
		if name, findErr := r.findCall(ctx, owner, t.id); findErr != nil || name != "" {
			return name, findErr
		}
	}
	if err != nil {
		return "", err
	}
	meta := childMeta(owner, t.id)
	meta.Annotations = child.Annotations
	maps.Copy(meta.Labels, child.Labels)
	child.ObjectMeta = meta
	return r.createChild(ctx, owner, t.id, child)
}

// findCall looks for the child of a call under the names that it may have; empty where it is not there.
func (r *WorkflowRunReconciler) findCall(ctx context.Context, owner *workflowsv1alpha1.WorkflowRun, id identity) (string, error) {
	for _, name := range childNames(owner, id) {
		var child workflowsv1alpha1.WorkflowRun
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: name}, &child)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading WorkflowRun %s: %w", name, err)
		}
		if err == nil && belongs(&child, owner, id) {
			return name, nil
		}
	}
	return "", nil
}

// createUnderFreeName creates an object under the first of names that is free, and returns that name. An object that
// exists already and is the wanted one counts as created: an earlier attempt made it and did not live to record it; a quota
// that is used up by then forbids to make it before anybody looks whether it is there. What others hold is left alone.
func (r *WorkflowRunReconciler) createUnderFreeName(ctx context.Context, names []string, build func(string) client.Object, isWanted func(client.Object) bool) (string, error) {
	for _, name := range names {
		object := build(name)
		refusal := r.Client.Create(ctx, object)
		if refusal == nil {
			return name, nil
		}
		if !apierrors.IsAlreadyExists(refusal) && !apierrors.IsForbidden(refusal) {
			return "", refusal
		}
		holder := build(name)
		switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), holder); {
		case apierrors.IsForbidden(refusal) && (err != nil || !isWanted(holder)):
			return "", refusal
		case apierrors.IsNotFound(err):
			// Its holder has just gone. That is no answer to what was asked for, and comes right on the next attempt.
			return "", fmt.Errorf("the name %s was taken until now", name)
		case err != nil:
			return "", fmt.Errorf("reading what holds the name %s: %w", name, err)
		case isWanted(holder):
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
	case strings.Contains(err.Error(), interrupted):
		return false
	case errors.As(err, &taken), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return true
	case apierrors.IsForbidden(err):
		// The API has no code that tells a policy's word from a missing right or an exceeded quota. That our own policy
		// refuses a child means that this identity lacks a right, which may come.
		text := err.Error()
		isDenial := strings.Contains(text, "ValidatingAdmissionPolicy") || strings.Contains(text, "denied the request")
		return isDenial && !strings.Contains(text, ownPolicy)
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
func (r *WorkflowRunReconciler) cancel(ctx context.Context, children []client.Object) error {
	errs := make([]error, len(children))
	workqueue.ParallelizeUntil(ctx, atOnce, len(children), func(i int) {
		child := children[i]
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"cancelRequested":true}}`, child.GetUID())
		meta := metav1.ObjectMeta{Namespace: child.GetNamespace(), Name: child.GetName()}
		var target client.Object = &corev1alpha1.Run{ObjectMeta: meta}
		if _, isCall := child.(*workflowsv1alpha1.WorkflowRun); isCall {
			target = &workflowsv1alpha1.WorkflowRun{ObjectMeta: meta}
		}
		if err := r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
			errs[i] = fmt.Errorf("cancelling %s: %w", child.GetName(), err)
		}
	})
	return errors.Join(append(errs, ctx.Err())...)
}

// createSnapshot stores the accepted spec in a ControllerRevision and returns its name.
func (r *WorkflowRunReconciler) createSnapshot(ctx context.Context, owner *workflowsv1alpha1.WorkflowRun) (string, error) {
	data, err := canonical(&snapshotData{Spec: owner.Spec})
	if err != nil {
		return "", fmt.Errorf("encoding the snapshot: %w", err)
	}
	build := func(name string) client.Object {
		return revisionOf(owner, name, data)
	}
	name, err := r.createUnderFreeName(ctx, snapshotNames(owner), build, func(holder client.Object) bool {
		revision, ok := holder.(*appsv1.ControllerRevision)
		var stored snapshotData
		return ok && metav1.IsControlledBy(revision, owner) && json.Unmarshal(revision.Data.Raw, &stored) == nil &&
			equality.Semantic.DeepEqual(stored.Spec.Jobs, owner.Spec.Jobs) // What else is in it may have changed since.
	})
	if err != nil {
		return "", fmt.Errorf("creating the snapshot: %w", err)
	}
	return name, nil
}

// canonical encodes a value with its keys in order. The data of a ControllerRevision never changes, and the API server
// compares bytes: whoever patches its metadata, as the garbage collector does, sends the data back in this order.
func canonical(value any) ([]byte, error) {
	ordered, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
	if err != nil {
		return nil, err
	}
	return json.Marshal(ordered)
}

// snapshotData is what the ControllerRevision of a WorkflowRun holds.
type snapshotData struct {
	Spec workflowsv1alpha1.WorkflowRunSpec `json:"spec"`
}
