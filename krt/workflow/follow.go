package workflow

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/watch"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// sameInterrupt is how long after an interrupt another one counts as the same: shells, timeout(1) and others that run
// krt often send the signal to the process and to its group.
const sameInterrupt = 250 * time.Millisecond

// Session is one WorkflowRun that is created and followed to its end.
type Session struct {
	// Factory gives streams, clock and interrupts.
	Factory *cli.Factory
	// Client creates, watches and cancels.
	Client client.WithWatch
	// View shows what becomes of it.
	View *watch.View
	// Clock measures waits.
	Clock clock.WithTicker
	// Quiet leaves out the view and the talk about what goes well.
	Quiet bool

	// interrupted is set by the first ctrl-C, cancelled when the cluster has heard of it, left by the second.
	interrupted, cancelled, left atomic.Bool
	// created receives the WorkflowRun once it exists.
	created chan *workflowsv1alpha1.WorkflowRun
}

// createAndFollow creates the WorkflowRun and follows it to its end, which becomes the exit code.
func (o *options) createAndFollow(ctx context.Context, c client.WithWatch, run *workflowsv1alpha1.WorkflowRun) error {
	s := &Session{Factory: o.factory, Client: c, View: watch.NewView(o.factory, o.noTTY), Clock: clock.RealClock{}, Quiet: o.quiet}
	return s.Do(ctx, run)
}

// Do creates the WorkflowRun, follows it, and returns nil only if it succeeded.
func (s *Session) Do(ctx context.Context, run *workflowsv1alpha1.WorkflowRun) error {
	s.created = make(chan *workflowsv1alpha1.WorkflowRun, 1)
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stop := s.handleInterrupts(ctx, leave)
	defer stop()

	if err := s.Client.Create(ctx, run, client.FieldOwner("krt")); err != nil {
		if s.left.Load() {
			return s.leftBehind(nil)
		}
		return createHint(err, run)
	}
	s.created <- run
	if !s.Quiet {
		s.View.Say("WorkflowRun %s created in namespace %s", run.Name, run.Namespace)
	}
	last, err := s.follow(ctx, run)
	var deleted *watch.DeletedError
	switch {
	case s.left.Load():
		return s.leftBehind(run)
	case errors.As(err, &deleted) && s.interrupted.Load():
		return &cli.ExitError{Code: cli.ExitInterrupted}
	case errors.As(err, &deleted):
		return err
	case err != nil:
		return cli.WithHint(fmt.Errorf("following WorkflowRun %s: %w", run.Name, err), "the WorkflowRun goes on; `%s watch workflowrun %s -n %s` shows it again",
			s.Factory.Name, run.Name, run.Namespace)
	}
	return s.end(last)
}

func (s *Session) follow(ctx context.Context, run *workflowsv1alpha1.WorkflowRun) (*workflowsv1alpha1.WorkflowRun, error) {
	if s.Quiet {
		return watch.Await(ctx, s.Client, s.Clock, run)
	}
	return s.View.Show(ctx, s.Client, s.Clock, run)
}

// end tells what came of it, and makes the exit code.
func (s *Session) end(run *workflowsv1alpha1.WorkflowRun) error {
	workflowruns.WriteEnd(s.Factory.IO.Out, run)
	code := workflowruns.ExitCode(run)
	if s.interrupted.Load() {
		code = cli.ExitInterrupted
	}
	if code == cli.ExitOK {
		return nil
	}
	s.View.Say("%s", workflowruns.Outcome(run, s.Factory.Now()))
	return &cli.ExitError{Code: code}
}

// leftBehind tells a person who leaves at once what they leave.
func (s *Session) leftBehind(run *workflowsv1alpha1.WorkflowRun) error {
	switch {
	case run == nil:
		s.View.Say("left while the WorkflowRun was being created; it may exist")
	case s.cancelled.Load():
		s.View.Say("left before the end of WorkflowRun %s, which is being cancelled", run.Name)
	default:
		s.View.Say("left before WorkflowRun %[1]s was cancelled; do that with `%[2]s cancel workflowrun %[1]s -n %[3]s`", run.Name, s.Factory.Name, run.Namespace)
	}
	return &cli.ExitError{Code: cli.ExitInterrupted}
}

// handleInterrupts cancels the WorkflowRun at the first ctrl-C and leaves at the second, whatever is going on. It ends
// with ctx; the function returned waits for that.
func (s *Session) handleInterrupts(ctx context.Context, leave context.CancelFunc) (wait func()) {
	interrupts, ended := s.Factory.Interrupts.Claim(), make(chan struct{})
	next := func(until <-chan time.Time) (interrupted, goOn bool) {
		select {
		case <-ctx.Done():
			return false, false
		case <-interrupts:
			return true, true
		case <-until:
			return false, true
		}
	}
	go func() {
		defer close(ended)
		if _, goOn := next(nil); !goOn {
			return
		}
		s.interrupted.Store(true)
		s.View.Say("cancelling the WorkflowRun; press ctrl-C again to leave at once")
		go s.cancelRun(ctx)
		for same := s.Clock.After(sameInterrupt); ; {
			again, goOn := next(same)
			if !goOn {
				return
			}
			if !again {
				break
			}
		}
		if _, goOn := next(nil); goOn {
			s.left.Store(true)
			leave()
		}
	}()
	return func() {
		leave()
		<-ended
	}
}

// cancelRun asks for the end of the WorkflowRun as soon as it exists, and again until the cluster has heard it.
func (s *Session) cancelRun(ctx context.Context) {
	var run *workflowsv1alpha1.WorkflowRun
	select {
	case <-ctx.Done():
		return
	case run = <-s.created:
	}
	for told := false; ; told = true {
		err := workflowruns.RequestCancel(ctx, s.Client, run.Namespace, run.Name)
		if err == nil {
			s.cancelled.Store(true)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if !told {
			s.View.Say("the cancellation could not be requested: %v", err)
		}
		if !cli.IsUnreachable(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.Clock.After(time.Second):
		}
	}
}
