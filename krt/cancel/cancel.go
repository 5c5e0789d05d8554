// Package cancel is the command "krt cancel": it asks for the end of Runs and WorkflowRuns.
package cancel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/krt/runs"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// options are the parsed command line.
type options struct {
	targets  []cli.Target
	all      bool
	selector string
	dryRun   cli.DryRun
	factory  *cli.Factory
}

const long = `Ask for the end of Runs or WorkflowRuns. A Run that waits ends at once; the processes of one that executes get SIGTERM and, after a
grace period, SIGKILL. Its phase is Cancelled then. A Run that has ended already stays as it is, which is no error.

A WorkflowRun starts no further step, its Runs are ended like that, and so are the WorkflowRuns of its calls. To cancel such a
one alone fails the job that called it.

"krt wait NAME" waits until it is over.`

const example = `  krt cancel nightly
  krt cancel run one two three
  krt cancel workflowrun ci
  krt cancel --all
  krt cancel -l team=data`

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f}
	cmd := &cobra.Command{
		Use:               "cancel [run|workflowrun] {NAME... | -l SELECTOR | --all}",
		Short:             "End Runs and WorkflowRuns",
		Long:              long,
		Example:           example,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: complete.Executions(f, isOpen, isOpenWorkflowRun),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := opts.complete(args); err != nil {
			return err
		}
		return runF(cmd.Context(), opts)
	}
	flags := cmd.Flags()
	flags.BoolVar(&opts.all, "all", false, "End all Runs of the namespace that have not ended")
	flags.StringVarP(&opts.selector, "selector", "l", "", "End those that have these labels, such as `KEY=VALUE`")
	cli.AddDryRunFlag(flags, &opts.dryRun, "Only say which Runs would be ended. The `mode` is client (nothing is sent), server (the cluster checks it) or none")
	complete.Flag(cmd, "dry-run", complete.Words(cli.DryRuns()...))
	return cmd
}

// complete checks that exactly one way of choosing Runs is used.
func (o *options) complete(args []string) error {
	if err := o.dryRun.CheckWords(args); err != nil {
		return err
	}
	if !o.all && o.selector == "" {
		var err error
		o.targets, err = cli.ParseExecutions(args)
		return err
	}
	switch {
	case len(args) == 1 && strings.HasPrefix(args[0], "w"):
		return cli.Usagef("-l and --all choose Runs only: name the WorkflowRuns to cancel")
	case len(args) > 1, len(args) == 1 && args[0] != "run" && args[0] != "runs":
		return cli.Usagef("give names, -l or --all, only one of them")
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return cli.Usagef("--selector %s: %w", o.selector, err)
	}
	return nil
}

func isOpen(run *corev1alpha1.Run) bool {
	return !run.Status.Phase.IsTerminal() && !run.Spec.CancelRequested
}

func isOpenWorkflowRun(run *workflowsv1alpha1.WorkflowRun) bool {
	return !run.Status.Phase.IsTerminal() && !run.Spec.CancelRequested
}

// execute does the work of the command: all Runs, and then the errors.
func execute(ctx context.Context, o *options) error {
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	if o.targets == nil {
		if o.targets, err = openRuns(ctx, c, namespace, o.selector); err != nil {
			return err
		}
		if len(o.targets) == 0 {
			fmt.Fprintf(o.factory.IO.ErrOut, "There is no Run to end in namespace %q.\n", namespace)
		}
	}
	var errs []error
	for _, target := range o.targets {
		if err := one(ctx, o, c, namespace, target); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// openRuns lists the Runs that have not ended, and whose end has not been asked for.
func openRuns(ctx context.Context, c client.Reader, namespace, selector string) ([]cli.Target, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, cli.Usagef("--selector %s: %w", selector, err)
	}
	targets := []cli.Target{}
	err = runs.Each(ctx, c, &client.ListOptions{Namespace: namespace, LabelSelector: parsed, FieldSelector: runs.Unfinished()}, func(run *corev1alpha1.Run) {
		if isOpen(run) {
			targets = append(targets, cli.Target{Kind: cli.KindRun, Name: run.Name})
		}
	})
	return targets, err
}

// one asks for the end of one Run or WorkflowRun and reports on it.
func one(ctx context.Context, o *options, c client.Client, namespace string, target cli.Target) error {
	phase, ended, err := look(ctx, c, namespace, target)
	if err != nil {
		return err
	}
	if ended {
		fmt.Fprintf(o.factory.IO.ErrOut, "krt: %s %s has ended already (%s)\n", target.Kind, target.Name, phase)
		return nil
	}
	said := "cancel requested"
	if o.dryRun != cli.DryRunNone {
		said = "would be cancelled (" + o.dryRun.Piece() + ")"
	}
	if o.dryRun == cli.DryRunServer {
		c = client.NewDryRunClient(c)
	}
	if o.dryRun != cli.DryRunClient {
		if err := request(ctx, c, namespace, target); err != nil {
			return fmt.Errorf("cancelling %s %s: %w", target.Kind, target.Name, err)
		}
	}
	_, err = fmt.Fprintf(o.factory.IO.Out, "%s/%s %s\n", target.Kind.Resource(), target.Name, said)
	return err
}

// look returns the phase of a target, and whether it has ended.
func look(ctx context.Context, c client.Reader, namespace string, target cli.Target) (phase string, ended bool, err error) {
	if target.Kind == cli.KindWorkflowRun {
		run, err := workflowruns.Get(ctx, c, namespace, target.Name)
		if err != nil {
			return "", false, err
		}
		return string(run.Status.Phase), run.Status.Phase.IsTerminal(), nil
	}
	run, err := runs.Get(ctx, c, namespace, target.Name)
	if err != nil {
		return "", false, err
	}
	return string(run.Status.Phase), run.Status.Phase.IsTerminal(), nil
}

func request(ctx context.Context, c client.Writer, namespace string, target cli.Target) error {
	if target.Kind == cli.KindWorkflowRun {
		return workflowruns.RequestCancel(ctx, c, namespace, target.Name)
	}
	return runs.RequestCancel(ctx, c, namespace, target.Name, runs.CancelOnly)
}
