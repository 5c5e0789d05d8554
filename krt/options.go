package krt

import (
	"strings"

	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/krt/cli"
)

// The groups in which the help of the root command lists the others.
const (
	groupRuns      = "runs"
	groupWorkflows = "workflows"
	groupOther     = "other"
)

// usageTemplate replaces the long list of kubeconfig flags, the same for every command, by a line that leads to it.
func usageTemplate(original string) string {
	head, rest, found := strings.Cut(original, "{{if .HasAvailableInheritedFlags}}")
	_, tail, closed := strings.Cut(rest, "{{end}}")
	if !found || !closed {
		return original
	}
	const pointer = "\n\nEvery command also takes -n, --context, --kubeconfig and more: see \"{{.Root.DisplayName}} options\"."
	return strings.Replace(head, "{{if .HasAvailableLocalFlags}}", "{{if and .HasAvailableLocalFlags .HasParent}}", 1) +
		"{{if .HasAvailableInheritedFlags}}" + pointer + "{{end}}" + tail
}

// newOptions returns the command that lists the flags that every command takes.
func newOptions(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "options",
		Short: "List the flags that every command takes",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := f.IO.Out.Write([]byte(cmd.Root().PersistentFlags().FlagUsagesWrapped(120)))
			return err
		},
	}
	return cmd
}
