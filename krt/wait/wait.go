// Package wait is the command "krt wait": it waits until Runs have come to a certain point.
package wait

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/krt/follow"
	"kruntimes.io/kruntimes/krt/runs"
)

// options are the parsed command line.
type options struct {
	names   []string
	goal    string
	timeout time.Duration
	factory *cli.Factory
}

// The points that can be waited for.
const (
	goalEnded     = "ended"
	goalSucceeded = "succeeded"
	goalRunning   = "running"
	goalScheduled = "scheduled"
	goalDeleted   = "deleted"
)

const long = `Wait until Runs have come to a certain point:
  ended       whatever came of it (the default)
  succeeded   succeeded; ends with exit code 1 as soon as that cannot happen any more
  scheduled   has a Pod, or had one
  running     executes, or has executed
  deleted     does not exist any more

The exit code is 0 when all Runs have come there, and 1 when one cannot any more or --timeout has passed.`

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f}
	cmd := &cobra.Command{
		Use:               "wait [run] NAME... [--for POINT] [--timeout DURATION]",
		Short:             "Wait for Runs",
		Long:              long,
		Example:           "  krt wait nightly\n  krt wait one two --for succeeded --timeout 10m",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: complete.Runs(f, nil),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if opts.names, err = cli.ParseRuns(args); err != nil {
			return err
		}
		opts.goal = strings.ToLower(strings.TrimPrefix(opts.goal, "condition="))
		if _, ok := reached[opts.goal]; !ok {
			return cli.WithHint(cli.Usagef("--for %s: there is no such point", opts.goal),
				"the points are: ended, succeeded, scheduled, running, deleted")
		}
		return runF(cmd.Context(), opts)
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.goal, "for", goalEnded, "The `point` to wait for: ended, succeeded, scheduled, running, deleted")
	cli.DurationVar(flags, &opts.timeout, "timeout", "Give up after this `duration` (default: never)")
	complete.Flag(cmd, "for", complete.Words(goalEnded, goalSucceeded, goalScheduled, goalRunning, goalDeleted))
	return cmd
}

// aims are the points as a sentence calls them: waiting for a Run to ….
var aims = map[string]string{
	goalEnded: "end", goalSucceeded: "succeed", goalRunning: "start", goalScheduled: "get a Pod", goalDeleted: "be deleted",
}

// verdict is what the sight of a Run means for a goal.
type verdict int

const (
	notYet verdict = iota
	yes
	never
)

// reached judges an existing Run by goal.
var reached = map[string]func(*corev1alpha1.Run) verdict{
	goalEnded:     func(r *corev1alpha1.Run) verdict { return when(r.Status.Phase.IsTerminal(), r) },
	goalSucceeded: func(r *corev1alpha1.Run) verdict { return when(r.Status.Phase == corev1alpha1.RunSucceeded, r) },
	goalRunning: func(r *corev1alpha1.Run) verdict {
		return when(r.Status.Phase == corev1alpha1.RunRunning || (r.Status.Phase.IsTerminal() && r.Status.StartTime != nil), r)
	},
	goalScheduled: func(r *corev1alpha1.Run) verdict { return when(r.Status.AssignedPod != "", r) },
	goalDeleted:   func(*corev1alpha1.Run) verdict { return notYet },
}

// when is the verdict for a goal that an unfinished Run can still reach.
func when(there bool, run *corev1alpha1.Run) verdict {
	switch {
	case there:
		return yes
	case run.Status.Phase.IsTerminal():
		return never
	}
	return notYet
}

// execute does the work of the command: all Runs at the same time, and then the errors.
func execute(ctx context.Context, o *options) error {
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	waiting := ctx
	if o.timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	results := make(chan error, len(o.names))
	for _, name := range o.names {
		go func() { results <- one(waiting, o, c, client.ObjectKey{Namespace: namespace, Name: name}) }()
	}
	var errs []error
	for range o.names {
		errs = append(errs, <-results)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// one waits for one Run and reports on it.
func one(ctx context.Context, o *options, c client.WithWatch, key client.ObjectKey) error {
	run, err := runs.Get(ctx, c, key.Namespace, key.Name)
	if err != nil {
		if o.goal == goalDeleted && cli.IsMissing(err) {
			return report(o, key.Name, "deleted")
		}
		return timedOut(ctx, o, key.Name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for sight := range follow.Track(ctx, c, clock.RealClock{}, run) {
		if sight.Err != nil {
			return sight.Err
		}
		if sight.Lost != nil {
			fmt.Fprintf(o.factory.IO.ErrOut, "krt: the connection to the cluster is lost, trying again: %v\n", sight.Lost)
			continue
		}
		verdict := reached[o.goal](sight.Object)
		switch {
		case verdict == yes:
			return report(o, key.Name, string(sight.Object.Status.Phase))
		case verdict == never:
			return fmt.Errorf("Run %s did not %s: %s", key.Name, aims[o.goal], runs.Ending(sight.Object))
		case sight.Deleted && o.goal == goalDeleted:
			return report(o, key.Name, "deleted")
		case sight.Deleted:
			return fmt.Errorf("Run %s was deleted before it could %s", key.Name, aims[o.goal])
		}
	}
	return timedOut(ctx, o, key.Name, ctx.Err())
}

// timedOut puts the end of a context into words.
func timedOut(ctx context.Context, o *options, name string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &cli.ExitError{Code: cli.ExitFailed, Err: fmt.Errorf("timed out after %s waiting for Run %s to %s", o.timeout, name, aims[o.goal])}
	}
	return err
}

func report(o *options, name, state string) error {
	_, err := fmt.Fprintf(o.factory.IO.Out, "run.kruntimes.io/%s %s\n", name, state)
	return err
}
