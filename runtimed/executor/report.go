package executor

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/statuspatch"
)

// end closes the log and writes the status that follows: a terminal one, or one that hands the Run back for its next
// attempt. Nothing of this attempt may be left when the next one begins, so its directory is removed before that.
func (c *claim) end(ctx context.Context, attempt logEnder, result decision.Result, start time.Time) {
	if err := attempt.End(); err != nil {
		c.log.Error(err, "Could not end the log")
	}
	end := c.e.Clock.Now()
	if decision.IsHandedBack(c.current(), result, end) {
		c.removeDirectory()
	}
	written := c.write(ctx, nil, &desired{
		after: func(run *corev1alpha1.Run) *corev1alpha1.Run {
			return decision.EndStatus(run, result, start, end)
		},
		refused: func(refusal error) { result = decision.Refused(result, refusal) },
	})
	switch {
	case written == nil:
		c.log.Info("Dropped Run", "result", result.Phase)
	case written.Status.Phase.IsTerminal():
		c.log.Info("Finished Run", "phase", written.Status.Phase, "reason", written.Status.Reason)
	default:
		c.log.Info("Handed Run back", "reason", written.Status.Reason, "nextAttempt", written.Status.Attempt)
	}
}

// logEnder is the part of logs.Attempt that the end needs.
type logEnder interface{ End() error }

// desired is a status to write.
type desired struct {
	// after derives it from the present state of the Run.
	after func(run *corev1alpha1.Run) *corev1alpha1.Run
	// refused is told that the API server found it invalid.
	refused func(error)
}

// write writes a status and returns the Run as written; nil when that is not this runtimed's business any more, or when
// ctx or giveUp ended. A conflict leads to a new decision on what the Run has become. Everything that may pass is tried
// again for as long as the Run is assigned to this Pod.
func (c *claim) write(ctx context.Context, giveUp <-chan struct{}, want *desired) *corev1alpha1.Run {
	backoff := apiBackoff()
	run := c.current()
	for {
		if c.hasLeft() || !decision.IsOurs(run, c.uid, c.attempt, c.e.Pod.Name, c.e.Pod.UID) {
			return nil
		}
		after := want.after(run)
		if after.Status.Phase == run.Status.Phase {
			return run // an earlier request got through, although its answer did not
		}
		patch, err := statuspatch.ForRun(corev1alpha1.WriterRuntimed, run, after)
		if err != nil {
			c.log.Error(err, "Could not build the status")
			return nil
		}
		written, err := c.e.Client.PatchStatus(ctx, c.name, patch)
		switch {
		case err == nil:
			c.update(written)
			return written
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsInvalid(err):
			want.refused(err)
		}
		if !apierrors.IsConflict(err) {
			c.log.Error(err, "Could not write the status yet")
			if !c.pause(ctx, giveUp, backoff.Step()) {
				return nil
			}
		}
		if run = c.read(ctx, giveUp, &backoff); run == nil {
			return nil
		}
	}
}

// apiBackoff are the waits between two requests to an API server that does not do what it is asked for.
func apiBackoff() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 5 * time.Second}
}

// read reads the Run; nil when it is gone, or when ctx or giveUp ended.
func (c *claim) read(ctx context.Context, giveUp <-chan struct{}, backoff *wait.Backoff) *corev1alpha1.Run {
	run, err := c.reread(ctx, giveUp, backoff)
	if err != nil {
		return nil // persist has told why
	}
	return run
}

// reread is read, and tells why there is no Run: it is gone, or what the API server said last.
func (c *claim) reread(ctx context.Context, giveUp <-chan struct{}, backoff *wait.Backoff) (run *corev1alpha1.Run, err error) {
	err = c.persist(ctx, giveUp, backoff, "Could not read the Run yet", func() (err error) {
		run, err = c.e.Client.Get(ctx, c.name)
		return err
	})
	if err == nil {
		c.update(run)
	}
	return run, err
}

// persist asks the API server until it answers, or says that there is nothing, or there is nothing to wait for any more. message
// is logged meanwhile.
func (c *claim) persist(ctx context.Context, giveUp <-chan struct{}, backoff *wait.Backoff, message string, ask func() error) error {
	for {
		err := ask()
		if err == nil || apierrors.IsNotFound(err) {
			return err
		}
		c.log.Error(err, message)
		if !c.pause(ctx, giveUp, backoff.Step()) {
			return err
		}
	}
}

// pause waits; false when there is nothing to wait for any more.
func (c *claim) pause(ctx context.Context, giveUp <-chan struct{}, d time.Duration) bool {
	timer := c.e.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-c.left:
	case <-giveUp:
	case <-ctx.Done():
	}
	return false
}

// runningWriter writes the phase Running beside the execution, so that a slow API delays neither a stop nor a timeout.
type runningWriter struct {
	giveUp chan struct{}
	done   chan struct{}
}

func startRunningWriter(ctx context.Context, c *claim, start time.Time) *runningWriter {
	w := &runningWriter{giveUp: make(chan struct{}), done: make(chan struct{})}
	go func() { // ends at the latest one request after finish was called
		defer close(w.done)
		c.write(ctx, w.giveUp, &desired{
			after:   func(run *corev1alpha1.Run) *corev1alpha1.Run { return decision.RunningStatus(run, start) },
			refused: func(error) {},
		})
	}()
	return w
}

// finish waits for a request under way, since the terminal status would conflict with it, and tries no further one.
func (w *runningWriter) finish() {
	close(w.giveUp)
	<-w.done
}
