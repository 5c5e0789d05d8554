package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
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
)

// requestPatience bounds each request that tidies up after a followed Run.
const requestPatience = 10 * time.Second

// sameInterrupt is how long after an interrupt another one counts as the same: shells, timeout(1) and others that run
// krt often send the signal to the process and to its group.
const sameInterrupt = 250 * time.Millisecond

// session is one Run that is created, followed and tidied up.
type session struct {
	*options
	client client.WithWatch
	logs   follow.PodLogs
	clock  clock.Clock
	sink   *follow.Sink

	// interrupted is set by the first ctrl-C, cancelled when the cluster has heard of it, left by the second.
	interrupted, cancelled, left atomic.Bool
	// warned tells that a person knows that the Runtime does not exist.
	warned atomic.Bool
	// created receives the Run once it exists.
	created chan *corev1alpha1.Run
}

// followRun creates the Run and follows it to its end, which becomes the exit code.
func followRun(ctx context.Context, o *options, c client.WithWatch, run *corev1alpha1.Run) error {
	clientset, err := o.factory.Clientset()
	if err != nil {
		return err
	}
	s := &session{
		options: o, client: c, logs: follow.ClusterLogs(clientset), clock: clock.RealClock{},
		sink:    &follow.Sink{Out: o.factory.IO.Out, Err: o.factory.IO.ErrOut, OneScreen: cli.OneScreen(o.factory.IO)},
		created: make(chan *corev1alpha1.Run, 1),
	}
	// Whoever reads the output may leave. As long as this signal is taken, writing says so, instead of ending krt at once.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	return s.do(ctx, run)
}

// do is the session from create to exit code.
func (s *session) do(ctx context.Context, run *corev1alpha1.Run) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	go s.handleInterrupts(ctx, leave, s.factory.Interrupts.Claim())

	if err := s.client.Create(ctx, run, client.FieldOwner("krt")); err != nil {
		if s.left.Load() {
			return s.leftBehind(nil)
		}
		return createHint(err, run)
	}
	s.created <- run
	s.talk("Run %s created in namespace %s", run.Name, run.Namespace)
	go s.warn(ctx, run)

	result, err := follow.Follow(ctx, follow.Options{
		Client: s.client, Logs: s.logs, Clock: s.clock, Sink: s.sink, Quiet: s.quiet, Run: run, Known: s.knows,
	})
	switch {
	case s.left.Load():
		return s.leftBehind(run)
	case errors.Is(err, syscall.EPIPE):
		return s.unread(ctx, result.Run)
	case err != nil:
		return s.followHint(fmt.Errorf("following Run %s: %w", run.Name, err), run)
	case result.Deleted && !s.interrupted.Load():
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
	code := runs.ExitCode(run)
	if s.interrupted.Load() {
		code = s.factory.Interrupts.ExitCode()
	}
	if code == cli.ExitOK {
		return nil
	}
	return &cli.ExitError{Code: code}
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
	case s.cancelled.Load() && s.remove:
		s.sink.Talk("left before the end of Run %s, which is being cancelled; the cluster deletes it after its end", run.Name)
	case s.cancelled.Load():
		s.sink.Talk("left before the end of Run %s, which is being cancelled", run.Name)
	case s.remove:
		s.sink.Talk("left before Run %[1]s was cancelled, and it stays; `kubectl delete run %[1]s -n %[2]s` ends and deletes it", run.Name, run.Namespace)
	default:
		s.sink.Talk("left before Run %[1]s was cancelled; do that with `%[2]s cancel %[1]s -n %[3]s`", run.Name, s.factory.Name, run.Namespace)
	}
	return &cli.ExitError{Code: s.factory.Interrupts.ExitCode()}
}

// handleInterrupts cancels the Run at the first ctrl-C and leaves at the second, whatever is going on.
func (s *session) handleInterrupts(ctx context.Context, leave context.CancelFunc, interrupts <-chan os.Signal) {
	var first os.Signal
	select {
	case <-ctx.Done():
		return
	case first = <-interrupts:
	}
	s.interrupted.Store(true)
	if first == os.Interrupt {
		s.sink.Talk("cancelling the Run; press ctrl-C again to leave at once")
	} else {
		s.sink.Talk("told to terminate: cancelling the Run; a second signal leaves at once")
	}
	cancelling, stop := context.WithCancel(ctx)
	defer stop()
	go s.cancelRun(cancelling)
	same := s.clock.After(sameInterrupt)
	for patient := true; patient; {
		select {
		case <-ctx.Done():
			return
		case <-interrupts:
		case <-same:
			patient = false
		}
	}
	select {
	case <-ctx.Done():
		return
	case <-interrupts:
	}
	s.left.Store(true)
	leave()
}

// cancelRun asks for the end of the Run as soon as it exists, and again until the cluster has heard it.
func (s *session) cancelRun(ctx context.Context) {
	var run *corev1alpha1.Run
	select {
	case <-ctx.Done():
		return
	case run = <-s.created:
	}
	for told := false; ; told = true {
		err := runs.RequestCancel(ctx, s.client, run.Namespace, run.Name, s.cancelMode())
		if err == nil {
			s.cancelled.Store(true)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if !told {
			s.sink.Talk("the cancellation could not be requested: %v", err)
		}
		if !cli.IsUnreachable(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(time.Second):
		}
	}
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
