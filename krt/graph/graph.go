// Package graph is the command "krt graph": the jobs of a Workflow or WorkflowRun and what they need of one another, as text
// for people, or in the languages of Mermaid and Graphviz.
package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/krt/lint"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// The values of --output.
const (
	outputText    = "text"
	outputMermaid = "mermaid"
	outputDot     = "dot"
)

// options are the parsed command line.
type options struct {
	targets []cli.Target
	file    string
	output  string
	factory *cli.Factory
}

const long = `Show the jobs of Workflows or WorkflowRuns as a graph: which job needs which, on what Runtime it runs its steps, or what
Workflow it calls. Of a WorkflowRun, the phases are shown as well.

As text, jobs come in stages: those of one stage need only jobs of the stages before, and may run at the same time. With
-o mermaid or -o dot the graph is written in the language of Mermaid or Graphviz, one graph at a time. With -f nothing is
asked of a cluster; all Workflows and WorkflowRuns of the file are shown.`

const example = `  krt graph workflow release
  krt graph workflowrun ci
  krt graph -f examples/ci.yaml -o mermaid
  krt graph workflow release -o dot | dot -Tsvg >release.svg`

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f}
	cmd := &cobra.Command{
		Use: "graph {workflow NAME | workflowrun NAME | -f FILE}", Short: "Show which job needs which", Long: long, Example: example, Args: cobra.ArbitraryArgs,
		ValidArgsFunction: complete.Kinds(map[string]complete.Func{
			"workflow": complete.Workflows(f), "workflowrun": complete.WorkflowRuns(f, nil), "wfrun": complete.WorkflowRuns(f, nil),
		}, "workflow", "workflowrun"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := opts.parse(args); err != nil {
			return err
		}
		return runF(cmd.Context(), opts)
	}
	cmd.Flags().StringVarP(&opts.file, "file", "f", "", "Show what is in this `file`; - reads standard input")
	cmd.Flags().StringVarP(&opts.output, "output", "o", outputText, "Print in this `format`: text, mermaid, dot")
	complete.Flag(cmd, "output", complete.Words(outputText, outputMermaid, outputDot))
	return cmd
}

// parse understands the arguments, which are one of two ways to say what is shown.
func (o *options) parse(args []string) (err error) {
	if !slices.Contains([]string{outputText, outputMermaid, outputDot}, o.output) {
		return cli.WithHint(cli.Usagef("--output %s: there is no such format", o.output), "the formats are: text, mermaid, dot")
	}
	switch {
	case o.file != "" && len(args) > 0:
		return cli.Usagef("give a file or names, not both")
	case o.file != "":
		return nil
	case len(args) == 0:
		return cli.WithHint(cli.Usagef("the graph of what?"), "name a Workflow or WorkflowRun, or a file with -f")
	}
	if o.targets, err = cli.ParseTargets(args); err != nil {
		return err
	}
	for _, target := range o.targets {
		switch {
		case target.Kind != cli.KindWorkflow && target.Kind != cli.KindWorkflowRun:
			return cli.Usagef("%ss have no jobs: name a Workflow or a WorkflowRun", target.Kind)
		case target.Name == "":
			return cli.WithHint(cli.Usagef("the graph of which %s?", target.Kind), "see those there are with `krt get %s`", target.Kind.Plural())
		}
	}
	return o.oneAtATime(len(o.targets))
}

// oneAtATime refuses several graphs where only one makes sense.
func (o *options) oneAtATime(graphs int) error {
	if graphs > 1 && o.output != outputText {
		return cli.Usagef("-o %s prints one graph, and there are %d", o.output, graphs)
	}
	return nil
}

// execute does the work of the command.
func execute(ctx context.Context, o *options) error {
	var graphs []graph
	var errs []error
	if o.file != "" {
		found, err := o.inFile(ctx)
		if err != nil {
			return err
		}
		graphs = found
	} else {
		found, err := o.inCluster(ctx)
		graphs, errs = found, append(errs, err)
	}
	var b strings.Builder
	for i := range graphs {
		switch o.output {
		case outputMermaid:
			b.WriteString(graphs[i].mermaid())
		case outputDot:
			b.WriteString(graphs[i].dot())
		default:
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(graphs[i].text(workflowruns.Style{Colours: o.factory.Terminal(o.factory.IO.Out).Colours}))
		}
	}
	if _, err := io.WriteString(o.factory.IO.Out, b.String()); err != nil {
		return fmt.Errorf("writing the graph: %w", err)
	}
	return errors.Join(errs...)
}

// inCluster reads the graphs that the command line names. What could not be read is in the error.
func (o *options) inCluster(ctx context.Context) ([]graph, error) {
	namespace, err := o.factory.Namespace()
	if err != nil {
		return nil, err
	}
	c, err := o.factory.Client()
	if err != nil {
		return nil, err
	}
	var graphs []graph
	var errs []error
	for _, target := range o.targets {
		if target.Kind == cli.KindWorkflowRun {
			run, err := workflowruns.Get(ctx, c, namespace, target.Name)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			graphs = append(graphs, ofWorkflowRun(run))
			continue
		}
		var workflow workflowsv1alpha1.Workflow
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: target.Name}, &workflow); err != nil {
			errs = append(errs, cli.Missing(err, cli.KindWorkflow, namespace, target.Name))
			continue
		}
		graphs = append(graphs, ofWorkflow(&workflow))
	}
	return graphs, errors.Join(errs...)
}

// inFile makes the graphs of a file. Mistakes in it are those that krt lint tells about, and do not keep it from being drawn
// as far as it can be understood.
func (o *options) inFile(ctx context.Context) ([]graph, error) {
	documents, findings, err := lint.CheckFile(ctx, o.factory.IO.In, o.file)
	if err != nil {
		return nil, err
	}
	var graphs []graph
	for _, d := range documents {
		into, drawn := graphOf(d)
		if drawn == nil {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, into); err != nil {
			return nil, cli.WithHint(cli.Usagef("%s: %w", d.Place(), err), "see what is wrong with `krt lint -f %s`", o.file)
		}
		graphs = append(graphs, drawn())
	}
	wrong := slices.ContainsFunc(findings, func(f lint.Finding) bool { return !f.Warning })
	if wrong {
		fmt.Fprintf(o.factory.IO.ErrOut, "krt: %s is not valid: see what is wrong with `%s lint -f %s`\n", lint.FileName(o.file), o.factory.Name, o.file)
	}
	if len(graphs) == 0 {
		return nil, cli.Usagef("%s holds neither a Workflow nor a WorkflowRun", lint.FileName(o.file))
	}
	return graphs, o.oneAtATime(len(graphs))
}

// graphOf returns an object for a document that has jobs, and what makes a graph of it; nil for others.
func graphOf(d lint.Document) (into any, drawn func() graph) {
	switch d.Object.GroupVersionKind() {
	case cli.KindWorkflow.GroupVersionKind():
		workflow := &workflowsv1alpha1.Workflow{}
		return workflow, func() graph { return ofWorkflow(workflow) }
	case cli.KindWorkflowRun.GroupVersionKind():
		run := &workflowsv1alpha1.WorkflowRun{}
		return run, func() graph { return ofWorkflowRun(run) }
	}
	return nil, nil
}
