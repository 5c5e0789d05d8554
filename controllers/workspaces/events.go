package workspaces

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
)

// Actions of events about PersistentWorkspaces.
const (
	actionLosing    = "Losing"
	actionReleasing = "Releasing"
	actionRemoving  = "Removing"
)

// recently is how old the end of a workspace may be that is told of though nobody has seen it: a manager may have ended
// between the end and its event, and the next one tells. What was told is not stored twice, see package events.
const recently = 5 * time.Minute

// endEvents tell that a workspace is Lost or Released, if it is.
func endEvents(w *workspacesv1alpha1.PersistentWorkspace) []events.Event {
	e := events.Event{
		Regarding: events.About(workspacesv1alpha1.GroupVersion.WithKind(workspacesv1alpha1.Kind), w),
		Type:      corev1.EventTypeNormal, Key: string(w.Status.Phase),
	}
	switch w.Status.Phase {
	case workspacesv1alpha1.WorkspaceLost:
		e.Reason, e.Action = workspacesv1alpha1.ReasonPodLost, actionLosing
		e.Note = "the Pod " + w.Status.BoundPod + " is gone, and the directory with it: Runs that refer to this workspace wait until it is replaced"
		if isDeleting(w) {
			e.Note = "the Pod " + w.Status.BoundPod + " is gone, and the directory with it: nothing is left to remove"
		} else {
			e.Type = corev1.EventTypeWarning
		}
	case workspacesv1alpha1.WorkspaceReleased:
		e.Reason, e.Action = workspacesv1alpha1.ReasonReleased, actionReleasing
		e.Note = "nobody has used the workspace for its time to live: it is deleted with its directory"
		if isDeleting(w) {
			e.Note = "the workspace is deleted, and its directory on Pod " + w.Status.BoundPod + " with it"
		}
	default:
		return nil
	}
	return []events.Event{e}
}

// isStuck tells whether the Pod of a workspace has not removed its directory in time.
func isStuck(w *workspacesv1alpha1.PersistentWorkspace) bool {
	available := meta.FindStatusCondition(w.Status.Conditions, workspacesv1alpha1.WorkspaceConditionAvailable)
	return available != nil && available.Reason == workspacesv1alpha1.ReasonCleanupStuck
}

// stuckEvent tells that the directory of a workspace could not be removed.
func stuckEvent(w *workspacesv1alpha1.PersistentWorkspace) events.Event {
	available := meta.FindStatusCondition(w.Status.Conditions, workspacesv1alpha1.WorkspaceConditionAvailable)
	return events.Event{
		Regarding: events.About(workspacesv1alpha1.GroupVersion.WithKind(workspacesv1alpha1.Kind), w),
		Type:      corev1.EventTypeWarning, Key: workspacesv1alpha1.ReasonCleanupStuck,
		Reason: workspacesv1alpha1.ReasonCleanupStuck, Action: actionRemoving, Note: available.Message,
	}
}

// changeEvents tell what is new about a workspace.
func changeEvents(before, after *workspacesv1alpha1.PersistentWorkspace) []events.Event {
	var news []events.Event
	if before.Status.Phase != after.Status.Phase {
		news = endEvents(after)
	}
	if isStuck(after) && !isStuck(before) {
		news = append(news, stuckEvent(after))
	}
	return news
}

// foundEvents tell what is to be told about a workspace that is seen for the first time.
func foundEvents(w *workspacesv1alpha1.PersistentWorkspace, now time.Time) []events.Event {
	var news []events.Event
	if missed(w, now) {
		news = endEvents(w)
	}
	if isStuck(w) {
		news = append(news, stuckEvent(w))
	}
	return news
}

// missed tells whether the end of a workspace that is seen for the first time may not have been told.
func missed(w *workspacesv1alpha1.PersistentWorkspace, now time.Time) bool {
	available := meta.FindStatusCondition(w.Status.Conditions, workspacesv1alpha1.WorkspaceConditionAvailable)
	return available != nil && now.Sub(available.LastTransitionTime.Time) < recently
}
