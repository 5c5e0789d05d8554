package workflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/krt/definitions"
	"kruntimes.io/kruntimes/krt/lint"
	"kruntimes.io/kruntimes/workflow/calls"
	"kruntimes.io/kruntimes/workflow/template"
	"kruntimes.io/kruntimes/workflow/validate"
)

// triggerOptions are the parsed command line of "krt workflow trigger".
type triggerOptions struct {
	creation
	workflow  string
	inputs    []string
	inputFile string
}

const triggerLong = `Create a WorkflowRun of a Workflow, with values for its inputs. The Workflow, all that it calls and the inputs are checked
first: where something is wrong, all of it is listed, and nothing is created. What is created holds the jobs as they are now,
with the inputs in them: changing the Workflow afterwards does not change it.

A value may hold '=' and newlines, and is taken as it is: expressions in it are not evaluated. A file of inputs is a mapping
of names to texts, in YAML or JSON; numbers and booleans in it have to be quoted. --input wins over the file.

The name of the new WorkflowRun is printed. With --follow it is shown as "krt watch" does until it has ended, with what
failed first and the outputs below; ctrl-C cancels it.

Exit codes:
  0     it was created; with --follow, it succeeded
  1     the Workflow or what it calls is wrong or missing; with --follow, the WorkflowRun failed
  2     the inputs or the command line are wrong
  130   with --follow: it was cancelled, or krt was interrupted; 143 krt was told to terminate
  141   with --follow: nobody reads the output any more`

const triggerExample = `  krt workflow trigger deploy --input environment=staging --follow
  krt wf trigger deploy --input-file staging.yaml --input version=1.2
  krt wf trigger report --input text="$(cat notes.txt)"
  krt wf trigger deploy --input environment=staging --dry-run -o yaml`

func newTrigger(f *cli.Factory, runF func(context.Context, *triggerOptions) error) *cobra.Command {
	if runF == nil {
		runF = trigger
	}
	opts := &triggerOptions{creation: newCreation(f)}
	cmd := &cobra.Command{
		Use: "trigger NAME", Short: "Create a WorkflowRun of a Workflow", Long: triggerLong, Example: triggerExample,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: complete.OneOf("workflow", complete.Workflows(f)),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := opts.dryRun.CheckWords(args); err != nil {
			return err
		}
		if opts.workflow, err = cli.ParseWorkflow(args); err != nil {
			return err
		}
		if err := opts.validate(); err != nil {
			return err
		}
		return runF(cmd.Context(), opts)
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&opts.inputs, "input", nil, "Give an input its value, as `NAME=VALUE`; may be repeated")
	flags.StringVar(&opts.inputFile, "input-file", "", "Take values of inputs from this `file`; - reads standard input")
	complete.Flag(cmd, "input", complete.InputsOf(f))
	opts.addFlags(cmd, "Give the WorkflowRun this `name`. Default: one that is made of the Workflow's")
	return cmd
}

// trigger does the work of the command.
func trigger(ctx context.Context, o *triggerOptions) error {
	inputs, err := o.values(ctx)
	if err != nil {
		return err
	}
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	var workflow workflowsv1alpha1.Workflow
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.workflow}, &workflow); err != nil {
		return cli.Missing(err, cli.KindWorkflow, namespace, o.workflow)
	}
	run, err := render(&workflow, definitions.NewReader(ctx, c, namespace), inputs)
	if err != nil {
		return err
	}
	run.Namespace = namespace
	if run.Name = o.name; o.name == "" {
		run.GenerateName = o.workflow + "-"
	}
	return o.create(ctx, []*workflowsv1alpha1.WorkflowRun{run}, "choose another with --name, or leave it out to have one made")
}

// values gathers the inputs of the command line.
func (o *triggerOptions) values(ctx context.Context) (map[string]string, error) {
	given, err := parseFlags(o.inputs)
	if err != nil || o.inputFile == "" {
		return given, err
	}
	inputs, err := readInputs(ctx, o.factory.IO.In, o.inputFile)
	if err != nil {
		return nil, err
	}
	maps.Copy(inputs, given)
	return inputs, nil
}

// render makes the WorkflowRun of a Workflow, or says all that is wrong with it, with what it calls, and with the inputs.
func render(workflow *workflowsv1alpha1.Workflow, defs calls.Definitions, inputs map[string]string) (*workflowsv1alpha1.WorkflowRun, error) {
	wrong := validate.Workflow(&workflow.Spec)
	wrong = append(wrong, validate.OutputContract(template.Contract(workflow.Spec.Outputs), workflow.Spec.Jobs)...)
	isValid := len(wrong) == 0
	called, err := calls.Workflow(defs, workflow.Name, &workflow.Spec)
	if err != nil {
		return nil, fmt.Errorf("checking what Workflow %s calls: %w", workflow.Name, err)
	}
	wrong = append(wrong, called...)
	if !isValid { // rendering it would say the same once more
		_, bound := template.Bind(withPath, fmt.Sprintf("Workflow %q", workflow.Name), workflow.Spec.Inputs, inputs)
		return nil, refusal(workflow.Name, append(wrong, bound...))
	}
	run, errs := template.WorkflowRun(workflow.Name, &workflow.Spec, inputs)
	if wrong = append(wrong, errs...); len(wrong) > 0 {
		return nil, refusal(workflow.Name, wrong)
	}
	return run, nil
}

// withPath is where errors about inputs are. A person knows them as --input.
var withPath = field.NewPath("with")

// refusal lists all that is wrong. It is the command line that is wrong where all of that is about inputs.
func refusal(workflow string, wrong field.ErrorList) error {
	code := cli.ExitUsage
	lines := make([]string, len(wrong))
	for i, e := range wrong {
		lines[i] = cli.Visible(lint.Line(e))
		switch {
		case e.Field == withPath.String():
			lines[i] = "--input: " + cli.Visible(e.Detail)
		case strings.HasPrefix(e.Field, withPath.String()+"["):
			lines[i] = "--input " + strings.Trim(strings.TrimPrefix(e.Field, withPath.String()), "[]") + ": " + cli.Visible(e.Detail)
		default:
			code = cli.ExitFailed
		}
	}
	what := fmt.Sprintf("Workflow %s cannot be triggered, and nothing was created", workflow)
	return &cli.ExitError{Code: code, Err: errors.New(what + ":\n" + strings.Join(lines, "\n"))}
}
