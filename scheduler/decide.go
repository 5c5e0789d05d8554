package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
	"kruntimes.io/kruntimes/scheduler/queue"
)

// assignment is a decision that is booked in the cache and waits to be stored by the API server.
type assignment struct {
	// run is the version that the decision rests on.
	run *corev1alpha1.Run
	// podName and podUID are where the Run goes.
	podName string
	podUID  types.UID
	cycle   *framework.Cycle
	pod     *framework.PodInfo
}

// maxRejections bounds the cycles of one call of next, during which nobody else gets at the engine.
const maxRejections = 200

// next runs cycles until one finds a Pod, and returns what to bind; nil when every waiting Run has to wait for an event
// or until wait has passed. That is 0, and the loop is woken, when there are more Runs to try.
func (e *engine) next() (a *assignment, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	if !now.Before(e.nextSweep) {
		e.nextSweep = now.Add(safetyNet)
		e.queue.WakeAll()
	}
	e.releaseLeft(now)
	for _, due := range e.queue.Due(now) {
		e.settle(e.runs[due.UID])
	}
	for range maxRejections {
		// 1 pop
		info, order, ok := e.queue.Pop()
		if !ok {
			return nil, e.idleFor(now)
		}
		// 2 snapshot, 3 filter and score
		result := e.cycle(info)
		if result.Pod == nil {
			e.reject(info, order, result.Diagnosis, now)
			continue
		}
		// 4 reserve and assume
		if d := e.rules.Reserve(result.Cycle, result.Pod); d != nil {
			e.reject(info, order, d, now)
			continue
		}
		// 5 bind: the caller's
		return e.assume(info, result), 0
	}
	e.signal()
	return nil, 0
}

// assume books what a Run takes of the Pod that was found for it.
func (e *engine) assume(info *framework.RunInfo, result framework.Result) *assignment {
	t := e.runs[info.UID]
	t.state = runBinding
	t.pending = &assignment{
		run: t.run, podName: result.Pod.Name, podUID: result.Pod.UID, cycle: result.Cycle, pod: result.Pod,
	}
	e.changed(e.cache.Charge(info, result.Pod.UID))
	e.stopWaiting(t)
	e.placed(t)
	return t.pending
}

// idleFor tells how long nothing has to be tried, if no event comes.
func (e *engine) idleFor(now time.Time) time.Duration {
	until := e.nextSweep
	if due, ok := e.queue.NextDue(); ok && due.Before(until) {
		until = due
	}
	if left, ok := e.leaving.next(); ok && left.Before(until) {
		until = left
	}
	return max(0, until.Sub(now))
}

// reject puts a Run back that fits nowhere now.
func (e *engine) reject(info *framework.RunInfo, order queue.Order, d *framework.Diagnosis, now time.Time) {
	t := e.runs[info.UID]
	if d.Err != nil {
		t.refusals++
		e.delay(t, now.Add(retryIn(t.refusals)))
	} else {
		e.queue.Park(info, order, queue.Verdict{
			Class: d.Class, Line: d.Line, WakeOn: d.WakeOn, FreedOn: d.FreedOn, Closed: d.Closed, FullOn: d.FullOn,
		})
		if t.line != d.Line {
			t.line = d.Line
			e.book.Wait(info.UID, t.group(), t.since, told(t.run))
		}
	}
	e.reviewHold(info, d)
	e.unexplained.add(info.RuntimeKey())
}

// bound takes in that the API server has stored an assignment, under a version.
func (e *engine) bound(a *assignment, version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, ok := e.binding(a)
	if !ok {
		e.overtaken(a) // the informer was faster
		return
	}
	t.refusals = 0
	if newer(version, t.run.ResourceVersion) {
		t.state, t.boundVersion = runBound, version
		return
	}
	// The informer has shown a later version than the bind's, and it is without a Pod: the Run was handed back.
	e.unreserve(a)
	t.state = runIdle
	e.settle(t)
}

// moved takes in that an assignment was not stored because the Run has changed, or that nobody knows whether it was, and
// the Run as a live read shows it. Only now may the units be given to somebody else.
func (e *engine) moved(a *assignment, fresh *corev1alpha1.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, ok := e.binding(a)
	if !ok {
		e.overtaken(a)
		return
	}
	if fresh.Status.AssignedPodUID != string(a.podUID) {
		e.unreserve(a)
	}
	t.state = runIdle
	if newer(fresh.ResourceVersion, t.run.ResourceVersion) {
		e.see(fresh)
		return
	}
	e.settle(t)
}

// refused takes in that an assignment was not stored, and will not be. The Run is tried again after a backoff.
func (e *engine) refused(a *assignment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, ok := e.binding(a)
	if !ok {
		e.overtaken(a)
		return
	}
	e.unreserve(a)
	t.state = runIdle
	e.settle(t)
	if t.state == runWaiting {
		t.refusals++
		e.delay(t, e.clock.Now().Add(retryIn(t.refusals)))
	}
}

// vanished takes in that an assignment was not stored because the Run is gone.
func (e *engine) vanished(a *assignment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unreserve(a)
	if _, known := e.runs[a.run.UID]; known {
		if _, ok := e.binding(a); !ok {
			return // whoever shows the Run elsewhere will show that it goes
		}
	}
	e.forget(a.run.UID)
}

// lost takes in that the Run is gone, and that nobody knows whether its assignment was stored before.
func (e *engine) lost(a *assignment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unreserve(a)
	if t, ok := e.binding(a); ok {
		e.leave(t)
	}
}

// stands tells whether a decision is still worth storing: nobody has resolved it otherwise, and its Pod is there to stay, or
// takes the Run for its workspace while it goes.
func (e *engine) stands(a *assignment) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.binding(a)
	return ok && (e.cache.PodStays(a.podUID) || a.run.Spec.Workspace != nil && e.cache.PodTakes(a.podUID, e.clock.Now()))
}

// binding returns the Run of an assignment while that is neither confirmed nor overtaken.
func (e *engine) binding(a *assignment) (*trackedRun, bool) {
	t, ok := e.runs[a.run.UID]
	return t, ok && t.state == runBinding && t.pending == a
}

// overtaken ends an assignment whose Run has gone on by itself: the informer has shown it assigned, finished or gone, and
// it may be in the middle of a later assignment. Only if it is where this one has put it, the reservation stands.
func (e *engine) overtaken(a *assignment) {
	if t, ok := e.runs[a.run.UID]; !ok || t.run.Status.AssignedPodUID != string(a.podUID) {
		e.unreserve(a)
	}
}

// unreserve gives the plugins' reservations back; the cache's own are given back when the Run is settled.
func (e *engine) unreserve(a *assignment) { e.rules.Unreserve(a.cycle, a.pod) }
