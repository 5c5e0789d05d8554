package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/runs"
)

// tick is how often it is considered whether a person should be told something.
const tick = 250 * time.Millisecond

// Options is what following a Run needs.
type Options struct {
	// Client reads Runs and Pods.
	Client client.WithWatch
	// Logs opens Pod logs.
	Logs PodLogs
	// Clock measures waits.
	Clock clock.Clock
	// Sink takes the output and the talk.
	Sink *Sink
	// Quiet leaves out the talk about waiting and retries, though not about output that is missing.
	Quiet bool
	// Tail is how many lines from before the beginning are delivered; nil means all.
	Tail *int
	// Known tells whether a person has been told already about a reason for which a Run waits. May be nil.
	Known func(reason string) bool
	// Run is the Run, as it was read or created last.
	Run *corev1alpha1.Run
}

// reader returns the reader for one attempt.
func (o Options) reader(a attempt) *reader {
	return &reader{logReader: logReader{client: o.Client, logs: o.Logs}, attempt: a, clock: o.Clock, deliver: o.Sink.Write}
}

// Result is how following ended.
type Result struct {
	// Run is the Run as it was seen last.
	Run *corev1alpha1.Run
	// Deleted tells that the Run was deleted before it was over.
	Deleted bool
}

// Follow delivers the output of a Run until the Run is over and all of its output is delivered, and returns the Run as
// it was then. It returns an error when it has to end before.
func Follow(ctx context.Context, o Options) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &follower{Options: o, run: o.Run, since: o.Clock.Now()}
	sights := Track(ctx, o.Client, o.Clock, o.Run)
	for !f.finished() {
		var err error
		select {
		case <-ctx.Done():
			return f.result(), ctx.Err()
		case s, ok := <-sights:
			if !ok {
				sights = nil // over, or ctx has ended
				continue
			}
			err = f.see(ctx, s)
		case end := <-f.ended():
			err = f.attemptEnded(ctx, end)
		case <-o.Clock.After(tick):
			f.tellWaiting()
		}
		if err != nil {
			return f.result(), err
		}
	}
	return f.result(), nil
}

// follower is the state of following one Run.
type follower struct {
	Options
	run     *corev1alpha1.Run
	deleted bool
	// since is when the Run was first seen in its present phase and attempt.
	since time.Time
	// told is what has been told last about waiting.
	told string
	// deliveries are the attempts whose output is not delivered yet, in order. The first is being delivered. An attempt
	// may end, and others begin and end, while one before it is.
	deliveries []*delivery
	// last is the attempt that was seen last.
	last attempt
}

// delivery is the delivery of one attempt.
type delivery struct {
	attempt attempt
	// over is closed when the attempt is known to have ended.
	over   chan struct{}
	isOver bool
	// end receives how the delivery ended; nil until it begins.
	end chan error
	// words are said once the output is delivered.
	words []string
}

// ended notes that the attempt has ended.
func (d *delivery) ended() {
	if !d.isOver {
		d.isOver = true
		close(d.over)
	}
}

func (f *follower) result() Result {
	return Result{Run: f.run, Deleted: f.deleted && !f.run.Status.Phase.IsTerminal()}
}

// finished tells whether nothing more can come.
func (f *follower) finished() bool {
	if len(f.deliveries) > 0 {
		return false
	}
	a, assigned := attemptOf(f.run)
	return (f.deleted || f.run.Status.Phase.IsTerminal()) && (!assigned || f.isLast(a))
}

// ended returns the channel on which the present delivery ends; nil, which blocks, when there is none.
func (f *follower) ended() <-chan error {
	if len(f.deliveries) == 0 {
		return nil
	}
	return f.deliveries[0].end
}

// isLast tells whether a is the attempt seen last.
func (f *follower) isLast(a attempt) bool {
	return a.number == f.last.number && a.podUID == f.last.podUID
}

// see takes in one sight of the Run.
func (f *follower) see(ctx context.Context, s Sight) error {
	if s.Err != nil {
		return s.Err
	}
	if s.Lost != nil {
		f.talk("the connection to the cluster is lost, trying again: %v", s.Lost)
		return nil
	}
	before := f.run
	f.run, f.deleted = s.Object, s.Deleted
	if before.Status.Phase != f.run.Status.Phase || before.Status.Attempt != f.run.Status.Attempt {
		f.since = f.Clock.Now()
		f.tellChange(before)
	}
	f.queue()
	f.start(ctx)
	return nil
}

