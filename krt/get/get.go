// Package get is the command "krt get": tables of Runs, WorkflowRuns and more for people, and the objects themselves for
// programs.
package get

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
)

// options are the parsed command line.
type options struct {
	targets       []cli.Target
	selector      string
	fieldSelector string
	allNamespaces bool
	watch         bool
	noHeaders     bool
	showLabels    bool
	sortBy        string
	order         *order
	print         *genericclioptions.PrintFlags
	factory       *cli.Factory
}

const long = `Show Runs, Runtimes, WorkflowRuns, Workflows, Actions and PersistentWorkspaces, as a table or, with -o, in full.

In the table of Runs, REASON says why a Run ended as it did, or what a Pending Run waits for; DURATION is the execution
of the last attempt, so far when it still executes. Older Runs come first, unless --sort-by says otherwise.`

const example = `  krt get runs
  krt get runs -A -o wide
  krt get runs --field-selector status.phase=Failed
  krt get run nightly -o jsonpath='{.status.outputs.version}'
  krt get runs --sort-by .status.completionTime
  krt get runs,runtimes
  krt get workflowruns
  krt get workspaces -o wide
  krt get runs -w`

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f, print: genericclioptions.NewPrintFlags("")}
	cmd := &cobra.Command{
		Use:     "get {runs|runtimes|workflowruns|workflows|actions|workspaces} [NAME...]",
		Short:   "Show Runs, WorkflowRuns and more",
		Long:    long,
		Example: example,
		Args:    cobra.ArbitraryArgs,
		ValidArgsFunction: complete.Kinds(map[string]complete.Func{
			"run": complete.Runs(f, nil), "runs": complete.Runs(f, nil),
			"runtime": complete.Runtimes(f), "runtimes": complete.Runtimes(f),
			"workflowrun": complete.WorkflowRuns(f, nil), "workflowruns": complete.WorkflowRuns(f, nil), "wfrun": complete.WorkflowRuns(f, nil),
			"workflow": complete.Workflows(f), "workflows": complete.Workflows(f), "action": complete.Actions(f), "actions": complete.Actions(f),
			"workspace": complete.Workspaces(f), "workspaces": complete.Workspaces(f), "pws": complete.Workspaces(f),
			"persistentworkspace": complete.Workspaces(f), "persistentworkspaces": complete.Workspaces(f),
		}, "runs", "workflowruns", "workflows", "actions", "runtimes", "workspaces"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if opts.targets, err = cli.ParseTargets(args); err != nil {
			return err
		}
		if err := opts.validate(); err != nil {
			return err
		}
		return runF(cmd.Context(), opts)
	}
	opts.addFlags(cmd)
	return cmd
}

// NewList returns a command "list" that shows what "krt get" shows of one kind.
func NewList(f *cli.Factory, kind cli.Kind) *cobra.Command {
	opts := &options{factory: f, print: genericclioptions.NewPrintFlags("")}
	plural := kind.Plural()
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "Show the " + string(kind) + "s there are", Args: cli.NoArgs,
		Long: "Show the " + string(kind) + "s there are, as `krt get " + plural + "` does.", Example: "  krt " + strings.ToLower(string(kind)) + " list\n  krt get " + plural + " -o wide",
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		opts.targets = []cli.Target{{Kind: kind}}
		if err := opts.validate(); err != nil {
			return err
		}
		return execute(cmd.Context(), opts)
	}
	opts.addFlags(cmd)
	return cmd
}

func (o *options) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&o.selector, "selector", "l", "", "Show only what has these labels, such as `KEY=VALUE`")
	flags.StringVar(&o.fieldSelector, "field-selector", "", "Show only what has this field, such as `status.phase=Failed`")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Show those of all namespaces")
	flags.BoolVarP(&o.watch, "watch", "w", false, "Go on and show every change")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "Leave the header line out")
	flags.BoolVar(&o.showLabels, "show-labels", false, "Show the labels in a last column")
	flags.StringVar(&o.sortBy, "sort-by", "", "Order by what this JSONPath `expression` finds, such as .status.completionTime")
	cli.AddPrintFlags(cmd, o.print, "wide")
}

// validate checks what can be checked without the cluster.
func (o *options) validate() error {
	named := o.targets[0].Name != ""
	if _, err := labels.Parse(o.selector); err != nil {
		return cli.Usagef("--selector %s: %w", o.selector, err)
	}
	if _, err := fields.ParseSelector(o.fieldSelector); err != nil {
		return cli.Usagef("--field-selector %s: %w", o.fieldSelector, err)
	}
	switch {
	case named && o.allNamespaces:
		return cli.Usagef("a name belongs to one namespace: give names or -A, not both")
	case named && (o.selector != "" || o.fieldSelector != ""):
		return cli.Usagef("give names or a selector, not both")
	case o.watch && len(o.targets) > 1:
		return cli.Usagef("-w watches one kind, or one object")
	case o.watch && o.sortBy != "":
		return cli.Usagef("-w shows changes as they come: --sort-by cannot order them")
	}
	if o.sortBy != "" {
		var err error
		if o.order, err = newOrder(o.sortBy); err != nil {
			return cli.Usagef("--sort-by %s: %w", o.sortBy, err)
		}
	}
	if o.table() {
		return nil
	}
	_, err := cli.Printer(o.print, "wide")
	return err
}

// table tells whether a table is asked for, and not the objects themselves.
func (o *options) table() bool {
	format := *o.print.OutputFormat
	return (format == "" && *o.print.TemplatePrinterFlags.TemplateArgument == "") || format == "wide"
}

func (o *options) layout() layout {
	return layout{namespaces: o.allNamespaces, wide: *o.print.OutputFormat == "wide", labels: o.showLabels}
}
