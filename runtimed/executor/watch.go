package executor

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/server"
)

// watcher follows one execution until its end.
type watcher struct {
	c         *claim
	execution *server.Execution
	// start is when the process was started; zero before Started came.
	start time.Time
	// stop is why the end was asked for first; stopping tells that it was asked for, even if for no Run any more.
	stop     decision.StopCause
	stopping bool
	// delay passes when Running is to be written; delayed tells that it has passed.
	delay   clock.Timer
	delayed bool
	// timeout and patience are nil until they run.
	timeout, patience clock.Timer
	running           *runningWriter
}

// watch follows the execution until its end. It returns false when ctx ended first.
func (c *claim) watch(ctx context.Context, execution *server.Execution) (decision.Ending, time.Time, bool) {
	w := &watcher{c: c, execution: execution, delay: c.e.Clock.NewTimer(c.e.Timing.RunningDelay)}
	defer w.release()
	exited, ok := w.follow(ctx)
	if w.running != nil {
		w.running.finish()
	}
	if w.start.IsZero() && exited != nil && ranAtAll(exited) {
		w.start = w.moment(exited.GetExitTimeUnixMicros())
	}
	spec := &c.current().Spec
	return decision.Ending{Exited: exited, Stop: w.stop, Timeout: decision.Timeout(spec)}, w.start, ok
}

// follow returns what the server reported at the end; nil when the end was not seen. It returns false when ctx ended.
func (w *watcher) follow(ctx context.Context) (*runtimev1.Exited, bool) {
	left, closing := w.c.left, w.c.e.closing
	w.checkRun() // a cancel may have come between the claim and the start
	for {
		select {
		case event := <-w.execution.Events():
			if event.Started == nil {
				return event.Exited, true
			}
			w.started(ctx, event.Started)
		case <-w.c.changed:
			w.checkRun()
		case <-left:
			left = nil
			w.ask(decision.StopNone)
		case <-closing:
			closing = nil
			w.hurry()
		case <-w.delay.C():
			w.delayed = true
			w.reportRunning(ctx)
		case <-channel(w.timeout):
			w.ask(decision.StopTimeout)
		case <-channel(w.patience):
			w.c.e.Server.Abandon(w.c.id, "it did not report the end of execution "+w.c.id)
			return nil, true
		case <-ctx.Done():
			return nil, false
		}
	}
}

// checkRun asks for the end when the Run says so.
func (w *watcher) checkRun() {
	if cause := decision.StopAsked(w.c.current()); cause != decision.StopNone {
		w.ask(cause)
	}
}

// started notes that the process exists: the timeout counts from now.
func (w *watcher) started(ctx context.Context, started *runtimev1.Started) {
	w.start = w.moment(started.GetStartTimeUnixMicros())
	if timeout := decision.Timeout(&w.c.current().Spec); timeout > 0 {
		w.timeout = w.c.e.Clock.NewTimer(max(timeout-w.c.e.Clock.Since(w.start), 0))
	}
	w.reportRunning(ctx)
}

// reportRunning starts to write the phase Running once the process exists and has done so for a while.
func (w *watcher) reportRunning(ctx context.Context) {
	if w.delayed && !w.start.IsZero() && w.running == nil && !w.stopping {
		w.running = startRunningWriter(ctx, w.c, w.start)
	}
}

// ask asks the server for the end of the execution, once; the first cause counts.
func (w *watcher) ask(cause decision.StopCause) {
	if w.stopping {
		return
	}
	w.stopping, w.stop = true, cause
	w.c.log.V(1).Info("Stopped execution", "cause", cause)
	w.giveGrace(w.c.e.Timing.StopGrace)
}

// hurry asks for the end because the Pod's grace period is nearly over. An execution that is ending already gets no more
// time than that.
func (w *watcher) hurry() {
	if !w.stopping {
		w.stopping, w.stop = true, decision.StopShutdown
		w.c.log.V(1).Info("Stopped execution", "cause", w.stop)
	}
	w.giveGrace(min(w.c.e.stopGrace, w.c.e.Timing.StopGrace))
}

// giveGrace lets the server end the execution within grace.
func (w *watcher) giveGrace(grace time.Duration) {
	w.c.e.Server.Stop(w.c.id, grace)
	if w.patience != nil {
		w.patience.Stop()
	}
	w.patience = w.c.e.Clock.NewTimer(grace + w.c.e.Timing.StopPatience)
}

// moment is the time that the server reported, or now when it reported none.
func (w *watcher) moment(unixMicros int64) time.Time {
	if unixMicros <= 0 {
		return w.c.e.Clock.Now()
	}
	return time.UnixMicro(unixMicros)
}

func (w *watcher) release() {
	for _, timer := range []clock.Timer{w.delay, w.timeout, w.patience} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// channel is the channel of a timer that may not run yet.
func channel(timer clock.Timer) <-chan time.Time {
	if timer == nil {
		return nil
	}
	return timer.C()
}

// ranAtAll tells whether exited speaks of a process that existed.
func ranAtAll(exited *runtimev1.Exited) bool {
	switch exited.GetCause() {
	case runtimev1.ExitCause_EXIT_CAUSE_COMMAND_NOT_FOUND, runtimev1.ExitCause_EXIT_CAUSE_START_FAILED:
		return false
	default:
		return true
	}
}
