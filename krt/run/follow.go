package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/follow"
	"kruntimes.io/kruntimes/krt/runs"
	"kruntimes.io/kruntimes/krt/stages"
)

// requestPatience bounds each request that tidies up after a followed Run.
const requestPatience = 10 * time.Second

// session is one Run that is created, followed and tidied up.
type session struct {
	*options
	client client.WithWatch
	logs   follow.PodLogs
	clock  clock.Clock
	sink   *follow.Sink

	// stages are what interrupts have done.
	stages *stages.Stages
	// warned tells that a person knows that the Runtime does not exist.
	warned atomic.Bool
}

// followRun creates the Run and follows it to its end, which becomes the exit code.
func followRun(ctx context.Context, o *options, c client.WithWatch, run *corev1alpha1.Run) error {
	clientset, err := o.factory.Clientset()
	if err != nil {
		return err
	}
	s := &session{
		options: o, client: c, logs: follow.ClusterLogs(clientset), clock: clock.RealClock{},
		sink: &follow.Sink{Out: o.factory.IO.Out, Err: o.factory.IO.ErrOut, OneScreen: cli.OneScreen(o.factory.IO)},
	}
	defer cli.OutliveReaders()()
	return s.do(ctx, run)
}

// do is the session from create to exit code.
func (s *session) do(ctx context.Context, run *corev1alpha1.Run) error {
	s.stages = &stages.Stages{Interrupts: s.factory.Interrupts, Clock: s.clock, Kind: cli.KindRun, Talk: s.sink.Talk}
	ctx, end := s.stages.Begin(ctx)
	defer end()

	if err := s.client.Create(ctx, run, client.FieldOwner("krt")); err != nil {
		if s.stages.Left.Load() {
			return s.leftBehind(nil)
		}
		return createHint(err, run)
	}
	s.stages.Created(func(ctx context.Context) error {
		return runs.RequestCancel(ctx, s.client, run.Namespace, run.Name, s.cancelMode())
	})
	s.talk("Run %s created in namespace %s", run.Name, run.Namespace)
	go s.warn(ctx, run)

	result, err := follow.Follow(ctx, follow.Options{
		Client: s.client, Logs: s.logs, Clock: s.clock, Sink: s.sink, Quiet: s.quiet, Run: run, Known: s.knows,
	})
	switch {
	case s.stages.Left.Load():
		return s.leftBehind(run)
	case errors.Is(err, syscall.EPIPE):
		return s.unread(ctx, result.Run)
	case err != nil:
		return s.followHint(fmt.Errorf("following Run %s: %w", run.Name, err), run)
	case result.Deleted && !s.stages.Interrupted.Load():
		return fmt.Errorf("the Run %s was deleted before its end was seen", run.Name)
	}
	return s.end(ctx, result.Run)
}

// followHint says what becomes of a Run that cannot be followed any more. Who may not watch would meet the same refusal.
func (s *session) followHint(err error, run *corev1alpha1.Run) error {
	rest := ""
	if s.remove {
		rest = ", and is not deleted"
	}
	if apierrors.IsForbidden(err) {
		return cli.WithHint(err, "the Run goes on%[1]s; to follow it takes the right to watch Runs. `%[2]s logs %[3]s -n %[4]s` and `%[2]s get run %[3]s -n %[4]s` do without",
			rest, s.factory.Name, run.Name, run.Namespace)
	}
	return cli.WithHint(err, "the Run goes on%s; `%s logs %s -f -n %s` follows it again", rest, s.factory.Name, run.Name, run.Namespace)
}

// unread ends a session whose output nobody reads any more. A script that were piped itself would end at its next line;
// so does the Run.
func (s *session) unread(ctx context.Context, run *corev1alpha1.Run) error {
	if run.Status.Phase.IsTerminal() {
		return s.end(ctx, run)
	}
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	err := runs.RequestCancel(ctx, s.client, run.Namespace, run.Name, s.cancelMode())
	if err != nil {
		s.sink.Talk("nobody reads the output any more, and the cancellation of Run %s could not be requested: %v", run.Name, err)
	} else {
		s.talk("nobody reads the output any more: Run %s is being cancelled", run.Name)
	}
	return &cli.ExitError{Code: cli.SignalCode(syscall.SIGPIPE)}
}

