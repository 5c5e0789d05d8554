package krt

import (
	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/krt/cli"
)

// commands lists the commands below the root, in the order in which the help shows them.
func commands(f *cli.Factory) []*cobra.Command {
	return nil
}