// queue notes the Run's present attempt for delivery, and which attempts are over.
func (f *follower) queue() {
	a, assigned := attemptOf(f.run)
	if over := f.deleted || f.run.Status.Phase.IsTerminal() || !assigned; over || !f.isLast(a) {
		for _, d := range f.deliveries {
			d.ended()
		}
	}
	if !assigned || f.isLast(a) {
		return
	}
	f.last = a
	d := &delivery{attempt: a, over: make(chan struct{})}
	if f.deleted || f.run.Status.Phase.IsTerminal() {
		d.ended()
	}
	f.deliveries = append(f.deliveries, d)
}

// start begins with the next delivery, unless one is under way.
func (f *follower) start(ctx context.Context) {
	if len(f.deliveries) == 0 || f.deliveries[0].end != nil {
		return
	}
	d := f.deliveries[0]
	d.end = make(chan error, 1)
	r, tail := f.reader(d.attempt), f.Tail
	f.Tail = nil // of a further attempt, everything is new
	go func() { d.end <- r.complete(ctx, d.over, tail) }()
}

// attemptEnded takes in how the delivery of an attempt ended.
func (f *follower) attemptEnded(ctx context.Context, err error) error {
	words := f.deliveries[0].words
	f.deliveries = f.deliveries[1:]
	var local *WriteError
	var gone *PodGoneError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &local):
		return err
	case errors.As(err, &gone):
		f.Sink.Talk("Pod %s is gone; output that is not shown above is lost", gone.Pod)
	case err != nil:
		f.Sink.Talk("%v", err)
	}
	for _, text := range words {
		f.talk("%s", text)
	}
	f.start(ctx)
	return nil
}

func (f *follower) talk(format string, args ...any) {
	if !f.Quiet {
		f.Sink.Talk(format, args...)
	}
}

// tellWaiting tells what the Run waits for, once for each reason.
func (f *follower) tellWaiting() {
	text := Waiting(f.run, f.Clock.Since(f.since))
	if text == "" || text == f.told || f.deleted || len(f.deliveries) > 0 && f.run.Status.Phase == corev1alpha1.RunPending {
		return
	}
	f.told = text
	if f.Known == nil || !f.Known(runs.Reason(f.run)) {
		f.talk("Run %s waits: %s", f.run.Name, text)
	}
}

// tellChange tells about a new phase what a person would not see from the output.
func (f *follower) tellChange(before *corev1alpha1.Run) {
	status := f.run.Status
	switch {
	case status.Attempt > before.Status.Attempt && before.Status.Attempt > 0:
		f.tellAfterOutput(fmt.Sprintf("Run %s: attempt %d ended%s; attempt %d follows%s",
			f.run.Name, status.Attempt-1, because(f.run), status.Attempt, f.pause()))
		f.told = ""
	case status.Phase == corev1alpha1.RunRunning && f.told != "":
		f.talk("Run %s runs on Pod %s", f.run.Name, status.AssignedPod)
		f.told = ""
	}
}

// tellAfterOutput says something that comes after the output of all attempts that have been seen.
func (f *follower) tellAfterOutput(text string) {
	if n := len(f.deliveries); n > 0 {
		f.deliveries[n-1].words = append(f.deliveries[n-1].words, text)
		return
	}
	f.talk("%s", text)
}

// pause says how long the next attempt waits, ready to be appended to a sentence.
func (f *follower) pause() string {
	if next := f.run.Status.NextAttemptTime; next != nil {
		if wait := next.Sub(f.Clock.Now()); wait >= time.Second {
			return " in " + runs.Duration(wait.Round(time.Second))
		}
	}
	return ""
}

// because returns the reason in the status of a Run, ready to be appended to a sentence. What a script said itself on
// standard error has been shown already.
func because(run *corev1alpha1.Run) string {
	switch {
	case run.Status.Reason == "":
		return ""
	case run.Status.Reason == corev1alpha1.RunReasonScriptFailed && run.Status.ExitCode != nil:
		return fmt.Sprintf(" (%s, exit code %d)", run.Status.Reason, *run.Status.ExitCode)
	case run.Status.Message == "" || run.Status.Reason == corev1alpha1.RunReasonScriptFailed:
		return fmt.Sprintf(" (%s)", run.Status.Reason)
	}
	return fmt.Sprintf(" (%s: %s)", run.Status.Reason, run.Status.Message)
}
