package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/liggitt/tabwriter"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// AddPrintFlags adds -o and what belongs to it. The rarely used ones work but do not crowd the help.
func AddPrintFlags(cmd *cobra.Command, flags *genericclioptions.PrintFlags, more ...string) {
	flags.AddFlags(cmd)
	output := cmd.Flags().Lookup("output")
	output.Usage = "Print in this `format`: " + formatWords(more)
	err := cmd.RegisterFlagCompletionFunc("output", func(_ *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return slices.DeleteFunc(formats(more), func(f string) bool { return !strings.HasPrefix(f, toComplete) }),
			cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	if err != nil {
		panic(err) // the flag does not exist: a bug, seen by every test of the command
	}
	for _, name := range []string{"allow-missing-template-keys", "template", "show-managed-fields"} {
		cmd.Flags().Lookup(name).Hidden = true
	}
}

// Printer returns the printer for the format that was asked for, or a usage error that lists the formats there are.
func Printer(flags *genericclioptions.PrintFlags, more ...string) (printers.ResourcePrinter, error) {
	printer, err := flags.ToPrinter()
	switch {
	case genericclioptions.IsNoCompatiblePrinterError(err):
		return nil, WithHint(Usagef("--output %s: there is no such format", *flags.OutputFormat), "the formats are: %s", formatWords(more))
	case err != nil:
		return nil, Usagef("--output %s: %w", *flags.OutputFormat, err)
	}
	return printer, nil
}

// NewTable returns a writer that aligns tab-separated columns. Flush writes what has been gathered.
func NewTable(out io.Writer) *tabwriter.Writer { return printers.GetNewTabWriter(out) }

// Row writes one line of a table. An empty cell shows as a dash, so that columns can be counted, and no cell can break
// the table or move the cursor of a terminal, whoever wrote what is in it. What out says is left to Flush.
func Row(out io.Writer, cells ...string) {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		if shown[i] = Visible(cell); cell == "" {
			shown[i] = "-"
		}
	}
	fmt.Fprintln(out, strings.Join(shown, "\t"))
}

// OneScreen tells whether both output streams end up on a terminal, and so mingle before a person's eyes.
func OneScreen(streams genericiooptions.IOStreams) bool {
	return isTerminal(streams.Out) && isTerminal(streams.ErrOut)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
