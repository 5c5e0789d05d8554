// Package dev is the command "krt dev": a whole cluster on this machine, without containers.
package dev

import (
	"context"

	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/krt/cli"
)

const long = `krt dev runs a kruntimes cluster on this machine: a real Kubernetes API server with the controllers that it takes,
the manager and the scheduler of kruntimes, and a stand-in for the kubelet.

Pods run as plain processes with your own rights. NOTHING IS ISOLATED: a script can read and change whatever you can.
Images are not pulled; programs are taken from this machine. Use it to try things out and to develop, for nothing else.`

// NewCmd returns "krt dev" with its subcommands.
func NewCmd(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a cluster on this machine, without containers", Long: long, Args: cli.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newUp(f, nil), newDown(f, nil), newRun(f, nil), newStatus(f, nil), newKubeconfig(f, nil), newKubelet(f))
	return cmd
}

// runner is the work of a command, so that tests can look at what was parsed instead.
type runner[T any] = func(context.Context, T) error
