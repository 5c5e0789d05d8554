package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/krt/watch"
)

// creation is the part of a command line that says how WorkflowRuns are created, and what is shown of it.
type creation struct {
	name    string
	follow  bool
	noTTY   bool
	quiet   bool
	dryRun  cli.DryRun
	print   *genericclioptions.PrintFlags
	factory *cli.Factory
}

func newCreation(f *cli.Factory) creation {
	return creation{factory: f, print: genericclioptions.NewPrintFlags("created").WithTypeSetter(cli.NewScheme())}
}

// addFlags defines the flags. nameUsage explains --name.
func (o *creation) addFlags(cmd *cobra.Command, nameUsage string) {
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", nameUsage)
	flags.BoolVar(&o.follow, "follow", false, "Show what becomes of it until its end, and end with 0 only if it succeeded")
	flags.BoolVar(&o.noTTY, "no-tty", false, "With --follow: print one line for each change, also on a terminal")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "With --follow: show failures and outputs only. Else: print nothing")
	cli.AddDryRunFlag(flags, &o.dryRun, "Print what would be created instead of creating it. The `mode` is client (nothing is sent), server (the cluster checks it) or none")
	cli.AddPrintFlags(cmd, o.print)
	complete.Flag(cmd, "dry-run", complete.Words(cli.DryRuns()...))
}

// validate checks what can be checked without reading anything.
func (o *creation) validate() error {
	switch {
	case o.dryRun != cli.DryRunNone && o.follow:
		return cli.Usagef("--dry-run creates nothing, so there is nothing to --follow")
	case o.follow && *o.print.OutputFormat != "":
		return cli.Usagef("--follow shows what becomes of the WorkflowRun, so -o cannot be given as well")
	}
	return nil
}

// create creates the WorkflowRuns, or only prints them; one that is followed, to its end. taken says what to do where a name
// is taken.
func (o *creation) create(ctx context.Context, found []*workflowsv1alpha1.WorkflowRun, taken string) error {
	if o.dryRun == cli.DryRunClient {
		return o.printAll(found)
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	if !o.follow {
		return o.createAll(ctx, c, found, taken)
	}
	s := &Session{Factory: o.factory, Client: c, View: watch.NewView(o.factory, o.noTTY), Clock: clock.RealClock{}, Quiet: o.quiet, Taken: taken}
	defer cli.OutliveReaders()()
	return s.Do(ctx, found[0])
}

// createAll creates all, and reports on each.
func (o *creation) createAll(ctx context.Context, c client.Client, found []*workflowsv1alpha1.WorkflowRun, taken string) error {
	opts := []client.CreateOption{client.FieldOwner("krt")}
	if o.dryRun == cli.DryRunServer {
		opts = append(opts, client.DryRunAll)
	}
	var created []*workflowsv1alpha1.WorkflowRun
	var errs []error
	for _, run := range found {
		if err := c.Create(ctx, run, opts...); err != nil {
			errs = append(errs, createHint(err, run, taken))
			continue
		}
		created = append(created, run)
	}
	return errors.Join(append([]error{o.printAll(created)}, errs...)...)
}

// createHint says what to do about a refused WorkflowRun; taken is for one whose name is taken.
func createHint(err error, run *workflowsv1alpha1.WorkflowRun, taken string) error {
	if apierrors.IsAlreadyExists(err) {
		return cli.WithHint(fmt.Errorf("there is a WorkflowRun %q in namespace %q already", run.Name, run.Namespace), "%s", taken)
	}
	return fmt.Errorf("creating the WorkflowRun %s: %w", cmp.Or(run.Name, run.GenerateName), err)
}

// printAll prints the WorkflowRuns as asked for: their names alone where nothing was asked, all of them after a dry run.
func (o *creation) printAll(found []*workflowsv1alpha1.WorkflowRun) error {
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
