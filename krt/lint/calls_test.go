package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// manifest is an object of the workflow language with a spec.
func manifest(kind, name, spec string) string {
	return "apiVersion: workflows.kruntimes.io/v1alpha1\nkind: " + kind + "\nmetadata: {" + name + "}\nspec:\n" + spec
}

// inDirectory runs the command on files in a directory, and leaves that out of the findings.
func inDirectory(t *testing.T, f *cli.Factory, files map[string]string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	f.IO, f.Name = genericiooptions.IOStreams{Out: &out, ErrOut: &out}, "krt"
	cmd := NewCmd(f, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"-f", dir}, args...))
	err := cmd.ExecuteContext(t.Context())
	return strings.ReplaceAll(out.String(), dir+"/", ""), err
}

const (
	smoke = "  inputs: {url: {required: true}}\n  jobs: {get: {runs-on: sh, steps: [{name: get, run: \"true\"}]}}\n"
	tools = "  inputs: {version: {default: \"1\"}}\n  steps: [{name: s, run: \"true\"}]\n"
)

func TestCallsAmongFiles(t *testing.T) {
	cases := map[string]struct {
		files    map[string]string
		args     []string
		want     string
		wantCode int
	}{
		"that are right": {files: map[string]string{
			"a.yaml": manifest("WorkflowRun", "generateName: ci-", "  jobs:\n    deploy: {uses: smoke, with: {url: x}}\n    build: {runs-on: sh, steps: [{name: t, uses: tools}]}\n"),
			"b.yaml": manifest("Workflow", "name: smoke", smoke) + "---\n" + manifest("Action", "name: tools", tools),
		}, args: []string{"--strict"}},
		"with inputs that are wrong": {wantCode: cli.ExitFailed, files: map[string]string{
			"a.yaml": manifest("WorkflowRun", "name: ci", "  jobs:\n    deploy:\n      uses: smoke\n      with:\n        ulr: x\n    build: {runs-on: sh, steps: [{name: t, uses: tools, with: {z: a}}]}\n"),
			"b.yaml": manifest("Workflow", "name: smoke", smoke) + "---\n" + manifest("Action", "name: tools", tools),
		}, want: `a.yaml:8:7: spec.jobs[deploy].with: Workflow "smoke" requires the input "url": give it a value
a.yaml:9:14: spec.jobs[deploy].with[ulr]: "ulr" is not an input of Workflow "smoke": did you mean "url"?
a.yaml:10:67: spec.jobs[build].steps[0].with[z]: "z" is not an input of Action "tools": remove it, or declare it in the inputs there
`},
		"in a circle": {wantCode: cli.ExitFailed, files: map[string]string{
			"a.yaml": manifest("Workflow", "name: a", "  jobs: {x: {uses: b}}\n"), "b.yaml": manifest("Workflow", "name: b", "  jobs: {x: {uses: a}}\n"),
			"c.yaml": manifest("Workflow", "name: c", "  jobs: {x: {uses: c}}\n"),
		}, want: "a.yaml:5:20: spec.jobs[x].uses: workflow call cycle: a -> b -> a\nb.yaml:5:20: spec.jobs[x].uses: workflow call cycle: b -> a -> b\nc.yaml:5:20: spec.jobs[x].uses: workflow call cycle: c -> c\n"},
		"of what is elsewhere": {files: map[string]string{
			"a.yaml": manifest("Workflow", "name: a", "  jobs:\n    x: {uses: b}\n    z: {runs-on: sh, steps: [{name: s, uses: c, with: {k: v}}]}\n"),
			"d.yaml": manifest("Workflow", "name: d", "  jobs: {x: {uses: a}}\n"),
		}, want: "a.yaml:6:15: warning: spec.jobs[x].uses: the Workflow \"b\" is not in these files, so that the call is not checked\n" +
			"a.yaml:7:46: warning: spec.jobs[z].steps[0].uses: the Action \"c\" is not in these files, so that the call is not checked\n"},
		"of what is elsewhere, strictly": {args: []string{"--strict"}, wantCode: cli.ExitFailed,
			files: map[string]string{"a.yaml": manifest("Workflow", "name: a", "  jobs: {x: {uses: b}}\n")},
			want:  "a.yaml:5:20: warning: spec.jobs[x].uses: the Workflow \"b\" is not in these files, so that the call is not checked\n"},
		"of what is in another namespace": {files: map[string]string{
			"a.yaml": manifest("Workflow", "name: a, namespace: one", "  jobs: {x: {uses: b}, z: {uses: c}}\n"),
			"b.yaml": manifest("Workflow", "name: b, namespace: two", smoke), "c.yaml": manifest("Workflow", "name: c", "  jobs: {get: {runs-on: sh, steps: [{name: get, run: \"true\"}]}}\n"),
		}, want: "a.yaml:5:20: warning: spec.jobs[x].uses: the Workflow \"b\" is not in these files, so that the call is not checked\n"},
		"of one that calls wrongly itself": {wantCode: cli.ExitFailed, files: map[string]string{
			"a.yaml": manifest("WorkflowRun", "name: ci", "  jobs: {x: {uses: b}}\n"), "b.yaml": manifest("Workflow", "name: b", "  jobs: {z: {uses: smoke}}\n"),
			"c.yaml": manifest("Workflow", "name: smoke", smoke),
		}, want: "a.yaml:5:20: spec.jobs[x].uses: Workflow \"b\": spec.jobs[z].with: Workflow \"smoke\" requires the input \"url\": give it a value\n" +
			"b.yaml:5:10: spec.jobs[z].with: Workflow \"smoke\" requires the input \"url\": give it a value\n"},
		"with a name twice": {files: map[string]string{
			"a.yaml": manifest("Workflow", "name: smoke", smoke), "b.yaml": manifest("Workflow", "name: smoke", smoke) + "---\n" + manifest("Workflow", "name: smoke, namespace: x", smoke),
		}, want: "b.yaml:3:18: warning: there is a Workflow \"smoke\" already, in a.yaml:1:1\n"},
		"named twice": {files: map[string]string{"a.yaml": manifest("Workflow", "name: smoke", smoke)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := inDirectory(t, &cli.Factory{}, tc.files, tc.args...)
			if diff := cmp.Diff(tc.want, out); diff != "" || cli.ExitCode(err) != tc.wantCode {
				t.Errorf("exit code %d, want %d (-want +got):\n%s", cli.ExitCode(err), tc.wantCode, diff)
			}
		})
	}
}

