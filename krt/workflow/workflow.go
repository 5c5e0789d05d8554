// Package workflow is the command "krt workflow": it creates WorkflowRuns, of a Workflow or of a file, and
// follows one to its end if asked to; and it shows Workflows.
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
	cmd.AddCommand(newTrigger(f, nil), newRun(f, nil))
	return cmd
}
