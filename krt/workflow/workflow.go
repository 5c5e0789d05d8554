// Package workflow is the command "krt workflow": it creates WorkflowRuns, of a Workflow or of a file, and
// follows one to its end if asked to; and it shows Workflows.
package workflow

import (
	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/krt/describe"
	"kruntimes.io/kruntimes/krt/get"
)

// NewCmd returns "krt workflow" with its subcommands.
func NewCmd(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "workflow", Aliases: []string{"wf"}, Short: "Run and see workflows", Args: cli.KnownCommand,
		Long: "Run workflows: jobs that need one another, each a sequence of steps that are executed as Runs. A Workflow is a\n" +
			"definition with inputs, of which trigger makes WorkflowRuns; run takes WorkflowRuns from a file.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTrigger(f, nil), newRun(f, nil), get.NewList(f, cli.KindWorkflow),
		describe.NewOf(f, cli.KindWorkflow, complete.Workflows(f)))
	return cmd
}
