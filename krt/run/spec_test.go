package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

func TestBuild(t *testing.T) {
	got, err := build(request{
		name: "nightly", namespace: "team", runtime: "bash", file: "f.sh", script: []byte("echo $1\n"), args: []string{"a", "-b"},
		env: []string{"A=1", "B=x=y", "C=", "A=2"}, requests: []string{"runs=2", "example.com/gpu=1"}, workspace: "ws",
		timeout: ptr.To(90 * time.Second), ttl: ptr.To(2 * time.Second), labels: []string{"team=data"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1alpha1.Run{
		TypeMeta:   metav1.TypeMeta{APIVersion: "kruntimes.io/v1alpha1", Kind: "Run"},
		ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "team", Labels: map[string]string{"team": "data"}},
		Spec: corev1alpha1.RunSpec{
			Runtime: "bash", Source: &corev1alpha1.RunSource{Inline: "echo $1\n"},
			Mode:      corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Args: []string{"a", "-b"}}},
			Env:       []corev1alpha1.EnvVar{{Name: "B", Value: "x=y"}, {Name: "C"}, {Name: "A", Value: "2"}},
			Workspace: &corev1alpha1.WorkspaceReference{Name: "ws"},
			Resources: &corev1alpha1.RunResources{Requests: corev1.ResourceList{"runs": resource.MustParse("2"), "example.com/gpu": resource.MustParse("1")}},
			Timeout:   &metav1.Duration{Duration: 90 * time.Second}, TTLSecondsAfterFinished: ptr.To[int32](2),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGenerateName(t *testing.T) {
	cases := map[string]struct {
		request request
		want    string
	}{
		"a file":                    {request: request{file: "/x/Build_All.v2.sh"}, want: "build-all-v2-"},
		"standard input":            {request: request{file: "-", args: []string{"x"}}, want: "run-"},
		"a command":                 {request: request{args: []string{"/usr/bin/python3", "-m"}}, want: "python3-"},
		"nothing that makes a name": {request: request{args: []string{"/"}}, want: "run-"},
		"a long name":               {request: request{file: strings.Repeat("x", 39) + "-y.sh"}, want: strings.Repeat("x", 39) + "-"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, generateName(tc.request)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	cases := map[string]struct {
		change   func(*request)
		want     string
		wantHint string
	}{
		"no script and no command":      {change: func(r *request) { r.args = nil }, want: "nothing to run", wantHint: "name a script with --file, or write a command after --"},
		"an empty script":               {change: func(r *request) { r.file, r.script = "f.sh", []byte(" \n\t\n") }, want: "the script from f.sh is empty"},
		"an empty standard input":       {change: func(r *request) { r.file = "-" }, want: "the script from standard input is empty"},
		"a script that is too long":     {change: func(r *request) { r.file, r.script = "f.sh", []byte(strings.Repeat("x", maxScript+1)) }, want: "the script from f.sh is larger than 256 KiB, the bound for the script of a Run", wantHint: "put what is large into the Runtime's image, or let the script fetch it"},
		"a program":                     {change: func(r *request) { r.file, r.script = "f", []byte("\x7fELF\xff\xfe") }, want: "the script from f is not UTF-8 text", wantHint: "a Run takes a script, not a program; put programs into the Runtime's image and name them after --"},
		"a name with capitals":          {change: func(r *request) { r.name = "My_Build" }, want: "the name of the Run, \"My_Build\", is not a name that Kubernetes takes: it may hold lower-case letters, digits, '-' and '.', must begin and end with a letter or digit, and have at most 253 characters", wantHint: `"my-build" would do`},
		"a Runtime's name that is none": {change: func(r *request) { r.runtime = "-" }, want: "the name of the Runtime, \"-\", is not a name that Kubernetes takes: it may hold lower-case letters, digits, '-' and '.', must begin and end with a letter or digit, and have at most 253 characters"},
		"env without a value":           {change: func(r *request) { r.env = []string{"HOME"} }, want: "--env HOME has no value", wantHint: "write --env HOME=VALUE; an empty value is fine"},
		"env with a bad name":           {change: func(r *request) { r.env = []string{"1A=x"} }, want: `--env "1A=x": the name "1A" must begin with a letter or _, and hold only letters, digits, '_', '.' and '-'`},
		"env with a reserved name":      {change: func(r *request) { r.env = []string{"KRUNTIME_X=1"} }, want: "--env KRUNTIME_X=1: names that begin with KRUNTIME_ are reserved"},
		"env that is binary":            {change: func(r *request) { r.env = []string{"A=\xff"} }, want: "--env A: the value is not UTF-8 text, and a Run cannot hold it"},
		"a request without quantity":    {change: func(r *request) { r.requests = []string{"runs"} }, want: "--request runs: write it as NAME=QUANTITY, such as runs=2 or example.com/gpu=1"},
		"a request of nonsense":         {change: func(r *request) { r.requests = []string{"runs=many"} }, want: `--request runs=many: "many" is not a quantity such as 1, 500m or 2Gi`},
		"a request of no runs":          {change: func(r *request) { r.requests = []string{"runs=0"} }, want: "--request runs=0: runs must be a whole number of at least 1"},
		"a request of half a run":       {change: func(r *request) { r.requests = []string{"runs=500m"} }, want: "--request runs=500m: runs must be a whole number of at least 1"},
		"a ttl of a part of a second":   {change: func(r *request) { r.ttl = ptr.To(1500 * time.Millisecond) }, want: "--ttl 1.5s: must be whole seconds"},
		"nothing but a pipe":            {change: func(r *request) { r.args, r.piped = nil, true }, want: "nothing to run", wantHint: "to run what standard input holds, add --file -"},
		"a negative request":            {change: func(r *request) { r.requests = []string{"runs=-1"} }, want: "--request runs=-1: the quantity must not be negative"},
		"no time at all":                {change: func(r *request) { r.timeout = ptr.To(time.Duration(0)) }, want: "--timeout 0s: must be at least 1ms"},
		"a negative ttl":                {change: func(r *request) { r.ttl = ptr.To(-time.Second) }, want: "--ttl -1s: must be between 0s and 68 years"},
		"a label without a value":       {change: func(r *request) { r.labels = []string{"x"} }, want: "--label x: write it as KEY=VALUE"},
		"an argument that is binary":    {change: func(r *request) { r.args = []string{"\xff"} }, want: `the argument "\xff" is not UTF-8 text, and a Run cannot hold it`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := request{namespace: "team", runtime: "bash", args: []string{"true"}}
			tc.change(&r)
			_, err := build(r)
			if err == nil {
				t.Fatal("accepted")
			}
			var hint *cli.HintError
			gotHint := ""
			if errors.As(err, &hint) {
				gotHint = hint.Hint
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantHint}, []string{err.Error(), gotHint}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if code := cli.ExitCode(err); code != cli.ExitUsage {
				t.Errorf("exit code %d, want %d", code, cli.ExitUsage)
			}
		})
	}
}

// parsed is what of the options a command line decides.
type parsed struct {
	Name, Runtime, File, DryRun string
	Args                        []string
	Follow, Remove, Quiet       bool
	Timeout, TTL                *time.Duration
}

func TestParsing(t *testing.T) {
	cases := map[string]struct {
		args    []string
		want    parsed
		wantErr string
	}{
		"a command":                {args: []string{"-r", "bash", "--", "echo", "--file"}, want: parsed{Runtime: "bash", Args: []string{"echo", "--file"}, DryRun: "none"}},
		"a name and a file":        {args: []string{"nightly", "-r", "bash", "-f", "f.sh", "--follow", "--rm", "-q"}, want: parsed{Name: "nightly", Runtime: "bash", File: "f.sh", Follow: true, Remove: true, Quiet: true, DryRun: "none"}},
		"a file with arguments":    {args: []string{"-r", "bash", "-f", "f.sh", "--", "a"}, want: parsed{Runtime: "bash", File: "f.sh", Args: []string{"a"}, DryRun: "none"}},
		"times":                    {args: []string{"-r", "bash", "--timeout", "5m", "--ttl", "0s", "--", "x"}, want: parsed{Runtime: "bash", Args: []string{"x"}, Timeout: ptr.To(5 * time.Minute), TTL: ptr.To(time.Duration(0)), DryRun: "none"}},
		"a command without dashes": {args: []string{"-r", "bash", "echo", "hi"}, wantErr: "one NAME at most, but there are 2 words: echo hi"},
		"no Runtime":               {args: []string{"--", "true"}, wantErr: "--runtime is missing"},
		"--rm alone":               {args: []string{"-r", "bash", "--rm", "--", "x"}, wantErr: "--rm needs --follow, for it is krt that deletes the Run after its end"},
		"--follow of a dry run":    {args: []string{"-r", "bash", "--follow", "--dry-run=client", "--", "x"}, wantErr: "--dry-run creates nothing, so there is nothing to --follow"},
		"an unknown dry run":       {args: []string{"-r", "bash", "--dry-run=both", "--", "x"}, wantErr: `invalid argument "both" for "--dry-run" flag: must be client, server or none`},
		"a bare dry run":           {args: []string{"-r", "bash", "--dry-run", "--", "x"}, want: parsed{Runtime: "bash", Args: []string{"x"}, DryRun: "client"}},
		"a dry run by a word":      {args: []string{"-r", "bash", "--dry-run", "server", "--", "x"}, wantErr: `"server" stands alone, as if it were a name`},
		"a time without a unit":    {args: []string{"-r", "bash", "--timeout", "10", "--", "x"}, wantErr: `invalid argument "10" for "--timeout" flag: a duration needs a unit: write 10s, 10m or 10h`},
		"a time that is none":      {args: []string{"-r", "bash", "--ttl", "soon", "--", "x"}, wantErr: `invalid argument "soon" for "--ttl" flag: "soon" is not a duration such as 90s, 5m or 1h30m`},
		"an unknown format":        {args: []string{"-r", "bash", "-o", "foo", "--", "x"}, wantErr: "--output foo: there is no such format"},
		"--follow with -o":         {args: []string{"-r", "bash", "--follow", "-o", "json", "--", "x"}, wantErr: "--follow prints the output of the Run, so -o cannot be given as well"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got parsed
			f := &cli.Factory{IO: genericiooptions.NewTestIOStreamsDiscard(), Name: "krt"}
			cmd := NewCmd(f, func(_ context.Context, o *options) error {
				r := o.request
				got = parsed{Name: r.name, Runtime: r.runtime, File: r.file, DryRun: string(o.dryRun), Args: r.args, Follow: o.follow,
					Remove: o.remove, Quiet: o.quiet, Timeout: r.timeout, TTL: r.ttl}
				return nil
			})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(tc.args)
			gotErr := ""
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, gotErr); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.sh")
	if err := os.WriteFile(file, []byte("from the file"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		file     string
		want     string
		wantCode int
	}{
		"a file":         {file: file, want: "from the file"},
		"standard input": {file: "-", want: "from the stream"},
		"a missing file": {file: file + "x", wantCode: cli.ExitUsage},
		"a directory":    {file: filepath.Dir(file), wantCode: cli.ExitUsage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := readScript(t.Context(), strings.NewReader("from the stream"), tc.file)
			if code := cli.ExitCode(err); string(got) != tc.want || code != tc.wantCode {
				t.Errorf("got %q and exit code %d, want %q and %d", got, code, tc.want, tc.wantCode)
			}
		})
	}
}

func TestReadScriptStopsAtTheBound(t *testing.T) {
	got, err := readScript(t.Context(), endless{}, "-")
	if err != nil || len(got) != maxScript+1 {
		t.Errorf("read %d bytes, error %v; want %d", len(got), err, maxScript+1)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestWantsFollow(t *testing.T) {
	cases := map[string]struct {
		args []string
		want bool
	}{
		"given":                     {args: []string{"run", "--follow", "--bad"}, want: true},
		"given as a value":          {args: []string{"run", "--follow=true"}, want: true},
		"an argument of the script": {args: []string{"run", "--bad", "--", "--follow"}},
		"not given":                 {args: []string{"run"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := wantsFollow(tc.args); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
