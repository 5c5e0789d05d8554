// Package watch is the command "krt watch": a live view of a WorkflowRun, which other commands show as well.
package watch

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// options are the parsed command line.
type options struct {
	name    string
	noTTY   bool
	factory *cli.Factory
}

const long = `Show what becomes of a WorkflowRun until it has ended: on a terminal as a tree of its jobs and steps that is drawn anew
in its place, elsewhere or with --no-tty as one line for each change. Of a job that calls a Workflow, the jobs inside are
shown as well; of a step that calls an Action, the steps inside.

Watching changes nothing: ctrl-C ends the view, not the WorkflowRun. The exit code is 0 whatever came of it; "krt wait
workflowrun NAME --for succeeded" tells by its exit code.`

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f}
	cmd := &cobra.Command{
		Use:               "watch [workflowrun] NAME",
		Short:             "Show a WorkflowRun live",
		Long:              long,
		Example:           "  krt watch workflowrun ci\n  krt watch ci --no-tty",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: complete.OneOf("workflowrun", complete.WorkflowRuns(f, nil)),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := cli.ParseWorkflowRun(args)
		if err != nil {
			return err
		}
		opts.name = name
		return runF(cmd.Context(), opts)
	}
	cmd.Flags().BoolVar(&opts.noTTY, "no-tty", false, "Print one line for each change, also on a terminal")
	return cmd
}

// NewView returns the view for the streams of a factory. plain asks for lines also on a terminal.
func NewView(f *cli.Factory, plain bool) *View {
	v := &View{Out: f.IO.Out, Talk: f.IO.ErrOut, Terminal: f.Terminal(f.IO.Out), Now: f.Now}
	if plain {
		v.Terminal.Live = false
	}
	return v
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
	run, err := workflowruns.Get(ctx, c, namespace, o.name)
	if err != nil {
		return err
	}
	view := NewView(o.factory, o.noTTY)
	family, err := view.Show(ctx, c, clock.RealClock{}, run)
	if err != nil {
		return err
	}
	return workflowruns.WriteEnd(o.factory.IO.Out, o.factory.Name, family)
}