func TestCallsAreLookedForInTheCluster(t *testing.T) {
	steps := []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}
	in := func(namespace, name string, inputs ...string) client.Object {
		w := &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		w.Spec.Jobs, w.Spec.Inputs = map[string]workflowsv1alpha1.Job{"j": {RunsOn: "sh", Steps: steps}}, map[string]workflowsv1alpha1.Input{}
		for _, input := range inputs {
			w.Spec.Inputs[input] = workflowsv1alpha1.Input{Required: true}
		}
		return w
	}
	c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(in("team", "there", "x"), in("other", "there"),
		&workflowsv1alpha1.Action{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "tools"}, Spec: workflowsv1alpha1.ActionSpec{Steps: steps}}).Build()
	f := &cli.Factory{Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil }}
	out, err := inDirectory(t, f, map[string]string{
		"a.yaml": manifest("Workflow", "name: a", "  jobs:\n    one: {uses: there}\n    two: {uses: nowhere}\n    three: {uses: b}\n    four: {runs-on: sh, steps: [{name: s, uses: tools}, {name: t, uses: toolz}]}\n"),
		"b.yaml": manifest("Workflow", "name: b, namespace: other", "  jobs: {x: {uses: there}}\n"),
		"c.yaml": manifest("Workflow", "name: c, namespace: team", "  jobs: {x: {uses: d}}\n") + "---\n" + manifest("Workflow", "name: d", "  jobs: {x: {uses: there}}\n"),
	}, "--online")
	want := `a.yaml:6:5: spec.jobs[one].with: Workflow "there" requires the input "x": give it a value
a.yaml:7:17: spec.jobs[two].uses: there is no Workflow "nowhere" in this namespace
a.yaml:8:19: spec.jobs[three].uses: there is no Workflow "b" in this namespace
a.yaml:9:73: spec.jobs[four].steps[1].uses: there is no Action "toolz" in this namespace
c.yaml:5:20: spec.jobs[x].uses: Workflow "d": spec.jobs[x].with: Workflow "there" requires the input "x": give it a value
c.yaml:11:10: spec.jobs[x].with: Workflow "there" requires the input "x": give it a value
`
	if diff := cmp.Diff(want, out); diff != "" || cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("exit code %d (-want +got):\n%s", cli.ExitCode(err), diff)
	}
	away := &cli.Factory{Namespace: f.Namespace, Client: func() (client.WithWatch, error) { return nil, &cli.NoClusterError{Reason: "none"} }}
	if _, err := inDirectory(t, away, map[string]string{"a.yaml": manifest("Workflow", "name: a", smoke)}, "--online"); cli.ExitCode(err) != cli.ExitUnreachable {
		t.Errorf("without a cluster: %v", err)
	}
	broken := &cli.Factory{Namespace: f.Namespace, Client: func() (client.WithWatch, error) { return nil, errors.New("no rights") }}
	if _, err := inDirectory(t, broken, map[string]string{"a.yaml": manifest("Workflow", "name: a", smoke)}, "--online"); err == nil || err.Error() != "no rights" {
		t.Errorf("with an error: %v", err)
	}
}

