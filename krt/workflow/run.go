package workflow

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
)

// options are the parsed command line of "krt workflow run".
type options struct {
	file    string
	name    string
	follow  bool
	noTTY   bool
	quiet   bool
	dryRun  cli.DryRun
	print   *genericclioptions.PrintFlags
	factory *cli.Factory
}

const long = `Create the WorkflowRuns of a file. It is checked first as "krt lint" does, without the cluster: where something is wrong,
nothing is created.

The name of each new WorkflowRun is printed. With --follow there may be one only, which is shown as "krt watch" does
until it has ended, with what failed first and the outputs below.

Exit codes with --follow:
  0     it succeeded
  1     it failed
  130   it was cancelled, or krt was interrupted; 143 krt was told to terminate
  141   nobody reads the output any more, as in "krt workflow run … | head"

The first ctrl-C cancels the WorkflowRun and keeps following it to its end; the second leaves at once. A reader of the output
who leaves cancels it as well.`

const example = `  krt workflow run -f examples/ci.yaml --follow
  krt workflow run -f examples/ci.yaml --name ci-2
  generate | krt wf run -f -
  krt workflow run -f examples/ci.yaml --dry-run=server -o yaml`

func newRun(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f, print: genericclioptions.NewPrintFlags("created").WithTypeSetter(cli.NewScheme())}
	cmd := &cobra.Command{
		Use: "run -f FILE", Short: "Create WorkflowRuns from a file", Long: long, Example: example, Args: cli.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := opts.validate(); err != nil {
			return err
		}
		return runF(cmd.Context(), opts)
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.file, "file", "f", "", "Create the WorkflowRuns in this `file`; - reads standard input")
	flags.StringVar(&opts.name, "name", "", "Give the WorkflowRun this `name` instead of the one in the file")
	flags.BoolVar(&opts.follow, "follow", false, "Show what becomes of it until its end, and end with 0 only if it succeeded")
	flags.BoolVar(&opts.noTTY, "no-tty", false, "With --follow: print one line for each change, also on a terminal")
	flags.BoolVarP(&opts.quiet, "quiet", "q", false, "With --follow: show failures and outputs only. Else: print nothing")
	cli.AddDryRunFlag(flags, &opts.dryRun, "Print the WorkflowRuns instead of creating them. The `mode` is client (nothing is sent), server (the cluster checks them) or none")
	cli.AddPrintFlags(cmd, opts.print)
	complete.Flag(cmd, "dry-run", complete.Words(cli.DryRuns()...))
	return cmd
}

// validate checks what can be checked without reading anything.
func (o *options) validate() error {
	switch {
	case o.file == "":
		return cli.WithHint(cli.Usagef("--file is missing"), "an example is in examples/ci.yaml of the sources")
	case o.dryRun != cli.DryRunNone && o.follow:
		return cli.Usagef("--dry-run creates nothing, so there is nothing to --follow")
	case o.follow && *o.print.OutputFormat != "":
		return cli.Usagef("--follow shows what becomes of the WorkflowRun, so -o cannot be given as well")
	}
	return nil
}

// execute does the work of the command.
func execute(ctx context.Context, o *options) error {
	found, err := readRuns(ctx, o.factory, o.file)
	if err != nil {
		return err
	}
	if (o.follow || o.name != "") && len(found) > 1 {
		return cli.Usagef("%s holds %d WorkflowRuns, and --follow and --name are for one", o.file, len(found))
	}
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	for _, run := range found {
		if err := place(run, namespace, set(o.factory.ConfigFlags.Namespace)); err != nil {
			return err
		}
		if o.name != "" {
			run.Name, run.GenerateName = o.name, ""
		}
	}
	if o.dryRun == cli.DryRunClient {
		return o.printAll(found)
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	if o.follow {
		return o.createAndFollow(ctx, c, found[0])
	}
	return o.createAll(ctx, c, found)
}

func set(s *string) bool { return s != nil && *s != "" }

// place decides in which namespace the WorkflowRun is created. One in the file wins over that of the kubeconfig, but does
// not contradict a flag.
func place(run *workflowsv1alpha1.WorkflowRun, namespace string, byFlag bool) error {
	if run.Namespace != "" && run.Namespace != namespace && byFlag {
		return cli.Usagef("the WorkflowRun %s belongs to namespace %q, and --namespace says %q", run.Name, run.Namespace, namespace)
	}
	if run.Namespace == "" {
		run.Namespace = namespace
	}
	return nil
}

// createAll creates all, and reports on each.
func (o *options) createAll(ctx context.Context, c client.Client, found []*workflowsv1alpha1.WorkflowRun) error {
	opts := []client.CreateOption{client.FieldOwner("krt")}
	if o.dryRun == cli.DryRunServer {
		opts = append(opts, client.DryRunAll)
	}
	var created []*workflowsv1alpha1.WorkflowRun
	var errs []error
	for _, run := range found {
		if err := c.Create(ctx, run, opts...); err != nil {
			errs = append(errs, createHint(err, run))
			continue
		}
		created = append(created, run)
	}
	return errors.Join(append([]error{o.printAll(created)}, errs...)...)
}

// createHint says what to do about a refused WorkflowRun.
func createHint(err error, run *workflowsv1alpha1.WorkflowRun) error {
	if apierrors.IsAlreadyExists(err) {
		return cli.WithHint(fmt.Errorf("there is a WorkflowRun %q in namespace %q already", run.Name, run.Namespace),
			"choose another with --name, or write metadata.generateName into the file to have one made each time")
	}
	return fmt.Errorf("creating the WorkflowRun %s: %w", run.Name, err)
}

// printAll prints the WorkflowRuns as asked for: their names alone where nothing was asked, all of them after a dry run.
func (o *options) printAll(found []*workflowsv1alpha1.WorkflowRun) error {
	if *o.print.OutputFormat == "" && *o.print.TemplatePrinterFlags.TemplateArgument == "" {
		if o.dryRun == cli.DryRunNone {
			for _, run := range found {
				if o.quiet {
					break
				}
				if _, err := fmt.Fprintln(o.factory.IO.Out, run.Name); err != nil {
					return fmt.Errorf("writing: %w", err)
				}
			}
			return nil
		}
		*o.print.OutputFormat = "yaml"
	}
	printer, err := cli.Printer(o.print)
	if err != nil {
		return err
	}
	for _, run := range found {
		object, err := printable(run)
		if err != nil {
			return err
		}
		if err := printer.PrintObj(object, o.factory.IO.Out); err != nil {
			return err
		}
	}
	return nil
}

// printable leaves the status out of a WorkflowRun that does not exist yet: it is not for its author to fill in.
func printable(run *workflowsv1alpha1.WorkflowRun) (runtime.Object, error) {
	run.SetGroupVersionKind(cli.KindWorkflowRun.GroupVersionKind())
	if run.UID != "" {
		return run, nil
	}
	return cli.WithoutStatus(run)
}
