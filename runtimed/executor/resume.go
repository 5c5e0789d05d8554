package executor

import (
	"context"
	"errors"
	"time"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/logs"
	"kruntimes.io/kruntimes/runtimed/server"
	"kruntimes.io/kruntimes/runtimed/staging"
)

// resume carries on with an execution that an earlier runtimed started. When the runtime server does not know of it, or
// does not come, the Run ends as lost says.
func (c *claim) resume(ctx context.Context, attempt *logs.Attempt, lost decision.Result) {
	if run := c.current(); run.Spec.Workspace != nil {
		// Nobody removes it before this runtimed has listed its Runs, and this one is among them.
		c.entered = c.e.Occupancy.Enter(run.Spec.Workspace.Name)
	}
	execution := c.reattach(ctx, attempt)
	if execution == nil {
		c.e.awaitGone(ctx, c.id, c.left)
		c.end(ctx, attempt, lost, time.Time{})
		return
	}
	c.log.Info("Took over execution")
	ending, start, ok := c.watch(ctx, execution)
	if !ok {
		return
	}
	run := c.current()
	place, err := c.reopenPlace(run)
	var dir *staging.Directory
	if err == nil {
		dir, err = c.e.Area.Reopen(c.id, place)
	}
	if err != nil {
		ending.OutputsError = &decision.OutputsError{Message: err.Error()}
		c.end(ctx, attempt, decision.ForEnding(ending), start)
		return
	}
	defer func() {
		if err := dir.Close(); err != nil {
			c.log.Error(err, "Could not close the directory of the execution")
		}
	}()
	ending.Command, ending.Scripted = named(run, c.found(run, dir), c.e.Interpreter)
	c.conclude(ctx, attempt, dir, ending, start)
}

// reattach takes the execution over from an earlier runtimed; nil when it is lost.
func (c *claim) reattach(ctx context.Context, attempt *logs.Attempt) *server.Execution {
	for {
		if !c.e.await(ctx, c.e.Server.Up(), c.left, c.e.Timing.ServerPatience) {
			return nil
		}
		execution, err := c.e.Server.Attach(c.id, c.output(attempt))
		if err == nil {
			return execution
		}
		if !errors.Is(err, server.ErrNotConnected) {
			c.log.V(1).Info("Could not take over execution", "cause", err.Error())
			return nil
		}
	}
}

// found tells what of a source was executed; nothing when it has none, or when the script has removed it.
func (c *claim) found(run *corev1alpha1.Run, dir *staging.Directory) program {
	if run.Spec.Source == nil || run.Spec.Source.Git == nil {
		return program{}
	}
	entry, err := dir.Entrypoint(run.Spec.Mode.Task.Entrypoint)
	if err != nil {
		return program{words: []string{run.Spec.Mode.Task.Entrypoint}}
	}
	return programFor(entry, c.e.Interpreter)
}
