package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/logs"
	"kruntimes.io/kruntimes/runtimed/server"
	"kruntimes.io/kruntimes/runtimed/staging"
	"kruntimes.io/kruntimes/runtimed/state"
)

// claim carries one attempt of one Run.
type claim struct {
	e       *Executor
	id      string
	name    string
	uid     string
	attempt int32
	log     logr.Logger

	// changed holds a token when latest was replaced. left is closed when the Run is not on this Pod any more. over is closed
	// when the claim has nothing to do any more, and has removed its files.
	changed chan struct{}
	left    chan struct{}
	over    chan struct{}

	mu     sync.Mutex
	latest *corev1alpha1.Run

	// draining is closed when the Run must not begin any more: one whose workspace is on this Pod may do so for longer.
	draining <-chan struct{}
	// entered tells that the claim is in its Run's workspace. Only its own goroutine uses it.
	entered bool
	// done marks a tombstone. Guarded by the Executor's lock.
	done bool
}

func newClaim(e *Executor, run *corev1alpha1.Run, id string) *claim {
	c := &claim{
		e: e, id: id, name: run.Name, uid: string(run.UID), attempt: run.CurrentAttempt(), latest: run,
		log:     e.Log.WithValues("run", run.Name, "uid", run.UID, "attempt", run.CurrentAttempt()),
		changed: make(chan struct{}, 1), left: make(chan struct{}), over: make(chan struct{}), draining: e.draining,
	}
	if run.Spec.Workspace != nil {
		c.draining = e.closing
	}
	return c
}

// current returns the latest state of the Run that is known.
func (c *claim) current() *corev1alpha1.Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

