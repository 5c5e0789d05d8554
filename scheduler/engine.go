package scheduler

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/cache"
	"kruntimes.io/kruntimes/scheduler/explain"
	"kruntimes.io/kruntimes/scheduler/framework"
	"kruntimes.io/kruntimes/scheduler/queue"
)

const (
	// safetyNet is how often Runs are tried again without any event.
	safetyNet = time.Minute
	// firstRetry and lastRetry bound the wait after a bind that was refused or a plugin that could not decide.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// engine decides. It is told what the informers see and how binds ended, and answers which Run to bind where and which
// Runs to tell why they wait. It does no input or output, so that scenarios run in a test without a cluster.
//
// No method holds the lock for more than a bounded number of cycles: maxRejections of them until one Run is placed, or
// maxConclusions for the classes of waiting Runs of one Runtime.
type engine struct {
	clock clock.PassiveClock
	rules *framework.Framework
	// meters count the cycles.
	meters *meters
	// wake gets a signal when there may be something for next.
	wake chan struct{}

	mu    sync.Mutex
	cache *cache.Cache
	queue *queue.Queue
	book  *explain.Book
	runs  map[types.UID]*trackedRun
	// unexplained are the Runtimes that have waiting Runs on which the verdicts are not concluded yet.
	unexplained *agenda
	// youngestPlaced tells whether a waiting Run was overtaken.
	youngestPlaced youngest
	// nextSweep is when the safety net tries everything.
	nextSweep time.Time
	// leaving are the Runs that were deleted and may still be executing.
	leaving leavers
	// gone, if not nil, collects the Runs that have gone since catching up began.
	gone map[types.UID]struct{}
}

// trackedRun is a Run that is not finished.
//
//	          seen Pending            next                  bound             seen assigned
//	(unknown) -----------> waiting ---------> binding ---------------> bound ---------------> assigned
//	                        ^   ^                |                       |                       |
//	                        |   +---- refused ---+                       |                       |
//	                        +------------------------ seen Pending again (handed back) ----------+
//
// A Run that is seen assigned is assigned, in whatever state it was. One that asks to be cancelled, or is being deleted,
// before it has a Pod is idle: somebody else ends it. One that is known to have finished is finished until the informer
// has caught up; one that is deleted while it may have a Pod keeps its units for a while, see leaving.go.
type trackedRun struct {
	// run is the newest version that was seen; what the scheduler does not need is stripped from it.
	run   *corev1alpha1.Run
	info  *framework.RunInfo
	order queue.Order
	state runState
	// pending is the decision that is being stored, in state binding. Answers to an earlier one come too late.
	pending *assignment
	// line is the queue's line in which the Run waits.
	line string
	// since is when the Run began to wait.
	since time.Time
	// attemptSince is when the number of its attempt was seen to change; zero for a Run that is as it was seen first.
	attemptSince time.Time
	// boundVersion is the resourceVersion that the bind made, in state bound.
	boundVersion string
	// refusals counts binds in a row that were refused.
	refusals int
	// holds is what the Run remembers of the Pods that were held for it.
	holds holds
	// unshown tells that the informer has not shown the Run yet, see catchup.go. It may never do, nor tell of its end.
	unshown bool
}

type runState int

const (
	runIdle runState = iota
	runWaiting
	runBinding
	runBound
	runAssigned
	runFinished
)

func newEngine(rules *framework.Framework, c clock.PassiveClock) *engine {
	return &engine{
		clock: c, rules: rules, meters: newMeters(), wake: make(chan struct{}, 1),
		cache: cache.New(), queue: queue.New(), book: explain.New(),
		runs:           map[types.UID]*trackedRun{},
		unexplained:    newAgenda(),
		youngestPlaced: youngest{},
		leaving:        leavers{until: map[types.UID]time.Time{}},
		nextSweep:      c.Now().Add(safetyNet),
	}
}

// runSeen takes in a version of a Run that the informer shows.
func (e *engine) runSeen(run *corev1alpha1.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t, ok := e.runs[run.UID]; ok {
		t.unshown = false
	}
	e.see(run)
}

// see takes in a version of a Run, from the informer or from a live read. Versions older than one that was seen before are
// ignored.
func (e *engine) see(run *corev1alpha1.Run) {
	t, ok := e.runs[run.UID]
	switch {
	case run.Status.Phase.IsTerminal():
		e.forget(run.UID)
		return
	case !ok:
		t = &trackedRun{run: run, info: framework.NewRunInfo(run), order: orderOf(run)}
		e.runs[run.UID] = t
		e.leaving.drop(run.UID)
	case t.state == runFinished:
		return // what comes now is late
	case newer(t.run.ResourceVersion, run.ResourceVersion):
		return
	default:
		if run.Status.Attempt > t.run.Status.Attempt {
			t.attemptSince = e.clock.Now()
		}
		t.run = run
		e.relabel(t)
	}
	if t.state == runBinding && !run.Status.Phase.IsActive() {
		return // the outcome of the bind decides
	}
	if t.state == runBound && newer(t.boundVersion, run.ResourceVersion) {
		return // not the version that the bind made yet
	}
	e.settle(t)
}

// settle brings queue, cache and book in line with the newest version of a Run that has no bind under way.
func (e *engine) settle(t *trackedRun) {
	run := t.run
	if run.Status.Phase.IsActive() {
		t.state, t.refusals = runAssigned, 0
		e.stopWaiting(t)
		e.changed(e.cache.Unhold(run.UID))
		e.changed(e.cache.Charge(t.info, types.UID(run.Status.AssignedPodUID)))
		return
	}
	e.changed(e.cache.Release(run.UID))
	if run.Spec.CancelRequested || run.DeletionTimestamp != nil {
		t.state = runIdle
		e.stopWaiting(t)
		e.changed(e.cache.Unhold(run.UID))
		return
	}
	now := e.clock.Now()
	if t.state != runWaiting {
		t.state, t.since = runWaiting, now
	}
	if at := notBefore(t); at.After(now) {
		e.delay(t, at)
		e.explainBackoff(t, run.Status.NextAttemptTime.Time)
		return
	}
	if !e.queue.Has(run.UID) {
		e.queue.Add(t.info, t.order)
		t.line = t.info.Class
		e.signal()
	}
	e.book.Wait(run.UID, t.group(), t.since, told(run))
	e.unexplained.add(t.info.RuntimeKey())
}

// runGone takes in that a Run is not among the unfinished any more. Unless it is known to have finished, which runFinished
// tells, a Run that may have a Pod counts as deleted there.
func (e *engine) runGone(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.releaseLeft(e.clock.Now()) // also where nobody asks for the next decision
	e.disappear(uid)
}

// disappear drops a Run that is not among the unfinished any more.
func (e *engine) disappear(uid types.UID) {
	if t, ok := e.runs[uid]; ok && (t.state == runBinding || t.state == runBound || t.state == runAssigned) {
		e.leave(t)
		return
	}
	e.forget(uid)
}

// forget drops a Run that has no Pod, or none any more.
func (e *engine) forget(uid types.UID) {
	if e.gone != nil {
		e.gone[uid] = struct{}{}
	}
	if e.leaving.drop(uid) {
		e.changed(e.cache.Release(uid))
	}
	t, ok := e.runs[uid]
	if !ok {
		return
	}
	delete(e.runs, uid)
	e.stopWaiting(t)
	e.changed(e.cache.Unhold(uid))
	e.changed(e.cache.Release(uid))
}

// stopWaiting takes a Run out of queue and book.
func (e *engine) stopWaiting(t *trackedRun) {
	e.queue.Remove(t.info.UID)
	e.book.Forget(t.info.UID)
	e.forgetUnexplained(t.info.RuntimeKey())
}

// forgetUnexplained drops a Runtime of which nothing waits any more. A scheduler that is not the leader explains
// nothing, so that nobody else would.
func (e *engine) forgetUnexplained(key types.NamespacedName) {
	if !e.queue.HasAny(key) {
		e.unexplained.drop(key)
	}
}

// podSeen takes in a Pod of a Runtime.
func (e *engine) podSeen(pod cache.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed(e.cache.SetPod(pod))
}

// podGone forgets a Pod.
func (e *engine) podGone(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed(e.cache.RemovePod(uid))
}

// nodeSeen takes in that a Node is there.
func (e *engine) nodeSeen(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.cache.SetNode(name) {
		e.changed(c)
	}
}

// nodeGone takes in that a Node is not there any more.
func (e *engine) nodeGone(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.cache.RemoveNode(name) {
		e.changed(c)
	}
}

// runtimeSeen takes in a Runtime.
func (e *engine) runtimeSeen(runtime *framework.RuntimeInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed(e.cache.SetRuntime(runtime))
}

// runtimeGone forgets a Runtime.
func (e *engine) runtimeGone(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.youngestPlaced, key)
	e.changed(e.cache.RemoveRuntime(key))
}

