package krt

import (
	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/krt/artifacts"
	"kruntimes.io/kruntimes/krt/cancel"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/describe"
	"kruntimes.io/kruntimes/krt/dev"
	"kruntimes.io/kruntimes/krt/get"
	"kruntimes.io/kruntimes/krt/graph"
	"kruntimes.io/kruntimes/krt/lint"
	"kruntimes.io/kruntimes/krt/logs"
	"kruntimes.io/kruntimes/krt/run"
	"kruntimes.io/kruntimes/krt/version"
	"kruntimes.io/kruntimes/krt/wait"
	"kruntimes.io/kruntimes/krt/watch"
	"kruntimes.io/kruntimes/krt/workflow"
)

// commands lists the commands below the root.
func commands(f *cli.Factory) []*cobra.Command {
	groups := map[string][]*cobra.Command{
		groupRuns: {
			run.NewCmd(f, nil), get.NewCmd(f, nil), describe.NewCmd(f, nil), logs.NewCmd(f, nil),
			cancel.NewCmd(f, nil), wait.NewCmd(f, nil), artifacts.NewCmd(f),
		},
		groupWorkflows: {workflow.NewCmd(f), watch.NewCmd(f, nil), graph.NewCmd(f, nil), lint.NewCmd(f, nil)},
		groupOther:     {dev.NewCmd(f), version.NewCmd(f, nil), newOptions(f)},
	}
	var all []*cobra.Command
	for group, members := range groups {
		for _, cmd := range members {
			cmd.GroupID = group
			all = append(all, cmd)
		}
	}
	return all
}
