package krt

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/version"
)

// invoke runs krt as a process would, without any cluster.
func invoke(ctx context.Context, t *testing.T, in string, signals <-chan os.Signal, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var stdout, stderr bytes.Buffer
	code = Main(ctx, Options{Args: args, In: strings.NewReader(in), Out: &stdout, ErrOut: &stderr, Signals: signals,
		Environ: []string{"HOME=" + t.TempDir()}, Now: time.Now})
	return code, stdout.String(), stderr.String()
}

func TestCommandLines(t *testing.T) {
	const noCluster = "krt: no cluster is configured: found no kubeconfig file and no --server\n" +
		"hint: start a local cluster with `krt dev up`, or name a kubeconfig with --kubeconfig or $KUBECONFIG\n"
	cases := map[string]struct {
		args    []string
		in      string
		want    int
		wantErr string
	}{
		"an unknown command":          {args: []string{"krt", "rnu"}, want: cli.ExitUsage, wantErr: "krt: there is no command \"rnu\"\nhint: did you mean `krt run`?\n"},
		"a word too many":             {args: []string{"krt", "version", "x"}, want: cli.ExitUsage, wantErr: "krt: `krt version` takes no arguments, but there is \"x\"\nhint: see `krt version --help`\n"},
		"a word too many, deeper":     {args: []string{"krt", "dev", "up", "extra"}, want: cli.ExitUsage, wantErr: "krt: `krt dev up` takes no arguments, but there is \"extra\"\nhint: see `krt dev up --help`\n"},
		"an unknown command, deeper":  {args: []string{"krt", "dev", "pu"}, want: cli.ExitUsage, wantErr: "krt: `krt dev` has no command \"pu\"\nhint: did you mean `krt dev run`, `krt dev up`?\n"},
		"what kubectl does":           {args: []string{"krt", "apply", "-f", "x.yaml"}, want: cli.ExitUsage, wantErr: "krt: there is no command \"apply\"\nhint: kubectl has: `kubectl apply -f x.yaml`\n"},
		"what kubectl does, by name":  {args: []string{"krt", "delete", "run", "x"}, want: cli.ExitUsage, wantErr: "krt: there is no command \"delete\"\nhint: kubectl has: `kubectl delete run x`\n"},
		"an unknown shell":            {args: []string{"krt", "completion", "tcsh"}, want: cli.ExitUsage, wantErr: "krt: there is no completion for \"tcsh\"\nhint: supported: bash, fish, powershell, zsh\n"},
		"no shell":                    {args: []string{"krt", "completion"}, want: cli.ExitUsage, wantErr: "krt: name a shell\nhint: supported: bash, fish, powershell, zsh\n"},
		"help about nothing":          {args: []string{"krt", "help", "nonsense"}, want: cli.ExitUsage, wantErr: "krt: there is no command \"nonsense\"\nhint: see `krt --help`\n"},
		"a format that is none":       {args: []string{"krt", "get", "runs", "-o", "foo"}, want: cli.ExitUsage, wantErr: "krt: --output foo: there is no such format\nhint: the formats are: wide, json, yaml, name, jsonpath=…, go-template=…\n"},
		"an unknown flag":             {args: []string{"krt", "get", "--x"}, want: cli.ExitUsage, wantErr: "krt: unknown flag: --x\nhint: see `krt get --help`\n"},
		"an unknown flag to follow":   {args: []string{"krt", "run", "--x", "--follow"}, want: cli.ExitFollow, wantErr: "krt: unknown flag: --x\nhint: see `krt run --help`\n"},
		"a bound that is none":        {args: []string{"krt", "get", "runs", "--request-timeout", "bogus"}, want: cli.ExitUsage, wantErr: "krt: invalid argument \"bogus\" for \"--request-timeout\" flag: \"bogus\" is neither a number of seconds nor a duration such as 90s or 5m\nhint: see `krt get --help`\n"},
		"a bound in the past":         {args: []string{"krt", "get", "runs", "--request-timeout", "-1s"}, want: cli.ExitUsage, wantErr: "krt: invalid argument \"-1s\" for \"--request-timeout\" flag: \"-1s\" is neither a number of seconds nor a duration such as 90s or 5m\nhint: see `krt get --help`\n"},
		"a bound in seconds":          {args: []string{"krt", "get", "runs", "--request-timeout", "5"}, want: cli.ExitUnreachable, wantErr: noCluster},
		"a wait that is over":         {args: []string{"krt", "wait", "x", "--timeout", "-1s"}, want: cli.ExitUsage, wantErr: "krt: invalid argument \"-1s\" for \"--timeout\" flag: must not be negative\nhint: see `krt wait --help`\n"},
		"a directory without a name":  {args: []string{"krt", "dev", "down", "--state-dir", ""}, want: cli.ExitUsage, wantErr: "krt: invalid argument \"\" for \"--state-dir\" flag: must not be empty\nhint: see `krt dev down --help`\n"},
		"no cluster":                  {args: []string{"krt", "get", "runs"}, want: cli.ExitUnreachable, wantErr: noCluster},
		"no cluster to follow in":     {args: []string{"krt", "run", "-r", "bash", "--follow", "--", "true"}, want: cli.ExitFollow, wantErr: noCluster},
		"no cluster for the plugin":   {args: []string{"/usr/bin/kubectl-krt", "get", "runs"}, want: cli.ExitUnreachable, wantErr: strings.ReplaceAll(noCluster, "`krt", "`kubectl krt")},
		"nothing that listens":        {args: []string{"krt", "get", "runs", "--server", "http://127.0.0.1:1"}, want: cli.ExitUnreachable, wantErr: "krt: the cluster at http://127.0.0.1:1 could not be reached: dial tcp 127.0.0.1:1: connect: connection refused\nhint: is it up? `krt dev status` tells about a local one; --kubeconfig and --context choose another\n"},
		"an empty script, no request": {args: []string{"krt", "run", "-r", "bash", "-f", "-"}, want: cli.ExitUsage, wantErr: "krt: the script from standard input is empty\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := invoke(t.Context(), t, tc.in, nil, tc.args...)
			if code != tc.want || out != "" {
				t.Errorf("exit code %d and stdout %q, want %d and none", code, out, tc.want)
			}
			if diff := cmp.Diff(tc.wantErr, errOut); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADryRunNeedsNoCluster(t *testing.T) {
	code, out, errOut := invoke(t.Context(), t, "echo hi\n", nil, "krt", "run", "-r", "bash", "-f", "-", "--dry-run=client")
	want := `apiVersion: kruntimes.io/v1alpha1
kind: Run
metadata:
  generateName: run-
  namespace: default
spec:
  mode:
    task: {}
  runtime: bash
  source:
    inline: |
      echo hi
`
	if code != cli.ExitOK || errOut != "" {
		t.Errorf("exit code %d, stderr %q", code, errOut)
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// neverEnding is a standard input at which a person does not type anything.
type neverEnding struct{ read chan struct{} }

func (n neverEnding) Read([]byte) (int, error) {
	close(n.read)
	select {}
}

func TestInterruptWhileAScriptIsTyped(t *testing.T) {
	signals := make(chan os.Signal, 1)
	in := neverEnding{read: make(chan struct{})}
	go func() {
		<-in.read
		signals <- os.Interrupt
	}()
	var stderr bytes.Buffer
	code := Main(t.Context(), Options{Args: []string{"krt", "run", "-r", "bash", "-f", "-"}, In: in, Out: &stderr, ErrOut: &stderr, Signals: signals, Now: time.Now})
	if code != cli.ExitInterrupted || stderr.String() != "" {
		t.Errorf("exit code %d, output %q", code, stderr.String())
	}
}

// Every command says what it does, and none has lost the way to the flags that all take.
func TestEveryCommandHasHelp(t *testing.T) {
	root := NewCommand(cli.NewFactory(genericiooptions.NewTestIOStreamsDiscard(), time.Now))
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short help %q", cmd.CommandPath(), cmd.Short)
		}
		if usage := cmd.UsageString(); cmd != root && !strings.Contains(usage, `see "krt options"`) {
			t.Errorf("%s: the usage does not lead to krt options:\n%s", cmd.CommandPath(), usage)
		}
		for _, sub := range cmd.Commands() {
			if !sub.Hidden {
				visit(sub)
			}
		}
	}
	visit(root)
}

func TestUsageOfThePlugin(t *testing.T) {
	f := cli.NewFactory(genericiooptions.NewTestIOStreamsDiscard(), time.Now)
	f.Name = "kubectl krt"
	cmd, _, err := NewCommand(f).Find([]string{"get"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cmd.UseLine(), "kubectl krt get {runs|runtimes|workflowruns|workflows|actions|workspaces} [NAME...] [flags]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := "  kubectl krt get runs\n"; !strings.HasPrefix(cmd.Example, want) {
		t.Errorf("example %q, want it to begin with %q", cmd.Example, want)
	}
}

func TestVersionFlag(t *testing.T) {
	code, out, errOut := invoke(t.Context(), t, "", nil, "krt", "--version")
	if want := "krt " + version.String() + "\n"; code != cli.ExitOK || out != want || errOut != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, out, errOut, want)
	}
}

func TestCompletionOfFormats(t *testing.T) {
	code, out, _ := invoke(t.Context(), t, "", nil, "krt", "__complete", "get", "runs", "-o", "js")
	if want := "json\njsonpath=\njsonpath-file=\njsonpath-as-json=\n:6\n"; code != cli.ExitOK || out != want {
		t.Errorf("exit code %d, stdout %q; want %q", code, out, want)
	}
}
