package dev

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/watch"
	"kruntimes.io/kruntimes/krt/workflow"
)

// runOptions are the parsed command line of "krt dev run".
type runOptions struct {
	file     string
	stateDir string
	noTTY    bool
	quiet    bool
	factory  *cli.Factory
}

const runLong = `Apply every manifest of a file to the dev cluster, Runtimes first, create its WorkflowRun, and follow that to its end as
"krt workflow run --follow" does. Where no dev cluster is running, one is started for the time being and ended afterwards.

A WorkflowRun whose name is taken by a finished one gets a name of its own.

Exit codes: 0 the WorkflowRun succeeded, 1 it failed, 130 it was cancelled or krt was interrupted, 141 nobody reads the
output any more and it is being cancelled, 143 krt was told to terminate.`

func newRun(f *cli.Factory, runF runner[*runOptions]) *cobra.Command {
	if runF == nil {
		runF = runFile
	}
	opts := &runOptions{factory: f}
	cmd := &cobra.Command{
		Use: "run -f FILE", Short: "Run the WorkflowRun of a file, with all that it needs", Long: runLong, Args: cli.NoArgs,
		Example: "  cat examples/artifacts.yaml examples/reuse/{build,verify}.yaml examples/ci.yaml | krt dev run -f -",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.file == "" {
				return cli.Usagef("--file is missing")
			}
			return runF(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	addStateDir(flags, &opts.stateDir)
	flags.StringVarP(&opts.file, "file", "f", "", "The `file` with the manifests; - reads standard input")
	flags.BoolVar(&opts.noTTY, "no-tty", false, "Print one line for each change, also on a terminal")
	flags.BoolVarP(&opts.quiet, "quiet", "q", false, "Show failures and outputs only")
	return cmd
}

// runFile does the work of the command.
func runFile(ctx context.Context, o *runOptions) error {
	documents, err := workflow.Read(ctx, o.factory, o.file)
	if err != nil {
		return err
	}
	plan, err := newManifests(o.file, documents)
	if err != nil {
		return err
	}
	kubeconfig, stop, err := o.cluster(ctx)
	if err != nil {
		return err
	}
	defer stop()
	f := o.factory.WithKubeconfig(kubeconfig)
	if err := plan.apply(ctx, f, o.quiet); err != nil {
		return err
	}
	c, err := f.Client()
	if err != nil {
		return err
	}
	if err := chooseName(ctx, c, plan.run); err != nil {
		return err
	}
	session := &workflow.Session{
		Factory: f, Client: c, View: watch.NewView(f, o.noTTY), Clock: clock.RealClock{}, Quiet: o.quiet,
	}
	defer cli.OutliveReaders()()
	return session.Do(ctx, plan.run)
}

// cluster returns the kubeconfig of the running cluster, or starts one that stop ends.
func (o *runOptions) cluster(ctx context.Context) (kubeconfig string, stop func(), err error) {
	state, dir, err := runningState(o.factory, o.stateDir)
	if err == nil && state.Phase != devcluster.Ready {
		return "", nil, cli.WithHint(&cli.NoClusterError{Reason: "the dev cluster is only starting"}, "try again in a moment")
	}
	if err == nil {
		return state.Kubeconfig, func() {}, nil
	}
	if !errors.Is(err, devcluster.ErrNotRunning) && !isNoCluster(err) {
		return "", nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("finding krt itself: %w", err)
	}
	options := devcluster.Options{StateDir: dir, Progress: o.factory.IO.ErrOut, Environ: o.factory.Environ, OwnsProcess: true}
	options.Binaries.Kubelet = []string{executable, "dev", "kubelet"}
	// The cluster outlives ctrl-C, which cancels the WorkflowRun first.
	cluster, err := devcluster.Start(context.WithoutCancel(ctx), options)
	if err != nil {
		return "", nil, explainStart(o.factory, err)
	}
	return cluster.Kubeconfig(), func() {
		fmt.Fprintln(o.factory.IO.ErrOut, "Ending the dev cluster.")
		cluster.Stop()
		<-cluster.Done()
	}, nil
}

// isNoCluster tells whether an error only says that no cluster is running.
func isNoCluster(err error) bool {
	var none *cli.NoClusterError
	return errors.As(err, &none)
}