// update takes a later state of the Run; one that is older than what is known is dropped.
func (c *claim) update(run *corev1alpha1.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil {
		return // a tombstone
	}
	order, err := resourceversion.CompareResourceVersion(run.ResourceVersion, c.latest.ResourceVersion)
	if err == nil && order <= 0 {
		return
	}
	c.latest = run
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// leave notes that the Run is not on this Pod any more. The caller holds the Executor's lock.
func (c *claim) leave() {
	if !c.hasLeft() {
		close(c.left)
	}
}

func (c *claim) hasLeft() bool {
	select {
	case <-c.left:
		return true
	default:
		return false
	}
}

// carry takes the Run from its assignment to its end.
func (c *claim) carry(ctx context.Context, found decision.Found) {
	defer c.leaveWorkspace()
	attempt := c.e.Logs.Attempt(c.name, c.uid, c.attempt)
	decided := decision.ForFound(found)
	c.log.V(1).Info("Claimed Run", "decision", decided.Kind)
	switch decided.Kind {
	case decision.ClaimExecute:
		c.execute(ctx, attempt)
	case decision.ClaimReattach:
		c.resume(ctx, attempt, decided.Result)
	case decision.ClaimLost:
		c.e.awaitStranger(ctx, c.id, c.left)
		c.end(ctx, attempt, decided.Result, time.Time{})
	case decision.ClaimEnd:
		c.end(ctx, attempt, decided.Result, time.Time{})
	}
	if ctx.Err() != nil {
		return // not known to be over: the marker must outlive this process
	}
	c.clean()
	c.e.Server.Forget(c.id)
}

// execute stages, starts and watches the execution, and reports its end.
func (c *claim) execute(ctx context.Context, attempt *logs.Attempt) {
	run := c.current()
	place, result, ok := c.enter(ctx, run)
	if !ok {
		if result != nil {
			c.end(ctx, attempt, *result, time.Time{})
		}
		return
	}
	dir, err := c.e.Area.CreateIn(c.id, inlineScript(run), place)
	if err != nil {
		c.end(ctx, attempt, decision.StagingFailed(err), time.Time{})
		return
	}
	defer func() {
		if err := dir.Close(); err != nil {
			c.log.Error(err, "Could not close the directory of the execution")
		}
	}()
	source, result, ok := c.fetch(ctx, run, dir)
	if ok {
		result, ok = c.stageInputs(ctx, run, dir)
	}
	if !ok {
		if result != nil {
			c.end(ctx, attempt, *result, time.Time{})
		}
		return
	}
	cmd := command(run, c.id, c.e.Pod.Namespace, c.e.Interpreter, dir)
	cmd.Argv = slices.Concat(source.words, cmd.GetArgv())
	execution, result := c.start(ctx, cmd, attempt)
	if execution == nil {
		if result != nil {
			c.end(ctx, attempt, *result, time.Time{})
		}
		return
	}
	ending, start, ok := c.watch(ctx, execution)
	if !ok {
		return
	}
	ending.Command, ending.Scripted = named(run, source, c.e.Interpreter)
	c.conclude(ctx, attempt, dir, ending, start)
}

// conclude reads and stores what the script left, and reports the end.
func (c *claim) conclude(
	ctx context.Context, attempt *logs.Attempt, dir *staging.Directory, ending decision.Ending, start time.Time,
) {
	ending.StderrTail = decision.Tail(attempt.StderrTail())
	if ending.Exited.GetCause() == runtimev1.ExitCause_EXIT_CAUSE_EXITED ||
		ending.Exited.GetCause() == runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE {
		ending.Outputs, ending.OutputsError = readOutputs(dir)
	}
	result, ok := c.collect(ctx, dir, decision.ForEnding(ending), start)
	if ok {
		c.end(ctx, attempt, result, start)
	}
}

// start waits for the server, marks the execution as started, and starts it. Without an execution it returns how the
// Run ends, or nothing when the Run or the process left.
func (c *claim) start(
	ctx context.Context, cmd *runtimev1.Execute, attempt *logs.Attempt,
) (*server.Execution, *decision.Result) {
	marked := false
	for {
		if result, ok := c.awaitServer(ctx); !ok {
			return nil, result
		}
		if !marked {
			if err := c.e.State.Mark(c.id); errors.Is(err, state.ErrMarked) {
				lost := decision.Lost()
				return nil, &lost
			} else if err != nil {
				failure := decision.StagingFailed(err)
				return nil, &failure
			}
			marked = true
		}
		execution, err := c.e.Server.Execute(cmd, c.output(attempt))
		switch {
		case err == nil:
			return execution, nil
		case errors.Is(err, server.ErrUnserviceable):
			result := decision.Unserviceable(err.Error())
			return nil, &result
		}
	}
}

// awaitServer waits until the server is connected. It returns false when the Run ends before that, and how.
func (c *claim) awaitServer(ctx context.Context) (*decision.Result, bool) {
	for {
		if cause := decision.StopAsked(c.current()); cause != decision.StopNone {
			result := decision.StoppedBeforeStart(cause)
			return &result, false
		}
		select {
		case <-c.left:
			return nil, false
		case <-c.draining:
			result := decision.StoppedBeforeStart(decision.StopShutdown)
			return &result, false
		default:
		}
		select {
		case <-c.e.Server.Up():
			return nil, true
		case <-c.changed:
		case <-c.left:
		case <-c.draining:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// output writes what the execution writes; the first failure is logged.
func (c *claim) output(attempt *logs.Attempt) server.OutputFunc {
	var once sync.Once
	return func(output server.Output) int {
		pending, err := attempt.Write(streamName(output.Stream), output.Offset, output.Data)
		if err != nil {
			once.Do(func() { c.log.Error(err, "Could not write output") })
		}
		return pending
	}
}

// removeDirectory removes what the execution left.
func (c *claim) removeDirectory() {
	if err := c.e.Area.Remove(c.id); err != nil {
		c.log.Error(err, "Could not remove the directory of the execution")
	}
	c.unstage()
}

// clean removes what the execution left, and then its marker.
func (c *claim) clean() {
	c.removeDirectory()
	if err := c.e.State.Unmark(c.id); err != nil {
		c.log.Error(err, "Could not remove the marker of the execution")
	}
}