// workspaceSeen takes in a PersistentWorkspace.
func (e *engine) workspaceSeen(workspace *framework.WorkspaceInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed(e.cache.SetWorkspace(workspace))
}

// workspaceGone forgets a PersistentWorkspace.
func (e *engine) workspaceGone(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed(e.cache.RemoveWorkspace(key))
}

// relabel makes the decisions about a Run rest on the labels that it has now, while it waits or has its Pod.
func (e *engine) relabel(t *trackedRun) {
	if maps.Equal(t.info.Labels, t.run.Labels) {
		return
	}
	t.info = framework.NewRunInfo(t.run)
	if t.state == runWaiting {
		e.queue.Remove(t.info.UID) // whoever settles it puts it back
		e.changed(e.cache.Unhold(t.info.UID))
	}
}

// changed wakes the Runs that a change of the cache may have helped.
func (e *engine) changed(c cache.Change) {
	woken := false
	if c.Runtime.Name != "" {
		if e.queue.HasAny(c.Runtime) {
			e.unexplained.add(c.Runtime)
		}
		woken = e.queue.Wake(c.Runtime, c.Events, c.Pod)
	}
	if c.Left != nil && e.queue.WakeForLeft(c.Left) {
		woken = true
	}
	if c.Came != nil && e.queue.WakeForCome(c.Came) {
		woken = true
	}
	if c.Workspace.Name != "" {
		for _, runtime := range e.queue.WakeForWorkspace(c.Workspace) {
			e.unexplained.add(runtime)
			woken = true
		}
	}
	if woken {
		e.signal()
	}
}

// signal wakes the loop, once for any number of calls.
func (e *engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// delay puts a waiting Run aside. The loop is woken, because its timer may have to go off earlier.
func (e *engine) delay(t *trackedRun, until time.Time) {
	e.queue.AddAt(t.info, t.order, until)
	e.signal()
}

// retryIn is the wait before the n-th attempt after a refusal: doubling, from firstRetry to lastRetry.
func retryIn(refusals int) time.Duration {
	wait := firstRetry
	for i := 1; i < refusals && wait < lastRetry; i++ {
		wait *= 2
	}
	return min(wait, lastRetry)
}
