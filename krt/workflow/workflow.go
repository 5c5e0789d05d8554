// Package workflow is the command "krt workflow": it creates WorkflowRuns and, if asked to, follows one to its end.
package workflow

import (
	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/krt/cli"
)

// NewCmd returns "krt workflow" with its subcommands.
func NewCmd(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "workflow", Aliases: []string{"wf"}, Short: "Run workflows", Args: cli.KnownCommand,
		Long: "Run workflows: jobs that need one another, each a sequence of steps that are executed as Runs.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRun(f, nil))
	return cmd
}
