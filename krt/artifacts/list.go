package artifacts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/krt/runs"
)

// listOptions are the parsed command line of "krt artifacts list".
type listOptions struct {
	target  cli.Target
	output  string
	factory *cli.Factory
}

// The formats of -o.
var listFormats = []string{"json", "yaml", "name"}

const listExample = `  krt artifacts list run nightly
  krt artifacts list workflowrun ci
  krt artifacts list workflowrun ci -o name`

func newList(f *cli.Factory, runF func(context.Context, *listOptions) error) *cobra.Command {
	if runF == nil {
		runF = list
	}
	opts := &listOptions{factory: f}
	cmd := &cobra.Command{
		Use: "list {run|workflowrun} NAME", Short: "List artifacts", Example: listExample, Aliases: []string{"ls"},
		Long:              "List the artifacts of a Run or WorkflowRun: their names, what they are, their sizes as they are stored, and their digests.",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: complete.OneExecution(f),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		target, names, err := parseArguments(args)
		switch {
		case err != nil:
			return err
		case len(names) > 0:
			return cli.Usagef("one Run or WorkflowRun at a time, but there is %q as well", names[0])
		case opts.output != "" && !slices.Contains(listFormats, opts.output):
			return cli.WithHint(cli.Usagef("--output %s: there is no such format", opts.output), "the formats are: %s", strings.Join(listFormats, ", "))
		}
		opts.target = target
		return runF(cmd.Context(), opts)
	}
	cmd.Flags().StringVarP(&opts.output, "output", "o", "", "Print in this `format`: "+strings.Join(listFormats, ", "))
	complete.Flag(cmd, "output", complete.Words(listFormats...))
	return cmd
}

// list does the work of the command.
func list(ctx context.Context, o *listOptions) error {
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	h, err := find(ctx, c, namespace, o.target)
	if err != nil {
		return err
	}
	switch {
	case o.output != "":
		return o.print(h.entries)
	case len(h.entries) == 0:
		fmt.Fprintln(o.factory.IO.ErrOut, cli.Visible(h.none().Error())+".")
		return nil
	}
	w := cli.NewTable(o.factory.IO.Out)
	cli.Row(w, "NAME", "TYPE", "SIZE", "DIGEST")
	for _, e := range h.entries {
		cli.Row(w, e.Name, string(e.Artifact.Type), runs.Bytes(e.Artifact.SizeBytes), e.Artifact.Digest)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing the artifacts: %w", err)
	}
	return nil
}

// print writes entries for programs.
func (o *listOptions) print(entries []entry) error {
	if entries == nil {
		entries = []entry{} // Else it would be null.
	}
	var text []byte
	var err error
	switch o.output {
	case "name":
		for _, e := range entries {
			text = append(text, e.Name+"\n"...)
		}
	case "yaml":
		text, err = yaml.Marshal(entries)
	default:
		text, err = json.MarshalIndent(entries, "", "    ")
		text = append(text, '\n')
	}
	if err != nil {
		return fmt.Errorf("encoding the artifacts: %w", err)
	}
	if _, err := o.factory.IO.Out.Write(text); err != nil {
		return fmt.Errorf("writing the artifacts: %w", err)
	}
	return nil
}
