// Package command is the command line of package cluster.
package command

import (
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/test/cluster"
	"kruntimes.io/kruntimes/test/cluster/node"
)

// shell holds what the commands share.
type shell struct {
	state   string
	environ []string
}

// New returns the command.
func New(environ []string) *cobra.Command {
	s := &shell{environ: environ}
	root := &cobra.Command{
		Use: "cluster", Short: "A real Kubernetes cluster of one node on this machine", SilenceUsage: true, SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&s.state, "state", "/tmp/kruntimes-cluster", "The `directory` of the cluster")
	root.AddCommand(s.up(), s.down(), s.load(), s.status(), s.restart(), s.start(), imagesCommand(), nodeCommand())
	return root
}

func (s *shell) cluster(cmd *cobra.Command, pause string) (*cluster.Cluster, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	if pause == "" {
		pause = filepath.Join(filepath.Dir(executable), "pause")
	}
	return cluster.New(cluster.Options{
		State: s.state, Executable: executable, Pause: pause, Environ: s.environ, Progress: cmd.ErrOrStderr(),
	})
}

func (s *shell) up() *cobra.Command {
	var pause string
	cmd := &cobra.Command{Use: "up", Short: "Start the cluster, unless it is up", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&pause, "pause", "", "The `program` that holds Pods (default: pause beside this program)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := s.cluster(cmd, pause)
		if err != nil {
			return err
		}
		if err := c.Up(cmd.Context()); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\n", c.Kubeconfig())
		return nil
	}
	return cmd
}

func (s *shell) down() *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "End the cluster and remove all that it made", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.cluster(cmd, "")
			if err != nil {
				return err
			}
			return c.Down(cmd.Context())
		},
	}
}

func (s *shell) load() *cobra.Command {
	return &cobra.Command{
		Use: "load ARCHIVE...", Short: "Load images into the node", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.cluster(cmd, "")
			if err != nil {
				return err
			}
			return c.Load(cmd.Context(), args...)
		},
	}
}

func (s *shell) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the parts of the cluster; fail when one does not run", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.cluster(cmd, "")
			if err != nil {
				return err
			}
			states, err := c.Parts(cmd.Context())
			if err != nil {
				return fmt.Errorf("the cluster of %s is not up: %w", s.state, err)
			}
			return printStates(cmd, c, states)
		},
	}
}

func printStates(cmd *cobra.Command, c *cluster.Cluster, states []node.State) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PART\tSTATE\tSTARTS\tLOG")
	var ended error
	for _, state := range states {
		word := "running"
		if !state.Running {
			word = state.Exit
			ended = fmt.Errorf("%s does not run", state.Name)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", state.Name, word, state.Starts, c.Log(state.Name))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return ended
}

func (s *shell) restart() *cobra.Command {
	return &cobra.Command{
		Use: "restart PART...", Short: "Restart parts, and wait until the API server and the Node are ready", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.cluster(cmd, "")
			if err != nil {
				return err
			}
			for _, part := range args {
				if err := c.Restart(cmd.Context(), part); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (s *shell) start() *cobra.Command {
	var word string
	cmd := &cobra.Command{
		Use: "start PART PROGRAM [ARGUMENT...]", Short: "Run a program as a part of the cluster, unless it runs", Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.cluster(cmd, "")
			if err != nil {
				return err
			}
			states, err := c.Parts(cmd.Context())
			if err != nil {
				return fmt.Errorf("the cluster of %s is not up: %w", s.state, err)
			}
			for _, state := range states {
				if state.Name == args[0] && state.Running {
					return nil
				}
			}
			program, err := filepath.Abs(args[1])
			if err != nil {
				return fmt.Errorf("finding %s: %w", args[1], err)
			}
			part := node.Part{Name: args[0], Args: append([]string{program}, args[2:]...)}
			if word == "" {
				return c.Start(cmd.Context(), part)
			}
			return c.StartUntil(cmd.Context(), part, word)
		},
	}
	cmd.Flags().StringVar(&word, "until", "", "Wait until the program writes this `line`")
	// What follows the program is for the program.
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// nodeCommand is what up starts in namespaces of its own.
func nodeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "node", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return node.Main(cmd.Context(), cmd.InOrStdin()) },
	}
}
