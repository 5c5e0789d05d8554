package workspaces

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// action is what a decision does beside writing the status.
type action int

const (
	// actionNone only writes the status.
	actionNone action = iota
	// actionBind binds the workspace to the Pod of the decision: its finalizer is put on before the status says so.
	actionBind
	// actionHold puts a finalizer back that somebody has taken away.
	actionHold
	// actionRelease writes that no Run may use the workspace any more, because nobody has used it for its time to live.
	actionRelease
	// actionExpire deletes a Lost workspace that nobody has used for its time to live.
	actionExpire
	// actionDelete asks for the deletion of a Released workspace.
	actionDelete
	// actionLetGo takes the finalizer off: there is no directory to remove.
	actionLetGo
)

// podRecheck is how often the bound Pod is looked at when its end would not be heard of: it has lost the labels by which
// Pods are watched.
const podRecheck = time.Minute

// cleanupPatience is how long the Pod of a workspace may take to remove its directory, once nobody uses it, before people
// are told.
const cleanupPatience = time.Minute

// decision is what becomes of a workspace.
type decision struct {
	// status is the desired status.
	status workspacesv1alpha1.PersistentWorkspaceStatus
	action action
	// pod is the Pod of actionBind.
	pod *corev1.Pod
	// recheck is when to look again although nothing is heard; 0 for never.
	recheck time.Duration
}

// calculate decides what becomes of a workspace.
//
//  1. One that has no Pod waits for one, and is let go when it is deleted.
//  2. One whose Pod is gone is Lost for good. It is let go when it is deleted.
//  3. One that is deleted is Released, and stays until runtimed of its Pod has removed directory and finalizer. If that takes
//     too long, it says so.
//  4. One that is Released and not deleted is deleted: its controller was stopped in between.
//  5. All others are Bound, and are released when nobody uses them for their time to live.
func calculate(o *observation) decision {
	w := o.workspace
	d := decision{status: *w.Status.DeepCopy()}
	d.status.ObservedGeneration = w.Generation
	switch phase := w.Status.Phase; {
	case w.Status.BoundPod == "":
		unbound(o, &d)
	case phase == workspacesv1alpha1.WorkspaceLost || !holds(o.pod, w):
		lose(o, &d)
	case isDeleting(w):
		release(o, &d)
	case phase == workspacesv1alpha1.WorkspaceReleased:
		release(o, &d)
		d.action = actionDelete
	default:
		keep(o, &d)
	}
	if o.unwatched {
		d.recheck = sooner(d.recheck, podRecheck)
	}
	return d
}

// unbound decides about a workspace that has no Pod, and so no directory.
func unbound(o *observation, d *decision) {
	w := o.workspace
	switch {
	case isDeleting(w):
		letGo(o, d)
	case w.Status.Phase == workspacesv1alpha1.WorkspaceReleased:
		d.action = actionDelete
	default:
		bind(o, d)
	}
}

// lose decides about a workspace whose Pod is gone. Lost is written before the finalizer goes, and never revised.
func lose(o *observation, d *decision) {
	w := o.workspace
	d.status.Phase = workspacesv1alpha1.WorkspaceLost
	sayLost(o, d)
	switch {
	case w.Status.Phase != workspacesv1alpha1.WorkspaceLost:
	case isDeleting(w):
		letGo(o, d)
	case expires(o, d):
		d.action = actionExpire
	}
}

// release decides that no Run may use a workspace any more. Where its Pod does not remove it in time, that is told.
func release(o *observation, d *decision) {
	d.status.Phase = workspacesv1alpha1.WorkspaceReleased
	sayReleased(o, d)
	w := o.workspace
	if !isDeleting(w) || o.active || !controllerutil.ContainsFinalizer(w, workspacesv1alpha1.Finalizer) {
		return
	}
	if left := latest(w.DeletionTimestamp.Time, o.lastUse).Add(cleanupPatience).Sub(o.now); left > 0 {
		d.recheck = min(left, cleanupPatience)
		return
	}
	sayStuck(o, d)
}

// keep decides about a Bound workspace that is to stay.
func keep(o *observation, d *decision) {
	d.status.Phase = workspacesv1alpha1.WorkspaceBound
	sayBound(o, d)
	switch {
	case expires(o, d):
		release(o, d)
		d.action = actionRelease
	case !controllerutil.ContainsFinalizer(o.workspace, workspacesv1alpha1.Finalizer):
		d.action = actionHold
	}
}

// letGo takes the finalizer off if it is there. What else holds the workspace is not ours; nothing is written about it.
func letGo(o *observation, d *decision) {
	if controllerutil.ContainsFinalizer(o.workspace, workspacesv1alpha1.Finalizer) {
		d.action = actionLetGo
	}
}

// isFinal tells whether an action cannot be taken back, so that the API server is asked once more before it.
func (d *decision) isFinal() bool {
	return d.action == actionBind || d.action == actionRelease || d.action == actionExpire
}

// sooner is the earlier of two times to wait, of which 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
