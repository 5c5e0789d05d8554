// Package krt is the command line of kruntimes: the root command, and the way from its arguments to an exit code.
package krt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/version"
)

// Options is what the process hands to krt.
type Options struct {
	// Args is the command line, the program itself included.
	Args []string
	// In, Out and ErrOut are the standard streams.
	In          io.Reader
	Out, ErrOut io.Writer
	// Signals delivers what ends a command: interrupts and requests to terminate.
	Signals <-chan os.Signal
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Now is the clock.
	Now func() time.Time
}

// Main runs one command line and returns the exit code of the process.
func Main(ctx context.Context, o Options) int {
	f := cli.NewFactory(genericiooptions.IOStreams{In: o.In, Out: o.Out, ErrOut: o.ErrOut}, o.Now)
	if strings.TrimSuffix(filepath.Base(o.Args[0]), ".exe") == "kubectl-krt" {
		f.Name = "kubectl krt"
	}
	f.Args, f.Environ = o.Args[1:], o.Environ
	f.Fallback = func() (string, bool) { return devKubeconfig(o.Environ) }
	ctx, f.Interrupts = cli.NewInterrupts(ctx)

	done := make(chan error, 1)
	go func() { done <- NewCommand(f).ExecuteContext(ctx) }()
	for {
		select {
		case err := <-done:
			return report(f, err)
		case sig := <-o.Signals:
			if !f.Interrupts.Notify(sig) {
				return cli.SignalCode(sig)
			}
		}
	}
}

// devKubeconfig returns the kubeconfig of the local cluster of "krt dev up" in its usual place, if one runs there, and an
// empty one while it is only starting.
func devKubeconfig(environ []string) (string, bool) {
	dir, err := devcluster.DefaultStateDir(environ)
	if err != nil {
		return "", false
	}
	state, err := devcluster.ReadState(dir)
	if err != nil || state.Phase != devcluster.Ready {
		return "", err == nil
	}
	return state.Kubeconfig, true
}

// report tells a person about err and returns its exit code.
func report(f *cli.Factory, err error) int {
	if err == nil {
		return cli.ExitOK
	}
	code := cli.ExitCode(err)
	if f.Interrupts.Seen() {
		if code = f.Interrupts.ExitCode(); errors.Is(err, context.Canceled) {
			return code // this is what was asked for
		}
	}
	var exit *cli.ExitError
	switch {
	case errors.As(err, &exit) && exit.Err == nil:
		return code
	case errors.Is(err, syscall.EPIPE): // whoever read the output has seen enough
		return cli.SignalCode(syscall.SIGPIPE)
	}
	fmt.Fprintln(f.IO.ErrOut, cli.Explain(f, err))
	return code
}

// NewCommand returns the root command with everything below it.
func NewCommand(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "krt",
		Short:         "Run scripts in warm Pods, and look after them",
		Long:          long,
		Args:          cli.KnownCommand,
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	if f.Name != "krt" {
		cmd.Use = "kubectl-krt"
		cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: f.Name}
	}
	cmd.SetArgs(f.Args)
	cmd.SetIn(f.IO.In)
	cmd.SetOut(f.IO.Out)
	cmd.SetErr(f.IO.ErrOut)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if !cmd.HasParent() && len(f.Args) > 0 && !strings.HasPrefix(f.Args[0], "-") {
			return cli.KnownCommand(cmd, f.Args) // it is the word that is wrong; its flags follow from that
		}
		return cli.WithHint(cli.Usagef("%w", err), "see `%s --help`", cmd.CommandPath())
	})
	cli.AddConfigFlags(cmd.PersistentFlags(), f.ConfigFlags)
	cmd.SetVersionTemplate("{{.DisplayName}} {{.Version}}\n")
	cmd.SetUsageTemplate(usageTemplate(cmd.UsageTemplate()))
	cmd.AddGroup(
		&cobra.Group{ID: groupRuns, Title: "Runs:"},
		&cobra.Group{ID: groupWorkflows, Title: "Workflows:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	cmd.AddCommand(commands(f)...)
	cmd.SetHelpCommandGroupID(groupOther)
	cmd.SetCompletionCommandGroupID(groupOther)
	correctBuiltins(cmd)
	makeUsageErrors(cmd)
	if f.Name != "krt" {
		renameExamples(cmd, f.Name)
	}
	return cmd
}

// makeUsageErrors gives the errors of all argument checks the exit code of a wrong command line.
func makeUsageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		makeUsageErrors(sub)
	}
}

var programInExample = regexp.MustCompile(`\bkrt (\w)`)

// renameExamples makes the examples of all commands say how the program was called.
func renameExamples(cmd *cobra.Command, name string) {
	cmd.Example = programInExample.ReplaceAllString(cmd.Example, name+" $1")
	for _, sub := range cmd.Commands() {
		renameExamples(sub, name)
	}
}

const long = `krt dispatches scripts and commands as Runs into the warm Pods of a Runtime, and shows what becomes of them.

The cluster is that of your kubeconfig, as for kubectl. Where you have none, it is that of "krt dev up", if it runs.
What krt has no command for, such as applying a manifest or deleting a Run, kubectl does.

Exit codes: 0 success, 1 the work failed, 2 the command line is wrong, 3 the cluster could not be reached,
130 interrupted, 143 told to terminate. "krt run --follow" ends with the script's own exit code, with 124 when the Run ran into its
timeout, and with 125 for errors of krt itself.`
