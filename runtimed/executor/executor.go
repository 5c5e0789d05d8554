// Package executor carries Runs that are assigned to this Pod from their assignment to their terminal status.
//
// Every Run has a claim, a goroutine of its own, from the moment in which it is seen until its status is written and
// its files are removed. What is decided on the way is in package decision; this package does it.
//
//	seen -> staged -> server connected -> marked -> executing -> ended -> artifacts stored -> status written -> removed -> unmarked
//
// A Run that its retry policy tries again is handed back instead of getting a terminal status, and its directory is
// removed before that: its next attempt may come to this Pod at once, and is another claim.
//
// A runtimed that was restarted carries on with what its predecessor started, as far as the runtime server still knows
// of it; see resume.
//
// While the Pod is being shut down, what executes goes on, and every claim that has not come to "marked" hands its Run
// back: nothing of it was executed, so another Pod may.
//
// A claim that is done stays as a tombstone until the API says that the Run left the Pod: events that were under way
// before its terminal status must not start it again.
package executor

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/bound"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/gitsource"
	"kruntimes.io/kruntimes/runtimed/logs"
	"kruntimes.io/kruntimes/runtimed/runs"
	"kruntimes.io/kruntimes/runtimed/server"
	"kruntimes.io/kruntimes/runtimed/staging"
	"kruntimes.io/kruntimes/runtimed/state"
	"kruntimes.io/kruntimes/runtimed/transfer"
	"kruntimes.io/kruntimes/runtimed/workspace"
)

// Pod is the Pod of this runtimed.
type Pod struct {
	// Name, Namespace and UID come from the downward API.
	Name, Namespace, UID string
}

// Timing holds the delays of a Run's way. Zero fields get their default.
type Timing struct {
	// RunningDelay is how long an execution may take before the phase Running is written. Default: 100 ms.
	RunningDelay time.Duration
	// StopGrace is the time between SIGTERM and SIGKILL on cancel and timeout. Default: 10 s.
	StopGrace time.Duration
	// StopPatience is how long after the grace the server may take to report the end. Default: 60 s.
	StopPatience time.Duration
	// ServerPatience is how long an execution of an earlier runtimed waits for the server to connect. Default: 30 s.
	ServerPatience time.Duration
}

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&t.RunningDelay, 100*time.Millisecond)
	set(&t.StopGrace, corev1alpha1.StopGrace)
	set(&t.StopPatience, 60*time.Second)
	set(&t.ServerPatience, 30*time.Second)
	return t
}

// Options are what an Executor works with. Everything but Artifacts and Timing is required.
type Options struct {
	Pod         Pod
	Interpreter []string
	Client      *runs.Client
	Server      *server.Connection
	Area        *staging.Area
	Sources     *gitsource.Fetcher
	// Workspaces reads PersistentWorkspaces, Volume holds their directories, and Occupancy says who is in one.
	Workspaces *bound.Client
	Volume     *workspace.Volume
	Occupancy  *workspace.Occupancy
	// Artifacts moves artifacts; nil where the Runtime has no artifact store.
	Artifacts *transfer.Mover
	State     *state.Store
	Logs      *logs.Writer
	Clock     clock.Clock
	Timing    Timing
	Log       logr.Logger
}

// key identifies a claim: a Run that comes back for another attempt is another claim.
type key struct {
	uid     types.UID
	attempt int32
}

// Executor holds the claims of this Pod. It is the handler of a runs.Feed.
type Executor struct {
	Options
	ctx context.Context // the lifetime of the claims, which outlive the calls that start them

	// draining is closed when the Pod is being shut down: what has not begun to execute does so elsewhere. closing is
	// closed when what executes must end, within stopGrace.
	draining, closing chan struct{}
	stopGrace         time.Duration
	work              sync.WaitGroup

	mu     sync.Mutex
	claims map[key]*claim
	listed bool
	marked map[string]bool
	// drain is the shutdown of the Pod; nil while there is none.
	drain *decision.Draining
	// ended tells that nothing is claimed any more.
	ended bool
	// quiet is closed, and replaced, when the last claim has ended.
	quiet chan struct{}
	// sweeping tells that leftovers are being removed.
	sweeping bool
}

var _ runs.Handler = (*Executor)(nil)

// New returns an Executor whose claims end, without writing anything more, when ctx does.
func New(ctx context.Context, opts Options) *Executor {
	opts.Timing = opts.Timing.withDefaults()
	e := &Executor{
		Options: opts, ctx: ctx,
		draining: make(chan struct{}), closing: make(chan struct{}), quiet: make(chan struct{}),
		claims: map[key]*claim{}, marked: map[string]bool{},
	}
	for _, id := range opts.State.Marked() {
		e.marked[id] = true
	}
	return e
}

// Listed takes all active Runs of the Pod; claims of others lose their Run.
func (e *Executor) Listed(all []*corev1alpha1.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := !e.listed
	e.listed = true
	if first {
		e.judgeBoot(all)
	}
	active := map[key]bool{}
	for _, run := range all {
		active[keyOf(run)] = true
		e.see(run, first)
	}
	for k, c := range e.claims {
		if !active[k] {
			e.leave(k, c)
		}
	}
	if first {
		expected := map[string]bool{}
		for k := range active {
			if id := idOf(k); e.marked[id] {
				expected[id] = true
			}
		}
		e.Server.Settle(expected)
		e.sweep(active)
	}
}

