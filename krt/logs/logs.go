// Package logs is the command "krt logs": the output of a Run, as its script wrote it, or of the steps of a WorkflowRun.
package logs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/krt/follow"
	"kruntimes.io/kruntimes/krt/runs"
)

// options are the parsed command line.
type options struct {
	// workflowRun tells that name is that of a WorkflowRun.
	workflowRun bool
	name        string
	// job and step choose among the steps of a WorkflowRun. Empty: all.
	job, step string
	follow    bool
	// tail is how many lines are shown; nil means all.
	tail       *int
	since      time.Duration
	timestamps bool
	factory    *cli.Factory
}

// endingWidth bounds what is said about the end of an earlier attempt.
const endingWidth = 120

const long = `Show the output of a Run, byte for byte: what it wrote to stdout on stdout, and to stderr on stderr.

The output is in the log of the Pod that executed the Run, and lives as long as that Pod and its log. Of a Run that was
tried several times, the present or last attempt is shown; while it waits for the next one, the one before. With -f, krt
waits for a Run that has not started, goes on to its end, and says when output may be missing.

Of a WorkflowRun, the lines of all steps are shown, each behind the names of its job and step: job/step, job/step/step for
the steps of a called Action, and job/job/step inside of a called Workflow. Without -f, one step comes after the other; with
-f, all that execute at the same time. --tail counts for each step.`

const example = `  krt logs nightly
  krt logs nightly -f
  krt logs nightly --tail 20 --timestamps
  krt logs nightly 2>/dev/null
  krt logs workflowrun ci -f
  krt logs workflowrun ci --job build --step test`

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = func(ctx context.Context, o *options) error {
			if o.workflowRun {
				return executeWorkflowRun(ctx, o)
			}
			return execute(ctx, o)
		}
	}
	opts := &options{factory: f}
	cmd := &cobra.Command{
		Use:               "logs [run|workflowrun] NAME",
		Short:             "Show the output of a Run or WorkflowRun",
		Long:              long,
		Example:           example,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: complete.OneExecution(f),
	}
	tail := ""
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		targets, err := cli.ParseExecutions(args)
		if err != nil {
			return err
		}
		if len(targets) > 1 {
			return cli.Usagef("one %s at a time, but there are %d names", targets[0].Kind, len(targets))
		}
		opts.name, opts.workflowRun = targets[0].Name, targets[0].Kind == cli.KindWorkflowRun
		if !opts.workflowRun && (opts.job != "" || opts.step != "") {
			return cli.Usagef("--job and --step choose among the steps of a WorkflowRun: write workflowrun/%s if that is one", opts.name)
		}
		if opts.tail, err = parseTail(tail); err != nil {
			return err
		}
		return runF(cmd.Context(), opts)
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.job, "job", "", "Of a WorkflowRun: show only the steps of the job of this `name`")
	flags.StringVar(&opts.step, "step", "", "Of a WorkflowRun: show only steps of this `name`, also inside of calls and Actions")
	complete.Flag(cmd, "job", complete.JobsOf(f))
	complete.Flag(cmd, "step", complete.StepsOf(f))
	flags.BoolVarP(&opts.follow, "follow", "f", false, "Go on until the end")
	flags.StringVar(&tail, "tail", "all", "Show only the last `n` lines of what there is")
	cli.DurationVar(flags, &opts.since, "since", "Show only lines of the last `duration`, such as 5m")
	flags.BoolVar(&opts.timestamps, "timestamps", false, "Put its time before every line")
	return cmd
}

// parseTail returns the number of lines, or nil for all.
func parseTail(s string) (*int, error) {
	if s == "all" || s == "-1" {
		return nil, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return nil, cli.Usagef("--tail %s: must be a number of lines, or all", s)
	}
	return &n, nil
}

