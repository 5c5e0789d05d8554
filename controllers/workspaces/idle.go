package workspaces

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

const (
	// idleDelay is how long after its last Run a workspace counts as in use: the next step of a job needs a moment, and
	// a write per step would be too many. No workspace is released earlier, whatever its time to live is.
	idleDelay = 3 * time.Second
	// maxSkew is how far ahead the clock of a node is believed to be. The end of a Run that lies further in the future is
	// written down at once, because to wait for it would take too long.
	maxSkew = time.Minute
)

// expires notes the last use of a Bound or Lost workspace once it is over, and tells whether the workspace is to end for
// having been unused for its time to live. If not, it sets when to look again.
func expires(o *observation, d *decision) bool {
	if o.active {
		return false
	}
	w := o.workspace
	if use := o.lastUse; isNewUse(w, use) {
		if wait := use.Add(idleDelay).Sub(o.now); wait > 0 && wait <= maxSkew {
			d.recheck = wait
			return false
		}
		d.status.LastUsedTime = &metav1.Time{Time: roundUp(use)}
	}
	ttl := w.Spec.TTLSecondsAfterUnused
	if w.Spec.CleanupPolicy != workspacesv1alpha1.CleanupDeleteAfterTTL || ttl == nil {
		return false
	}
	left := unusedSince(&d.status).Add(max(time.Duration(*ttl)*time.Second, idleDelay)).Sub(o.now)
	if left > 0 {
		d.recheck = left
	}
	return left <= 0
}

// isNewUse tells whether a use of a workspace is not yet written down. Runs of an earlier workspace of the same name did not
// use this one.
func isNewUse(w *workspacesv1alpha1.PersistentWorkspace, use time.Time) bool {
	last := w.Status.LastUsedTime
	return use.After(w.CreationTimestamp.Time) && (last == nil || use.After(last.Time))
}

// roundUp returns the first whole second that is not before t: no workspace is released early.
func roundUp(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second) }

// unusedSince is when the unused time of a workspace began: with its last use, or when it was bound or lost.
func unusedSince(s *workspacesv1alpha1.PersistentWorkspaceStatus) time.Time {
	var since time.Time
	if bound := meta.FindStatusCondition(s.Conditions, workspacesv1alpha1.WorkspaceConditionBound); bound != nil {
		since = bound.LastTransitionTime.Time
	}
	if s.LastUsedTime != nil {
		since = latest(since, s.LastUsedTime.Time)
	}
	return since
}