// judgeBoot makes what counts as started after a boot of the node count as started for the next runtimed, too.
func (e *Executor) judgeBoot(all []*corev1alpha1.Run) {
	ids := make([]string, len(all))
	for i, run := range all {
		ids[i] = idOf(keyOf(run))
	}
	if err := e.State.Judge(ids); err != nil {
		e.Log.Error(err, "Could not record the boot of the node; the next runtimed does") // and judges by it
	}
}

// Changed takes a Run that came or changed.
func (e *Executor) Changed(run *corev1alpha1.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.see(run, false)
}

// Left takes a Run that is finished, assigned elsewhere, or deleted.
func (e *Executor) Left(run *corev1alpha1.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.claims[keyOf(run)]; c != nil {
		e.leave(keyOf(run), c)
	}
}

// Drain says that the Pod is being shut down, or what more has become known of that. What executes goes on. Runs that have
// not begun to execute, or come later, are handed back.
func (e *Executor) Drain(d decision.Draining) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.drain == nil {
		close(e.draining)
	}
	e.drain = &d
}

// Stop ends what executes: SIGTERM now, and SIGKILL after grace. Only the first call counts.
func (e *Executor) Stop(grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.closing:
	default:
		e.stopGrace = grace
		close(e.closing)
	}
}

// Quiet returns a channel that is closed once no claim is at work. Another claim may have begun by then: see Close.
func (e *Executor) Quiet() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.isIdle() {
		return e.quiet
	}
	now := make(chan struct{})
	close(now)
	return now
}

// Close claims nothing any more, until Reopen. It returns false, and changes nothing, while a claim is at work.
func (e *Executor) Close() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = e.isIdle()
	return e.ended
}

// Reopen takes a Close back, and claims those of the given Runs that came meanwhile.
func (e *Executor) Reopen(active []*corev1alpha1.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = false
	for _, run := range active {
		e.see(run, !e.listed)
	}
}

// Wait waits until every claim has ended. It returns false when ctx ended before. Nothing may be claimed meanwhile: the
// Executor is closed, or nobody feeds it any more.
func (e *Executor) Wait(ctx context.Context) bool {
	done := make(chan struct{})
	go func() { // ends with the last claim, which the end of the Executor's context ends at the latest
		e.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// see hands run to its claim, or claims it. The caller holds the lock.
func (e *Executor) see(run *corev1alpha1.Run, first bool) {
	k := keyOf(run)
	if c := e.claims[k]; c != nil {
		c.update(run)
		return
	}
	if e.ended {
		return
	}
	id := executionID(run)
	c := newClaim(e, run, id)
	earlier := e.leaveEarlier(k)
	found := decision.Found{
		Run: run, Marked: e.marked[id], First: first, BootChanged: e.State.BootChanged(), Draining: e.drain, Now: e.Clock.Now(),
	}
	e.claims[k] = c
	e.work.Go(func() {
		if awaitAll(e.ctx, earlier) {
			c.carry(e.ctx, found)
		}
		e.finish(k, c)
	})
}

// leaveEarlier ends the claims of earlier attempts of a Run that has come back for another one, and returns what tells when
// they are over: they share a place in the Run's workspace, which the earlier attempt leaves empty. The caller holds the lock.
func (e *Executor) leaveEarlier(k key) (over []<-chan struct{}) {
	for attempt := k.attempt - 1; attempt > 0; attempt-- {
		earlier := key{uid: k.uid, attempt: attempt}
		if c := e.claims[earlier]; c != nil {
			if !c.done {
				over = append(over, c.over)
			}
			e.leave(earlier, c)
		}
	}
	return over
}

// awaitAll waits until all channels are closed. It returns false when ctx ended before.
func awaitAll(ctx context.Context, all []<-chan struct{}) bool {
	for _, one := range all {
		select {
		case <-one:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// leave tells a claim that its Run is not on this Pod any more, and forgets it when it is done. The caller holds the lock.
func (e *Executor) leave(k key, c *claim) {
	if c.done {
		delete(e.claims, k)
		return
	}
	c.leave()
}

// finish forgets a claim, or keeps its tombstone until its Run leaves.
func (e *Executor) finish(k key, c *claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(c.over)
	delete(e.marked, c.id)
	if c.hasLeft() {
		delete(e.claims, k)
	} else {
		e.claims[k] = &claim{done: true}
	}
	if e.isIdle() {
		close(e.quiet)
		e.quiet = make(chan struct{})
	}
	e.tidy()
}

// isIdle tells whether no claim is at work. The caller holds the lock.
func (e *Executor) isIdle() bool {
	for _, c := range e.claims {
		if !c.done {
			return false
		}
	}
	return true
}

func keyOf(run *corev1alpha1.Run) key { return key{uid: run.UID, attempt: run.CurrentAttempt()} }