func TestFindingsAsJSON(t *testing.T) {
	files := map[string]string{"a.yaml": manifest("Workflow", "name: a", "  jobs: {x: {uses: b}, z: {uses: a}}\n")}
	out, err := inDirectory(t, &cli.Factory{}, files, "-o", "json")
	var got []Finding
	if jsonErr := json.Unmarshal([]byte(out), &got); jsonErr != nil {
		t.Fatalf("%v: %s", jsonErr, out)
	}
	want := []Finding{
		{File: "a.yaml", Line: 5, Column: 20, Warning: true, Message: `spec.jobs[x].uses: the Workflow "b" is not in these files, so that the call is not checked`},
		{File: "a.yaml", Line: 5, Column: 34, Message: "spec.jobs[z].uses: workflow call cycle: a -> a"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Finding{})); diff != "" || cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("exit code %d (-want +got):\n%s", cli.ExitCode(err), diff)
	}
	if out, err := inDirectory(t, &cli.Factory{}, map[string]string{"a.yaml": manifest("Workflow", "name: a", smoke)}, "-o", "json"); out != "[]\n" || err != nil {
		t.Errorf("of what is right: error %v, %s", err, out)
	}
}

// What YAML reads as a number or a boolean does not come out as it was written.
func TestTextsAreToBeQuoted(t *testing.T) {
	got := lines(t, manifest("Workflow", "name: a", `  inputs:
    version: {default: 3.10}
    flag: {default: yes}
  jobs:
    one:
      uses: other
      with: {mode: 010, big: 1e3, none: , listed: [a]}
    two:
      runs-on: sh
      env: {A: on, OK: "on"}
      steps:
      - {name: s, run: "true", env: {DEBUG: true, C: 0x1F}}
      outputs: {o: {value: 5}}
`))
	want := `f:6:24: spec.inputs.version.default: must be text, and 3.10 is a number: quote it, as in "3.10"
f:7:21: spec.inputs.flag.default: must be text, and yes is a boolean: quote it, as in "yes"
f:11:20: spec.jobs.one.with.mode: must be text, and 010 is a number: quote it, as in "010"
f:11:30: spec.jobs.one.with.big: must be text, and 1e3 is a number: quote it, as in "1e3"
f:11:41: spec.jobs.one.with.none: has no value: write "" for the empty text
f:11:43: spec.jobs.one.with.listed: must be of type string, but is of type array
f:14:16: spec.jobs.two.env.A: must be text, and on is a boolean: quote it, as in "on"
f:16:45: spec.jobs.two.steps[0].env.DEBUG: must be text, and true is a boolean: quote it, as in "true"
f:16:54: spec.jobs.two.steps[0].env.C: must be text, and 0x1F is a number: quote it, as in "0x1F"
f:17:28: spec.jobs.two.outputs.o.value: must be text, and 5 is a number: quote it, as in "5"
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The names of maps are texts as well.
func TestNamesAreToBeQuoted(t *testing.T) {
	got := lines(t, manifest("Workflow", "name: a", `  jobs:
    y: {runs-on: sh, steps: [{name: s, run: "true", env: {N: a, "Y": b, 5: c}}]}
    010: {runs-on: sh, needs: ["on"], steps: [{name: s, run: "true"}]}
    "on": {runs-on: sh, steps: [{name: s, run: "true"}]}
`))
	want := `f:5:3: spec.jobs[true].steps[0].env[5]: the name of a variable must be a letter or '_', then letters, digits, '_', '.' or '-', up to 256 characters
f:6:5: the name y is read as true: quote it, as in "y"
f:6:59: the name N is read as false: quote it, as in "N"
f:7:5: the name 010 is read as 8: quote it, as in "010"
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
