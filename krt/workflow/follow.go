package workflow

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/stages"
	"kruntimes.io/kruntimes/krt/watch"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// requestPatience bounds the request that ends a WorkflowRun whose output nobody reads any more.
const requestPatience = 10 * time.Second

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
	// Taken says what to do where the name of the WorkflowRun is taken.
	Taken string

	// stages are what interrupts have done.
	stages *stages.Stages
}

// Do creates the WorkflowRun, follows it, and returns nil only if it succeeded. Where the reader of the output leaves, it
// asks for its end and returns at once; that takes cli.OutliveReaders.
func (s *Session) Do(ctx context.Context, run *workflowsv1alpha1.WorkflowRun) error {
	s.stages = &stages.Stages{Interrupts: s.Factory.Interrupts, Clock: s.Clock, Kind: cli.KindWorkflowRun, Talk: s.View.Say}
	ctx, end := s.stages.Begin(ctx)
	defer end()

	if err := s.Client.Create(ctx, run, client.FieldOwner("krt")); err != nil {
		if s.stages.Left.Load() {
			return s.leftBehind(nil)
		}
		return createHint(err, run, s.Taken)
	}
	s.stages.Created(func(ctx context.Context) error {
		return workflowruns.RequestCancel(ctx, s.Client, run.Namespace, run.Name)
	})
	if !s.Quiet {
		s.View.Say("WorkflowRun %s created in namespace %s", run.Name, run.Namespace)
	}
	last, err := s.follow(ctx, run)
	var deleted *watch.DeletedError
	switch {
	case s.stages.Left.Load():
		return s.leftBehind(run)
	case errors.Is(err, syscall.EPIPE):
		return s.unread(ctx, last)
	case errors.As(err, &deleted) && s.stages.Interrupted.Load():
		return &cli.ExitError{Code: s.Factory.Interrupts.ExitCode()}
	case errors.As(err, &deleted):
		return err
	case err != nil:
		return cli.WithHint(fmt.Errorf("following WorkflowRun %s: %w", run.Name, err), "the WorkflowRun goes on; `%s watch workflowrun %s -n %s` shows it again",
			s.Factory.Name, run.Name, run.Namespace)
	}
	return s.end(last)
}

func (s *Session) follow(ctx context.Context, run *workflowsv1alpha1.WorkflowRun) (workflowruns.Family, error) {
	if !s.Quiet {
		return s.View.Show(ctx, s.Client, s.Clock, run)
	}
	run, err := watch.Await(ctx, s.Client, s.Clock, run)
	if err != nil || workflowruns.ExitCode(run) == cli.ExitOK {
		return workflowruns.Alone(run), err
	}
	family, _ := workflowruns.Load(ctx, s.Client, run) // what failed inside of calls is told where it can be read
	return family, nil
}

// unread ends a session whose output nobody reads any more, as "krt run --follow" does with a Run.
func (s *Session) unread(ctx context.Context, family workflowruns.Family) error {
	run := family.Run
	if workflowruns.Phase(run).IsTerminal() {
		return s.end(family)
	}
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	err := workflowruns.RequestCancel(ctx, s.Client, run.Namespace, run.Name)
	switch {
	case err != nil:
		s.View.Say("nobody reads the output any more, and the cancellation of WorkflowRun %s could not be requested: %v", run.Name, err)
	case !s.Quiet:
		s.View.Say("nobody reads the output any more: WorkflowRun %s is being cancelled", run.Name)
	}
	return &cli.ExitError{Code: cli.SignalCode(syscall.SIGPIPE)}
}

// end tells what came of it, and makes the exit code: the same one when nobody reads what was written.
func (s *Session) end(family workflowruns.Family) error {
	run := family.Run
	err := workflowruns.WriteEnd(s.Factory.IO.Out, s.Factory.Name, family)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	code := s.stages.ExitCode(workflowruns.ExitCode(run))
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
	case s.stages.Cancelled.Load():
		s.View.Say("left before the end of WorkflowRun %s, which is being cancelled", run.Name)
	default:
		s.View.Say("left before WorkflowRun %[1]s was cancelled; do that with `%[2]s cancel workflowrun %[1]s -n %[3]s`", run.Name, s.Factory.Name, run.Namespace)
	}
	return &cli.ExitError{Code: s.Factory.Interrupts.ExitCode()}
}
