package krt

import (
	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/run"
)

// commands lists the commands below the root.
func commands(f *cli.Factory) []*cobra.Command {
	groups := map[string][]*cobra.Command{
		groupRuns:  {run.NewCmd(f, nil)},
		groupOther: {newOptions(f)},
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
