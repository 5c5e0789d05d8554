package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/krt/cli"
)

// endPatience is how long "krt dev down" waits for a cluster to end by itself.
const endPatience = 40 * time.Second

func addStateDir(flags *pflag.FlagSet, dir *string) {
	flags.Var((*directory)(dir), "state-dir", "`Directory` of the cluster (default: kruntimes/dev in $XDG_STATE_HOME or ~/.local/state)")
}

// directory is the value of a flag that names a directory. An empty one, such as that of a variable that is not set, must
// not end another cluster than the one that is meant.
type directory string

// Set implements pflag.Value.
func (d *directory) Set(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	*d = directory(text)
	return nil
}

// Type implements pflag.Value.
func (*directory) Type() string { return "directory" }

// String implements pflag.Value.
func (d *directory) String() string { return string(*d) }

// command writes a command of "krt dev" for the cluster in dir, as a person types it.
func command(f *cli.Factory, verb, dir string) string {
	text := f.Name + " dev " + verb
	if usual, err := devcluster.DefaultStateDir(f.Environ); err == nil && usual == dir {
		return text
	}
	return text + " --state-dir " + quoted(dir)
}

// quoted writes the name of a file as a shell takes it.
func quoted(path string) string {
	path = cli.Visible(path)
	if strings.ContainsAny(path, " '\"\\$`*?[]{}()<>|&;#~!") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// stateDir returns the directory that is meant.
func stateDir(f *cli.Factory, chosen string) (string, error) {
	if chosen != "" {
		return filepath.Abs(chosen)
	}
	return devcluster.DefaultStateDir(f.Environ)
}

// runningState returns the state of a running cluster, or an error that says how to start one.
func runningState(f *cli.Factory, chosen string) (devcluster.State, string, error) {
	dir, err := stateDir(f, chosen)
	if err != nil {
		return devcluster.State{}, "", err
	}
	state, err := devcluster.ReadState(dir)
	if errors.Is(err, devcluster.ErrNotRunning) {
		err = cli.WithHint(&cli.NoClusterError{Reason: "no dev cluster is running in " + dir}, "start one with `%s`", command(f, "up", dir))
	}
	return state, dir, err
}

// downOptions are the parsed command line of "krt dev down".
type downOptions struct {
	stateDir string
	factory  *cli.Factory
}

func newDown(f *cli.Factory, runF runner[*downOptions]) *cobra.Command {
	if runF == nil {
		runF = runDown
	}
	opts := &downOptions{factory: f}
	cmd := &cobra.Command{
		Use: "down", Short: "End the cluster", Args: cli.NoArgs,
		Long: "End the cluster with every process in it, wherever it was started. When none is running, remove what one that was killed has left.",
		RunE: func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), opts) },
	}
	addStateDir(cmd.Flags(), &opts.stateDir)
	return cmd
}

func runDown(ctx context.Context, o *downOptions) error {
	dir, err := stateDir(o.factory, o.stateDir)
	if err != nil {
		return err
	}
	err = devcluster.Signal(dir, syscall.SIGTERM)
	if errors.Is(err, devcluster.ErrNotRunning) {
		fmt.Fprintln(o.factory.IO.ErrOut, "No dev cluster is running in", dir)
		return o.clean(ctx, dir)
	}
	if err != nil {
		return err
	}
	if ended, err := awaitEnd(ctx, dir, endPatience); ended || err != nil {
		return reportEnd(o, err)
	}
	fmt.Fprintf(o.factory.IO.ErrOut, "It does not end within %s; killing it.\n", endPatience)
	if err := devcluster.Signal(dir, syscall.SIGKILL); err != nil && !errors.Is(err, devcluster.ErrNotRunning) {
		return err
	}
	_, err = awaitEnd(ctx, dir, endPatience)
	return errors.Join(reportEnd(o, err), o.clean(ctx, dir))
}

// clean removes what a cluster that was killed had no time to remove.
func (o *downOptions) clean(ctx context.Context, dir string) error {
	cleaned, err := devcluster.Clean(ctx, dir, clock.RealClock{})
	if cleaned && err == nil {
		fmt.Fprintln(o.factory.IO.ErrOut, "Removed what one that was killed had left there.")
	}
	return err
}

func reportEnd(o *downOptions, err error) error {
	if err == nil {
		fmt.Fprintln(o.factory.IO.ErrOut, "The dev cluster has ended.")
	}
	return err
}

// awaitEnd waits until no cluster runs in dir any more, for as long as patience lasts.
func awaitEnd(ctx context.Context, dir string, patience time.Duration) (ended bool, err error) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		_, err := devcluster.ReadState(dir)
		if errors.Is(err, devcluster.ErrNotRunning) {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-over.C:
			return false, nil
		case <-ticker.C:
		}
	}
}

// kubeconfigOptions are the parsed command line of "krt dev kubeconfig".
type kubeconfigOptions struct {
	stateDir string
	path     bool
	factory  *cli.Factory
}

func newKubeconfig(f *cli.Factory, runF runner[*kubeconfigOptions]) *cobra.Command {
	if runF == nil {
		runF = runKubeconfig
	}
	opts := &kubeconfigOptions{factory: f}
	cmd := &cobra.Command{
		Use: "kubeconfig", Short: "Print the cluster's kubeconfig", Args: cli.NoArgs,
		Long:    "Print the kubeconfig of the running cluster, whose user may do everything.",
		Example: `  export KUBECONFIG="$(krt dev kubeconfig --path)"`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), opts) },
	}
	addStateDir(cmd.Flags(), &opts.stateDir)
	cmd.Flags().BoolVar(&opts.path, "path", false, "Print the name of the file and not what is in it")
	return cmd
}

func runKubeconfig(_ context.Context, o *kubeconfigOptions) error {
	state, _, err := runningState(o.factory, o.stateDir)
	if err != nil {
		return err
	}
	if state.Kubeconfig == "" {
		return cli.WithHint(&cli.NoClusterError{Reason: "the dev cluster is only starting"}, "try again in a moment")
	}
	if o.path {
		_, err := fmt.Fprintln(o.factory.IO.Out, state.Kubeconfig)
		return err
	}
	content, err := os.ReadFile(state.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	_, err = o.factory.IO.Out.Write(content)
	return err
}
