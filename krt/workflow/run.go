package workflow

import (
	"context"

	"github.com/spf13/cobra"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// options are the parsed command line of "krt workflow run".
type options struct {
	creation
	file string
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
	opts := &options{creation: newCreation(f)}
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
	opts.addFlags(cmd, "Give the WorkflowRun this `name` instead of the one in the file")
	return cmd
}

// validate checks what can be checked without reading anything.
func (o *options) validate() error {
	if o.file == "" {
		return cli.WithHint(cli.Usagef("--file is missing"), "an example is in examples/ci.yaml of the sources")
	}
	return o.creation.validate()
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
	return o.create(ctx, found, "choose another with --name, or write metadata.generateName into the file to have one made each time")
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
