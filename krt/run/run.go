// Package run is the command "krt run": it creates a Run and, if asked to, follows it to its end.
package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
)

// options are the parsed command line.
type options struct {
	request request
	follow  bool
	remove  bool
	quiet   bool
	dryRun  cli.DryRun
	print   *genericclioptions.PrintFlags
	factory *cli.Factory
}

const long = `Create a Run: a script from a file, or a command, executed by a warm Pod of a Runtime.

Without NAME a name is made from that of the file or command. The name of the new Run is printed, unless --follow is
given: then the output of the Run is, stdout to stdout and stderr to stderr, while everything that krt itself has to
say goes to stderr. A Runtime that does not exist is no error, for it may appear later: the Run waits for it, and a
warning names the Runtimes that there are.

Exit codes with --follow:
  the script's own   when it ended by itself; 128+n when signal n ended it
  1                  when the Run failed although no exit code tells so (see its reason)
  124                when the Run ran into --timeout
  125                when krt itself failed: wrong flags, no cluster, Run deleted by somebody
  130                when the Run was cancelled, or krt was interrupted
  141                when nobody reads the output any more, as in "krt run … | head"
  143                when krt was told to terminate

The first ctrl-C cancels the Run and keeps following it to its end; the second leaves at once. SIGTERM does the same, and
a reader of the output who leaves cancels the Run as well. Standard input is not handed to the Run.`

const example = `  # Run a script, see its output, get its exit code
  krt run --runtime sh --file examples/scripts/hello.sh --follow

  # The same with an argument for the script, and nothing left behind
  krt run --runtime sh --file examples/scripts/hello.sh --follow --rm -- Ada

  # Run a command under a name of your own, and come back later
  krt run nightly --runtime sh --timeout 1h -- sh -c 'sleep 10; date'
  krt logs nightly -f

  # A command in a directory that other Runs share
  krt run --runtime sh --workspace shared --follow -- ls -l

  # A script from standard input
  echo 'echo "hello from $KRUNTIME_RUN_NAME"' | krt run --runtime sh --file - --follow

  # See the manifest, to keep it in a file
  krt run nightly --runtime sh --file examples/scripts/hello.sh --dry-run -o yaml`

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f, print: genericclioptions.NewPrintFlags("created").WithTypeSetter(cli.NewScheme())}
	cmd := &cobra.Command{
		Use:     "run [NAME] --runtime RUNTIME {--file FILE [-- ARG...] | -- COMMAND [ARG...]}",
		Short:   "Run a script or command in a Runtime",
		Long:    long,
		Example: example,
		Args:    cobra.ArbitraryArgs,
	}
	var timeout, ttl time.Duration
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("timeout") {
			opts.request.timeout = &timeout
		}
		if cmd.Flags().Changed("ttl") {
			opts.request.ttl = &ttl
		}
		err := opts.complete(args, cmd.ArgsLenAtDash())
		if err == nil {
			err = runF(cmd.Context(), opts)
		}
		return ownError(opts.follow, err)
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if parent := cmd.Parent(); parent != nil {
			err = parent.FlagErrorFunc()(cmd, err)
		}
		return ownError(wantsFollow(f.Args), err)
	})
	opts.addFlags(cmd)
	flags := cmd.Flags()
	cli.DurationVar(flags, &timeout, "timeout", "Stop the script after this `duration` of execution; waiting does not count")
	cli.DurationVar(flags, &ttl, "ttl", "Have the cluster delete the Run this `duration` after its end, in whole seconds (default: never)")
	complete.Flag(cmd, "runtime", complete.Runtimes(f))
	complete.Flag(cmd, "workspace", complete.Workspaces(f))
	complete.Flag(cmd, "dry-run", complete.Words(cli.DryRuns()...))
	return cmd
}

