package lint

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/test/golden"
)

// invoke runs the command as krt would.
func invoke(t *testing.T, in string, args ...string) (out string, err error) {
	t.Helper()
	var buf bytes.Buffer
	f := &cli.Factory{IO: genericiooptions.IOStreams{In: strings.NewReader(in), Out: &buf, ErrOut: &buf}, Name: "krt"}
	cmd := NewCmd(f, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...)) // nil would mean those of the test binary
	err = cmd.ExecuteContext(t.Context())
	return buf.String(), err
}

func TestFindings(t *testing.T) {
	for name, args := range map[string][]string{
		"wrong.txt":        {"-f", "testdata/wrong.yaml"},
		"wrong-github.txt": {"-f", "testdata/wrong.yaml", "-o", "github"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := invoke(t, "", args...)
			if code := cli.ExitCode(err); code != cli.ExitFailed {
				t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
			}
			golden.Check(t, name, out)
		})
	}
}

// The places in the golden file are compared with the file itself: at each of them stands what the message is about.
func TestExpressionsAreWhereTheyAreSaidToBe(t *testing.T) {
	content, err := os.ReadFile("testdata/wrong.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(content), "\n")
	_, findings, err := CheckContent(t.Context(), "wrong.yaml", content)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, f := range findings {
		_, rest, found := strings.Cut(f.Message, ": ${{")
		if !found || f.Warning {
			continue
		}
		expression, _, _ := strings.Cut("${{"+rest, ": ")
		got := string([]rune(lines[f.Line-1])[f.Column-1:])
		if !strings.HasPrefix(got, expression) {
			t.Errorf("%s: there stands %q", f, got)
		}
		checked++
	}
	if checked < 7 {
		t.Errorf("compared %d expressions, want 7 at least", checked)
	}
}

func TestOurOwnFilesAreRight(t *testing.T) {
	for _, dir := range []string{"../../examples", "../../config/samples"} {
		out, err := invoke(t, "", "-f", dir, "--strict")
		if err != nil || out != "" {
			t.Errorf("%s: error %v, findings:\n%s", filepath.Base(dir), err, out)
		}
	}
}

func TestInput(t *testing.T) {
	const warned = `apiVersion: workflows.kruntimes.io/v1alpha1
kind: Action
metadata: {name: a}
spec:
  inputs: {who: {}}
  steps:
  - {name: s, run: "echo ${{ inputs.who }}"}
`
	const warning = "<stdin>:7:26: warning: the value of inputs.who becomes part of the script, whatever is in it: pass it through env, and read the variable\n"
	cases := map[string]struct {
		in       string
		args     []string
		want     string
		wantErr  string
		wantCode int
	}{
		"warnings alone":             {in: warned, args: []string{"-f", "-"}, want: warning},
		"warnings that count":        {in: warned, args: []string{"-f", "-", "--strict"}, want: warning, wantErr: "exit code 1", wantCode: cli.ExitFailed},
		"nothing of ours":            {in: "apiVersion: argoproj.io/v1\nkind: Workflow\nspec: {x: a}\n", args: []string{"-"}, want: ""},
		"no manifest":                {in: "- a\n", args: []string{"-f", "-"}, want: "<stdin>:1:1: a manifest is a mapping with apiVersion, kind and more, and this is none\n", wantErr: "exit code 1", wantCode: cli.ExitFailed},
		"no kind":                    {in: "# x\nmetadata: {}\n", args: []string{"-f", "-"}, want: "<stdin>:2:1: a manifest needs apiVersion and kind\n", wantErr: "exit code 1", wantCode: cli.ExitFailed},
		"a tab":                      {in: "a:\n\tb: c\n", args: []string{"-f", "-"}, want: "<stdin>:2:1: not valid YAML: found character that cannot start any token\n", wantErr: "exit code 1", wantCode: cli.ExitFailed},
		"empty documents":            {in: "---\n---\n# only a comment\n---\n", args: []string{"-f", "-"}},
		"no file":                    {wantErr: "--file is missing", wantCode: cli.ExitUsage},
		"a file that is not there":   {args: []string{"-f", "testdata/nope.yaml"}, wantErr: "finding the manifests: stat testdata/nope.yaml: no such file or directory", wantCode: cli.ExitUsage},
		"a format that is not there": {args: []string{"-f", "-", "-o", "xml"}, wantErr: "--output xml: there is no such format", wantCode: cli.ExitUsage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := invoke(t, tc.in, tc.args...)
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantErr}, []string{out, gotErr}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if code := cli.ExitCode(err); code != tc.wantCode {
				t.Errorf("exit code %d, want %d", code, tc.wantCode)
			}
		})
	}
}

// FuzzRead feeds anything: a linter that panics on a wrong file is of no use.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"testdata/wrong.yaml", "../../examples/ci.yaml"} {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("apiVersion: workflows.kruntimes.io/v1alpha1\nkind: WorkflowRun\nspec: &a {jobs: {b: {<<: {steps: [{run: '${{'}]}}}}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		_, findings, err := CheckContent(context.WithoutCancel(t.Context()), "f", content)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(content, []byte("\n")) + 1
		for _, finding := range findings {
			if finding.Line < 1 || finding.Line > lines || finding.Column < 1 {
				t.Errorf("a place outside of the file: %s", finding)
			}
		}
	})
}