// cancelMode says what to ask for together with the end of the Run: krt may not be there any more to delete it.
func (s *session) cancelMode() runs.CancelMode {
	if s.remove {
		return runs.CancelAndDelete
	}
	return runs.CancelOnly
}

// end tells how the Run ended, tidies up, and makes the exit code.
func (s *session) end(ctx context.Context, run *corev1alpha1.Run) error {
	if run.Status.Phase.IsTerminal() {
		s.tellEnd(run)
	}
	if s.remove {
		ctx, cancel := context.WithTimeout(ctx, requestPatience)
		defer cancel()
		if err := runs.Delete(ctx, s.client, run); err != nil {
			s.sink.Talk("warning: the Run could not be deleted: %v", err)
		}
	}
	if code := s.stages.ExitCode(runs.ExitCode(run)); code != cli.ExitOK {
		return &cli.ExitError{Code: code}
	}
	return nil
}

// tellEnd tells how the Run ended: a failure always, with what of its message the script has not printed itself.
func (s *session) tellEnd(run *corev1alpha1.Run) {
	if run.Status.Phase == corev1alpha1.RunSucceeded && s.quiet {
		return
	}
	text := runs.Outcome(run)
	if unsaid := runs.Unsaid(run); unsaid != "" {
		for line := range strings.SplitSeq(unsaid, "\n") {
			text += "\n     " + cli.Visible(line)
		}
	}
	if hint := commandHint(run); hint != "" {
		text += "\nhint: " + hint
	}
	if !s.quiet {
		for _, name := range slices.Sorted(maps.Keys(run.Status.Outputs)) {
			text += fmt.Sprintf("\n     output %s=%s", name, cli.OneLine(string(run.Status.Outputs[name]), 80))
		}
	}
	s.sink.Talk("%s", text)
}

// commandHint says what to do about a command of several words that was written as one.
func commandHint(run *corev1alpha1.Run) string {
	task := run.Spec.Mode.Task
	if run.Status.Phase != corev1alpha1.RunFailed || run.Status.StartTime != nil || run.Spec.Source != nil || task == nil ||
		len(task.Args) == 0 || !strings.ContainsAny(task.Args[0], " \t\n") {
		return ""
	}
	return "no shell takes a command apart: write each word by itself, or -- sh -c " + runs.Quote(task.Args[0])
}

// leftBehind tells a person who leaves at once what they leave.
func (s *session) leftBehind(run *corev1alpha1.Run) error {
	switch {
	case run == nil:
		s.sink.Talk("left while the Run was being created; it may exist")
	case s.stages.Cancelled.Load() && s.remove:
		s.sink.Talk("left before the end of Run %s, which is being cancelled; the cluster deletes it after its end", run.Name)
	case s.stages.Cancelled.Load():
		s.sink.Talk("left before the end of Run %s, which is being cancelled", run.Name)
	case s.remove:
		s.sink.Talk("left before Run %[1]s was cancelled, and it stays; `kubectl delete run %[1]s -n %[2]s` ends and deletes it", run.Name, run.Namespace)
	default:
		s.sink.Talk("left before Run %[1]s was cancelled; do that with `%[2]s cancel %[1]s -n %[3]s`", run.Name, s.factory.Name, run.Namespace)
	}
	return &cli.ExitError{Code: s.factory.Interrupts.ExitCode()}
}

func (s *session) talk(format string, args ...any) {
	if !s.quiet {
		s.sink.Talk(format, args...)
	}
}

// warn tells about a missing Runtime, unless the Run waits for something else.
func (s *session) warn(ctx context.Context, run *corev1alpha1.Run) {
	if text := missingRuntime(ctx, s.client, run); text != "" && ctx.Err() == nil {
		s.warned.Store(true)
		s.sink.Talk("%s", text)
	}
}

// knows tells whether a person has been told already about what a Run waits for.
func (s *session) knows(reason string) bool {
	return reason == corev1alpha1.ReasonRuntimeNotFound && s.warned.Load()
}