// execute does the work of the command.
func execute(ctx context.Context, o *options) error {
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	clientset, err := o.factory.Clientset()
	if err != nil {
		return err
	}
	run, err := runs.Get(ctx, c, namespace, o.name)
	if err != nil {
		return err
	}
	sink := &follow.Sink{Out: o.factory.IO.Out, Err: o.factory.IO.ErrOut, Timestamps: o.timestamps,
		OneScreen: cli.OneScreen(o.factory.IO)}
	if o.since > 0 {
		sink.Since = o.factory.Now().Add(-o.since)
	}
	return show(ctx, o, follow.Options{
		Client: c, Logs: follow.ClusterLogs(clientset), Clock: clock.RealClock{}, Sink: sink, Tail: o.tail, Run: run,
	})
}

// show delivers the output, and puts into words why there is none.
func show(ctx context.Context, o *options, f follow.Options) error {
	if o.follow {
		result, err := follow.Follow(ctx, f)
		switch {
		case err != nil:
			return err
		case result.Deleted:
			return fmt.Errorf("the Run %s was deleted before its end was seen", f.Run.Name)
		}
		return nil
	}
	err := follow.Read(ctx, f)
	var noEnd *follow.NoEndError
	var gone *follow.PodGoneError
	switch {
	case errors.Is(err, follow.ErrNoAttempt):
		return showEarlier(ctx, o, f)
	case errors.As(err, &noEnd):
		f.Sink.Talk("warning: %v", err)
		return nil
	case errors.As(err, &gone):
		return cli.WithHint(err, "`%s describe run %s -n %s` shows what the Run left in its status", o.factory.Name, f.Run.Name, f.Run.Namespace)
	}
	return err
}

// showEarlier delivers the output of the last attempt of a Run that has no Pod, or says why there is none.
func showEarlier(ctx context.Context, o *options, f follow.Options) error {
	number, found, err := follow.ReadEarlier(ctx, f)
	switch {
	case apierrors.IsForbidden(err):
		return noOutput(o.factory, f.Run) // who may read the log of a Pod that is known need not be allowed to list them
	case err != nil:
		return err
	case !found:
		return noOutput(o.factory, f.Run)
	case f.Run.Status.Phase.IsTerminal():
		f.Sink.Talk("this was attempt %d; the Run ended (%s) before attempt %d got a Pod", number, f.Run.Status.Phase, number+1)
	default:
		f.Sink.Talk("attempt %s; attempt %d waits: %s",
			cli.OneLine(runs.LastAttempt(f.Run), endingWidth), number+1, follow.Waiting(f.Run, time.Hour))
	}
	return nil
}

// noOutput says why a Run without a Pod has no output.
func noOutput(f *cli.Factory, run *corev1alpha1.Run) error {
	if attempt := run.CurrentAttempt(); attempt > 1 {
		return betweenAttempts(f, run, attempt)
	}
	if run.Status.Phase.IsTerminal() {
		return fmt.Errorf("the Run %s has no output: it ended (%s) before it got a Pod", run.Name, run.Status.Phase)
	}
	why := follow.Waiting(run, time.Hour)
	return cli.WithHint(fmt.Errorf("the Run %s has no output yet; it waits: %s", run.Name, why),
		"`%s logs %s -f -n %s` waits for it", f.Name, run.Name, run.Namespace)
}

// betweenAttempts says why a Run that was handed back has no output: its status does not name the Pod any more in which
// the attempt before was made.
func betweenAttempts(f *cli.Factory, run *corev1alpha1.Run, attempt int32) error {
	if run.Status.Phase.IsTerminal() {
		return fmt.Errorf("the last attempt of the Run %s has no output: the Run ended (%s) before attempt %d got a Pod",
			run.Name, run.Status.Phase, attempt)
	}
	return cli.WithHint(fmt.Errorf("attempt %d of the Run %s has no output yet; it waits: %s; attempt %s",
		attempt, run.Name, follow.Waiting(run, time.Hour), cli.OneLine(runs.LastAttempt(run), endingWidth)),
		"`%s logs %s -f -n %s` waits for it", f.Name, run.Name, run.Namespace)
}
