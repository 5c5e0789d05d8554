// Package artifacts is the command "krt artifacts": it lists what Runs and the jobs of WorkflowRuns left in their artifact
// stores, and downloads it through a Pod of the Runtime, so that nobody needs a way to the store itself.
package artifacts

import (
	"slices"

	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/krt/cli"
)

const long = `See and fetch artifacts: the files and directories that a Run left in $KRUNTIME_ARTIFACTS_DIR, and those that the jobs of a
WorkflowRun left, which are called JOB/NAME.`

// NewCmd returns the command with those below it.
func NewCmd(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "artifacts",
		Aliases: []string{"artifact"},
		Short:   "See and fetch what Runs and WorkflowRuns left",
		Long:    long,
		Args:    cli.KnownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newList(f, nil), newDownload(f, nil))
	return cmd
}

// parseArguments understands "NAME", "KIND NAME" and "KIND/NAME", and after that names of artifacts.
func parseArguments(args []string) (cli.Target, []string, error) {
	first := 1
	if len(args) > 1 {
		if kind, ok := cli.ParseKind(args[0]); ok && (kind == cli.KindRun || kind == cli.KindWorkflowRun) {
			first = 2
		}
	}
	targets, err := cli.ParseExecutions(args[:min(first, len(args))])
	if err != nil {
		return cli.Target{}, nil, err
	}
	names := slices.Clone(args[first:])
	if slices.Contains(names, "") {
		return cli.Target{}, nil, cli.Usagef("the name of an artifact must not be empty")
	}
	slices.Sort(names)
	return targets[0], slices.Compact(names), nil
}
