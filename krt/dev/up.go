package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/krt/cli"
)

// upOptions are the parsed command line of "krt dev up".
type upOptions struct {
	cluster devcluster.Options
	detach  bool
	// background is set by detach on the command that it starts: the summary is then left to the one in front.
	background bool
	factory    *cli.Factory
}

const upLong = `Start a kruntimes cluster on this machine and keep it running until ctrl-C, or in the background with --detach.

It starts empty each time: nothing of an earlier one is kept but its logs, and these only until the next start.

The binaries of the control plane are taken from $KUBEBUILDER_ASSETS if that is set, else from a cache. The first start
fills the cache by building them with Go, which takes some minutes.

Pods run as plain processes with your own rights. NOTHING IS ISOLATED: a script can read and change whatever you can.`

// backgroundFlag is hidden.
const backgroundFlag = "background"

const upExample = `  krt dev up
  krt dev up --detach && export KUBECONFIG="$(krt dev kubeconfig --path)"`

func newUp(f *cli.Factory, runF runner[*upOptions]) *cobra.Command {
	if runF == nil {
		runF = runUp
	}
	opts := &upOptions{factory: f}
	cmd := &cobra.Command{
		Use: "up", Short: "Start the cluster", Long: upLong, Example: upExample, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.cluster.Port < 0 || opts.cluster.Port > 65535 {
				return cli.Usagef("--port %d is not a port", opts.cluster.Port)
			}
			return runF(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	addStateDir(flags, &opts.cluster.StateDir)
	flags.BoolVarP(&opts.detach, "detach", "d", false, "Leave the cluster running in the background; end it with krt dev down")
	flags.BoolVar(&opts.background, backgroundFlag, false, "")
	_ = flags.MarkHidden(backgroundFlag)
	flags.IntVar(&opts.cluster.Port, "port", 0, "`Port` of the API server on the loopback interface (default: any free one)")
	flags.BoolVar(&opts.cluster.SeparateProcesses, "separate-processes", false, "Run manager and scheduler as processes of their own")
	flags.StringVar(&opts.cluster.ManagerConfigFile, "manager-config", "", "`File` with the manager's configuration, a ManagerConfiguration (default: none)")
	binaries := &opts.cluster.Binaries
	for name, path := range map[string]*string{
		"runtimed": &binaries.Runtimed, "runtime-server": &binaries.RuntimeServer,
		"manager": &binaries.Manager, "scheduler": &binaries.Scheduler,
	} {
		flags.StringVar(path, name+"-binary", "", fmt.Sprintf("`Path` of %s (default: beside krt)", name))
	}
	return cmd
}

func runUp(ctx context.Context, o *upOptions) error {
	if o.detach {
		return detach(ctx, o)
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding krt itself: %w", err)
	}
	o.cluster.Binaries.Kubelet = []string{executable, "dev", "kubelet"}
	o.cluster.OwnsProcess = true
	o.cluster.Progress, o.cluster.Environ = o.factory.IO.ErrOut, o.factory.Environ
	began := o.factory.Now()
	cluster, err := devcluster.Start(ctx, o.cluster)
	if err != nil {
		return explainStart(o.factory, err)
	}
	fmt.Fprintf(o.factory.IO.ErrOut, "The dev cluster is up after %.1f s.\n", o.factory.Now().Sub(began).Seconds())
	if !o.background {
		summarise(o.factory, cluster.State())
		fmt.Fprintln(o.factory.IO.ErrOut, "\nctrl-C ends it.")
	}
	awaitEnding(ctx, o.factory, cluster)
	return cluster.Err()
}

// awaitEnding waits until the cluster has ended and left nothing. A first interrupt ends it, a second one without giving its
// parts time.
func awaitEnding(ctx context.Context, f *cli.Factory, cluster *devcluster.Cluster) {
	interrupts := f.Interrupts.Claim()
	select {
	case <-ctx.Done():
	case <-interrupts:
	case <-cluster.Done():
		return
	}
	fmt.Fprintln(f.IO.ErrOut, "Ending the dev cluster.")
	go cluster.Stop()
	select {
	case <-interrupts:
		cluster.Kill()
	case <-cluster.Done():
	}
}

// explainStart says what to do about an error of the start. It keeps the text only: a network error inside would be
// taken for a cluster that cannot be reached, and there was none to reach yet.
func explainStart(f *cli.Factory, err error) error {
	var running *devcluster.RunningError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &running):
		return cli.WithHint(err, "use it (`%s`), or end it first with `%s`", command(f, "status", running.Dir), command(f, "down", running.Dir))
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), " is missing: "):
		return cli.WithHint(errors.New(err.Error()),
			"run `make build` and keep the binaries beside krt, or give --runtimed-binary and --runtime-server-binary")
	default:
		return errors.New(err.Error())
	}
}

// summarise tells a person what there is now and how to use it.
func summarise(f *cli.Factory, s devcluster.State) {
	dir := filepath.Dir(s.Kubeconfig)
	fmt.Fprintf(f.IO.ErrOut, `
  export KUBECONFIG=%[1]s

  API server  %[2]s
  node        %[3]s: Pods run as processes of this machine, with your rights and without isolation
  logs        %[4]s

Nothing in this cluster is kept when it ends. See "%[5]s" for its parts.

Next, in another terminal: make a Runtime from the examples of the source tree, and run something in it.

  kubectl apply -f examples/runtimes.yaml
  %[6]s run --runtime sh --follow -- uname -a
`, quoted(s.Kubeconfig), s.URL, s.Node, filepath.Join(dir, "logs"), command(f, "status", dir), f.Name)
}
