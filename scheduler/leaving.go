package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// leaveTime is how long a Run that was deleted with a Pod keeps its units there: the Pod hears of the deletion, asks the
// execution to end, and kills it after the grace. There is no status any more in which it could say that it is done.
const leaveTime = corev1alpha1.StopGrace + 5*time.Second

// leaver is a Run that was deleted while it may have been executing.
type leaver struct {
	uid types.UID
	// until is when its units are given back, unless it turns out before that it had finished.
	until time.Time
}

// leavers are the Runs that are leaving.
type leavers struct {
	// order holds them by their time; those that have left before it are still in it.
	order []leaver
	until map[types.UID]time.Time
}

func (l *leavers) add(uid types.UID, until time.Time) {
	l.order = append(l.order, leaver{uid: uid, until: until})
	l.until[uid] = until
}

// drop takes a Run out. It returns false when that is not leaving.
func (l *leavers) drop(uid types.UID) bool {
	_, ok := l.until[uid]
	delete(l.until, uid)
	return ok
}

// pop takes the first Run out whose time has come; false when there is none.
func (l *leavers) pop(now time.Time) (types.UID, bool) {
	for len(l.order) > 0 {
		first := l.order[0]
		until, ok := l.until[first.uid]
		if ok && until.Equal(first.until) && now.Before(until) {
			return "", false
		}
		l.order = l.order[1:]
		if ok && until.Equal(first.until) {
			delete(l.until, first.uid)
			return first.uid, true
		}
	}
	return "", false
}

// next is when the first Run's time comes; false when none is leaving.
func (l *leavers) next() (time.Time, bool) {
	if len(l.until) == 0 {
		return time.Time{}, false
	}
	return l.order[0].until, true // or earlier than the first, which costs one look
}

// leave makes a Run that was deleted keep its units for as long as it may still be executing.
func (e *engine) leave(t *trackedRun) {
	uid := t.info.UID
	if e.gone != nil {
		e.gone[uid] = struct{}{}
	}
	delete(e.runs, uid)
	e.stopWaiting(t)
	e.changed(e.cache.Unhold(uid))
	e.leaving.add(uid, e.clock.Now().Add(leaveTime))
	e.signal() // the loop's timer may have to go off earlier
}

// releaseLeft gives the units of Runs back whose time to leave is over.
func (e *engine) releaseLeft(now time.Time) {
	for uid, ok := e.leaving.pop(now); ok; uid, ok = e.leaving.pop(now) {
		e.changed(e.cache.Release(uid))
	}
}

// runFinished takes in that a Run has finished, before or after runGone says that it is not among the others any more.
func (e *engine) runFinished(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone != nil { // also a Run that is not known yet: what catching up reads may be older
		e.gone[uid] = struct{}{}
	}
	t, ok := e.runs[uid]
	switch {
	case ok:
		t.state = runFinished
		e.stopWaiting(t)
		e.changed(e.cache.Unhold(uid))
		e.changed(e.cache.Release(uid))
	case e.leaving.drop(uid):
		e.changed(e.cache.Release(uid))
	}
}