func (o *options) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&o.request.runtime, "runtime", "r", "", "The `name` of the Runtime that executes the Run")
	flags.StringVarP(&o.request.file, "file", "f", "", "Run the script in this `file`; - reads standard input")
	flags.StringArrayVarP(&o.request.env, "env", "e", nil, "Set an environment variable, as `NAME=VALUE`; may be repeated")
	flags.StringArrayVar(&o.request.requests, "request", nil, "Take so many units of the Pod's capacity, as `NAME=QUANTITY`; may be repeated (default runs=1)")
	flags.StringArrayVarP(&o.request.labels, "label", "l", nil, "Put a label on the Run, as `KEY=VALUE`; may be repeated")
	flags.StringVar(&o.request.workspace, "workspace", "", "Execute in the PersistentWorkspace of this `name`, which must be there and of the same Runtime; you need the right to use it")
	flags.BoolVar(&o.follow, "follow", false, "Show the output, wait for the end, and end with the script's exit code")
	flags.BoolVar(&o.remove, "rm", false, "With --follow: delete the Run after its end")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "With --follow: show the output of the Run and errors only")
	cli.AddDryRunFlag(flags, &o.dryRun, "Print the Run instead of creating it. The `mode` is client (nothing is sent), server (the cluster checks it) or none")
	cli.AddPrintFlags(cmd, o.print)
}

// wantsFollow looks for --follow in a command line that could not be parsed to its end.
func wantsFollow(args []string) bool {
	if dash := slices.Index(args, "--"); dash >= 0 {
		args = args[:dash]
	}
	return slices.Contains(args, "--follow") || slices.Contains(args, "--follow=true")
}

// ownError gives errors of krt the exit code that tells them from those of the script.
func ownError(follow bool, err error) error {
	var exit *cli.ExitError
	switch {
	case err == nil, !follow:
		return err
	case errors.As(err, &exit) && exit.Err == nil: // how the script ended
		return err
	case cli.ExitCode(err) == cli.ExitInterrupted:
		return err
	}
	return &cli.ExitError{Code: cli.ExitFollow, Err: err}
}

// complete takes the arguments apart and checks what can be checked without reading anything.
func (o *options) complete(args []string, dash int) error {
	names := args
	if dash >= 0 {
		names, o.request.args = args[:dash], args[dash:]
	}
	if err := o.dryRun.CheckWords(names); err != nil {
		return err
	}
	if len(names) > 1 {
		return cli.WithHint(cli.Usagef("one NAME at most, but there are %d words: %s", len(names), strings.Join(names, " ")),
			"write a command, or arguments for the script, after --: `krt run %s -- %s`", names[0], strings.Join(names[1:], " "))
	}
	if len(names) == 1 {
		o.request.name = names[0]
	}
	switch {
	case o.request.runtime == "":
		return cli.WithHint(cli.Usagef("--runtime is missing"), "see the Runtimes there are with `%s get runtimes`", o.factory.Name)
	case o.dryRun != cli.DryRunNone && o.follow:
		return cli.Usagef("--dry-run creates nothing, so there is nothing to --follow")
	case o.remove && !o.follow:
		return cli.WithHint(cli.Usagef("--rm needs --follow, for it is krt that deletes the Run after its end"),
			"to have the cluster delete it, use --ttl 0s")
	case o.follow && *o.print.OutputFormat != "":
		return cli.Usagef("--follow prints the output of the Run, so -o cannot be given as well")
	case *o.print.OutputFormat != "":
		_, err := cli.Printer(o.print)
		return err
	}
	return nil
}

// nameAfterFile tells whether the name of the Run stands where a person may have meant an argument of the script.
func (o *options) nameAfterFile() bool {
	if o.request.name == "" || o.request.file == "" {
		return false
	}
	args := o.factory.Args
	if dash := slices.Index(args, "--"); dash >= 0 {
		args = args[:dash]
	}
	file := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--file") || strings.HasPrefix(arg, "-f") })
	return file >= 0 && slices.Index(args, o.request.name) > file
}
