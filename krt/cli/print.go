package cli

import (
	"fmt"
	"io"
	"os"
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
	formats := append(more, "json", "yaml", "name", "jsonpath=…", "go-template=…")
	output := cmd.Flags().Lookup("output")
	output.Usage = "Print in this `format`: " + strings.Join(formats, ", ")
	for _, name := range []string{"allow-missing-template-keys", "template", "show-managed-fields"} {
		cmd.Flags().Lookup(name).Hidden = true
	}
}

// NewTable returns a writer that aligns tab-separated columns. Flush writes what has been gathered.
func NewTable(out io.Writer) *tabwriter.Writer { return printers.GetNewTabWriter(out) }

// Row writes one line of a table; an empty cell shows as a dash, so that columns can be counted.
func Row(out io.Writer, cells ...string) {
	for i, cell := range cells {
		if cell == "" {
			cells[i] = "-"
		}
	}
	fmt.Fprintln(out, strings.Join(cells, "\t"))
}

// OneScreen tells whether both output streams end up on a terminal, and so mingle before a person's eyes.
func OneScreen(streams genericiooptions.IOStreams) bool {
	return isTerminal(streams.Out) && isTerminal(streams.ErrOut)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
