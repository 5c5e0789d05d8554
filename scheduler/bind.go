package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

const (
	// bindAttempts is how often an assignment is sent when the API server neither stores it nor says no for good.
	bindAttempts = 6
	// firstDoubt and lastDoubt bound the wait between two looks at a Run of which nobody knows whether it was bound.
	firstDoubt = 20 * time.Millisecond
	lastDoubt  = 2 * time.Second
)

// binder stores assignments.
type binder struct {
	client *runClient
	clock  clock.Clock
	engine *engine
	// mayWrite is asked before every request. Nil: always.
	mayWrite func() bool
}

// bind stores an assignment, as store says, and counts that. It returns false when it does not know, at its end, whether a
// request is stored or will be.
func (b *binder) bind(ctx context.Context, a *assignment) (known bool) {
	began, seen := b.clock.Now(), b.engine.waitedSince(a.run.UID)
	end, known := b.store(ctx, a)
	now := b.clock.Now()
	b.engine.meters.bound(end, now.Sub(began))
	if end == bindStored {
		b.engine.meters.placed(a.run, seen, now)
	}
	return known
}

// store stores an assignment and tells the engine how that ended. There are five ends:
//
//  1. The API server has stored it: bound.
//  2. It has not, and never will, because the Run has another version by now: moved, with that version. This is also
//     the end of a request whose answer was lost although it was stored.
//  3. The Run is gone: vanished, or lost when an earlier request may have been stored before.
//  4. It was refused, or cannot be stored for a long time, or its Pod has gone meanwhile: refused.
//  5. ctx, or the time as the leader, ends: nothing is told, because the engine ends as well.
//
// It returns false when it does not know, at its end, whether a request is stored or will be.
//
// As long as the Run still has the version that the assignment rests on, an earlier request may be under way, so the
// same assignment is sent again and its units stay reserved; the stored version decides which request counts.
func (b *binder) store(ctx context.Context, a *assignment) (end bindEnd, known bool) {
	log := logr.FromContextOrDiscard(ctx).WithValues("Run", klog.KObj(a.run), "pod", a.podName)
	patch, err := bindPatch(a, b.clock.Now())
	if err != nil {
		log.Error(err, "Could not build the assignment")
		b.engine.refused(a)
		return bindRefused, true
	}
	name := types.NamespacedName{Namespace: a.run.Namespace, Name: a.run.Name}
	wait := firstDoubt
	for attempt := range bindAttempts {
		if ctx.Err() != nil || b.mayWrite != nil && !b.mayWrite() {
			return bindUnknown, attempt == 0
		}
		version, err := b.client.patchStatus(ctx, name, patch)
		if end, isKnown := b.answered(log, a, version, err, attempt); isKnown {
			return end, true
		}
		log.V(1).Info("Assignment is in doubt", "reason", err.Error())
		if end, isResolved := b.resolved(ctx, a, name); isResolved {
			return end, ctx.Err() == nil
		}
		if !sleep(ctx, b.clock, wait) {
			return bindUnknown, false
		}
		wait = min(2*wait, lastDoubt)
	}
	// The last request may still be under way, on the API server's side, for as long as it may take.
	if !sleep(ctx, b.clock, requestTimeout) {
		return bindUnknown, false
	}
	if end, isResolved := b.resolved(ctx, a, name); isResolved {
		return end, ctx.Err() == nil
	}
	log.Info("Gave an assignment up")
	b.engine.refused(a)
	return bindRefused, true
}

// answered tells the engine what the API server's answer to a request says, and returns false if it leaves open whether the
// request is stored.
func (b *binder) answered(log logr.Logger, a *assignment, version string, err error, attempt int) (end bindEnd, known bool) {
	switch {
	case err == nil:
		log.V(1).Info("Bound Run")
		b.engine.bound(a, version)
		return bindStored, true
	case apierrors.IsNotFound(err) && attempt == 0:
		b.engine.vanished(a)
		return bindGone, true
	case apierrors.IsNotFound(err): // An earlier request may have been stored.
		b.engine.lost(a)
		return bindGone, true
	case isRefusal(err):
		log.Error(err, "Assignment was refused")
		b.engine.refused(a)
		return bindRefused, true
	}
	return bindUnknown, false
}

// resolved looks at the stored Run until it can be read. If the assignment needs no further request it tells the engine, and
// returns how that ended. When ctx ends before, it tells nothing, and the end is unknown.
func (b *binder) resolved(ctx context.Context, a *assignment, name types.NamespacedName) (end bindEnd, isResolved bool) {
	wait := firstDoubt
	for {
		fresh, err := b.client.get(ctx, name)
		switch {
		case err == nil && fresh.UID == a.run.UID && fresh.ResourceVersion != a.run.ResourceVersion:
			b.engine.moved(a, fresh)
			return bindMoved, true
		case apierrors.IsNotFound(err), err == nil && fresh.UID != a.run.UID:
			b.engine.lost(a)
			return bindGone, true
		case !b.engine.stands(a):
			b.engine.refused(a)
			return bindRefused, true
		case err == nil:
			return bindUnknown, false
		}
		if !sleep(ctx, b.clock, wait) {
			return bindUnknown, true
		}
		wait = min(2*wait, lastDoubt)
	}
}

// isRefusal tells whether the API server has answered that it will not store the request, whatever version it rests on.
// A conflict is none: an earlier request may have been stored. Nor is a server's own failure or silence.
func isRefusal(err error) bool {
	switch {
	case apierrors.IsConflict(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return false
	case apierrors.IsTooManyRequests(err):
		return true
	}
	reason := apierrors.ReasonForError(err)
	return reason == metav1.StatusReasonForbidden || reason == metav1.StatusReasonUnauthorized ||
		reason == metav1.StatusReasonInvalid || reason == metav1.StatusReasonBadRequest ||
		reason == metav1.StatusReasonMethodNotAllowed || reason == metav1.StatusReasonRequestEntityTooLarge
}

// bindPatch is the one write that assigns a Run.
func bindPatch(a *assignment, now time.Time) ([]byte, error) {
	after := a.run.DeepCopy()
	s := &after.Status
	s.Phase = corev1alpha1.RunScheduled
	s.AssignedPod, s.AssignedPodUID = a.podName, string(a.podUID)
	s.Attempt, s.NextAttemptTime = a.run.CurrentAttempt(), nil
	s.ScheduledTime = &metav1.MicroTime{Time: now}
	s.ObservedGeneration = a.run.Generation
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionTrue, Reason: corev1alpha1.ReasonAssigned,
		Message: "assigned to Pod " + a.podName, ObservedGeneration: a.run.Generation, LastTransitionTime: metav1.NewTime(now),
	})
	patch, err := statuspatch.ForRun(corev1alpha1.WriterScheduler, a.run, after)
	if err != nil {
		return nil, fmt.Errorf("assigning Run %s/%s to Pod %s: %w", a.run.Namespace, a.run.Name, a.podName, err)
	}
	return patch, nil
}
