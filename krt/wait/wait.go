// Package wait is the command "krt wait": it waits until Runs or WorkflowRuns have come to a certain point.
package wait

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
)

// options are the parsed command line.
type options struct {
	targets []cli.Target
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

const long = `Wait until Runs or WorkflowRuns have come to a certain point:
  ended       whatever came of it (the default)
  succeeded   succeeded; ends with exit code 1 as soon as that cannot happen any more
  scheduled   has a Pod, or had one
  running     executes, or has executed
  deleted     does not exist any more

A WorkflowRun is scheduled and running from the start of its first step.

The exit code is 0 when all have come there, and 1 when one cannot any more or --timeout has passed.`

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f}
	cmd := &cobra.Command{
		Use:               "wait [run|workflowrun] NAME... [--for POINT] [--timeout DURATION]",
		Short:             "Wait for Runs and WorkflowRuns",
		Long:              long,
		Example:           "  krt wait nightly\n  krt wait one two --for succeeded --timeout 10m\n  krt wait workflowrun ci --for succeeded",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: complete.Executions(f, nil, nil),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if opts.targets, err = cli.ParseExecutions(args); err != nil {
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

// reached judges an existing Run or WorkflowRun by goal.
var reached = map[string]func(standing) verdict{
	goalEnded:     func(s standing) verdict { return when(s.ended, s) },
	goalSucceeded: func(s standing) verdict { return when(s.succeeded, s) },
	goalRunning:   func(s standing) verdict { return when(s.started, s) },
	goalScheduled: func(s standing) verdict { return when(s.scheduled, s) },
	goalDeleted:   func(standing) verdict { return notYet },
}

// when is the verdict for a goal that can still be reached before the end.
func when(there bool, s standing) verdict {
	switch {
	case there:
		return yes
	case s.ended:
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
	results := make(chan error, len(o.targets))
	for _, target := range o.targets {
		go func() { results <- one(waiting, o, c, namespace, target) }()
	}
	var errs []error
	for range o.targets {
		errs = append(errs, <-results)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// one waits for one Run or WorkflowRun and reports on it.
func one(ctx context.Context, o *options, c client.WithWatch, namespace string, target cli.Target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sights, err := look(ctx, c, namespace, target)
	if err != nil {
		if o.goal == goalDeleted && cli.IsMissing(err) {
			return report(o, target, "deleted")
		}
		return timedOut(ctx, o, target, err)
	}
	for sight := range sights {
		if sight.err != nil {
			return sight.err
		}
		if sight.lost != nil {
			fmt.Fprintf(o.factory.IO.ErrOut, "krt: the connection to the cluster is lost, trying again: %v\n", sight.lost)
			continue
		}
		verdict := reached[o.goal](sight.standing)
		switch {
		case verdict == yes:
			return report(o, target, sight.phase)
		case verdict == never:
			return fmt.Errorf("%s %s did not %s: %s", target.Kind, target.Name, aims[o.goal], sight.ending)
		case sight.deleted && o.goal == goalDeleted:
			return report(o, target, "deleted")
		case sight.deleted:
			return fmt.Errorf("%s %s was deleted before it could %s", target.Kind, target.Name, aims[o.goal])
		}
	}
	return timedOut(ctx, o, target, ctx.Err())
}

// timedOut puts the end of a context into words.
func timedOut(ctx context.Context, o *options, target cli.Target, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &cli.ExitError{Code: cli.ExitFailed, Err: fmt.Errorf("timed out after %s waiting for %s %s to %s", o.timeout, target.Kind, target.Name, aims[o.goal])}
	}
	return err
}

func report(o *options, target cli.Target, state string) error {
	_, err := fmt.Fprintf(o.factory.IO.Out, "%s/%s %s\n", target.Kind.Resource(), target.Name, state)
	return err
}
