package krt

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// definitions are a Workflow that calls another one, which uses an Action, and two that call each other.
var definitions = map[string]string{
	"release": `
inputs:
  version: {required: true, description: what is released}
  channel: {default: stable}
outputs:
  url: {value: "${{ jobs.publish.outputs.url }}"}
jobs:
  build:
    runs-on: bash
    env: {VERSION: "${{ inputs.version }}"}
    steps: [{name: make, run: make}]
  publish:
    needs: [build]
    uses: publish
    with: {version: "${{ inputs.version }}", channel: "${{ inputs.channel }}"}
`,
	"publish": `
inputs:
  version: {required: true}
  channel: {required: true}
outputs:
  url: {value: "https://${{ jobs.upload.outputs.host }}/${{ jobs.upload.outputs.channel }}"}
jobs:
  upload:
    runs-on: bash
    steps:
    - {name: prepare, uses: prepare}
    - {name: send, run: send, env: {VERSION: "${{ inputs.version }}"}}
    outputs:
      host: {value: "${{ steps.send.outputs.host }}"}
      channel: {value: "${{ inputs.channel }}"}
`,
	"ring":  "jobs: {next: {uses: chain}}",
	"chain": "jobs: {next: {uses: ring}}",
}

const prepare = `
steps:
- {name: check, run: check}
- {name: pack, run: pack}
`

// define creates the definitions in a namespace.
func define(t *testing.T, namespace string) {
	t.Helper()
	var objects []client.Object
	for name, text := range definitions {
		w := &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := yaml.UnmarshalStrict([]byte(text), &w.Spec); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, w)
	}
	a := &workflowsv1alpha1.Action{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prepare"}}
	if err := yaml.UnmarshalStrict([]byte(prepare), &a.Spec); err != nil {
		t.Fatal(err)
	}
	for _, object := range append(objects, a) {
		if err := shared.Admin().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWorkflowIsTriggeredAndFollowed(t *testing.T) {
	namespace := shared.Namespace(t)
	define(t, namespace)
	shared.StartManager(t)
	play(t, namespace, map[string]func(*corev1alpha1.RunStatus){"upload/send": outputs("host", "example.org")})
	config := kubeconfig(t, shared.Config(), namespace)
	got := run(t, config, "channel: beta\nversion: 'from the file'\n", "workflow", "trigger", "release", "--name", "r1",
		"--input-file", "-", "--input", "version=1.0 $(touch pwned) ${{ x }}", "--follow")
	if got.code != cli.ExitOK || got.errOut != "krt: WorkflowRun r1 created in namespace "+namespace+"\n" {
		t.Errorf("got %+v", got)
	}
	text := stable(got.out)
	for _, line := range []string{"build/make Succeeded\n", "publish/upload/prepare/check Succeeded\n", "publish/upload/prepare/pack Succeeded\n", "publish/upload/send Succeeded\n",
		"publish Succeeded\nr1 Succeeded\n\nOutputs:\n url=https://example.org/beta\n publish.url=https://example.org/beta\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("stdout does not hold %q:\n%s", line, text)
		}
	}
	created := &workflowsv1alpha1.WorkflowRun{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "r1"}, created); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("release", created.Labels[workflowsv1alpha1.LabelWorkflow]); diff != "" {
		t.Errorf("label (-want +got):\n%s", diff)
	}
	var sent corev1alpha1.Run
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "r1-call-publish-upload-send"}, &sent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corev1alpha1.EnvVar{{Name: "VERSION", Value: "1.0 $(touch pwned) ${{ x }}"}}, sent.Spec.Env); diff != "" {
		t.Errorf("env of the innermost step (-want +got):\n%s", diff)
	}
	got = run(t, config, "", "describe", "workflowrun", "r1")
	for _, want := range []string{" r1-call-publish needs build; uses publish\n", " r1-call-publish-upload-prepare-pack\n"} {
		if text := stable(got.out); !strings.Contains(text, want) {
			t.Errorf("the description does not hold %q:\n%s", want, text)
		}
	}
}

func TestLogsHoldWhatCallsAndActionsWrote(t *testing.T) {
	namespace := shared.Namespace(t)
	define(t, namespace)
	shared.StartManager(t)
	config := kubeconfig(t, shared.Config(), namespace)
	if got := run(t, config, "", "wf", "trigger", "release", "--name", "r1", "--input", "version=1"); got != (result{out: "r1\n"}) {
		t.Fatalf("trigger: %+v", got)
	}
	following := start(t, config, "", "logs", "workflowrun", "r1", "-f")
	play(t, namespace, map[string]func(*corev1alpha1.RunStatus){"upload/send": outputs("host", "example.org")})
	if code := following.wait(t); code != cli.ExitOK {
		t.Errorf("exit code %d, stderr %s", code, following.errOut.String())
	}
	all := []string{
		"build/make | output of r1-build-make",
		"publish/upload/prepare/check | output of r1-call-publish-upload-prepare-check",
		"publish/upload/prepare/pack | output of r1-call-publish-upload-prepare-pack",
		"publish/upload/send | output of r1-call-publish-upload-send",
	}
	lines := func(text string) []string { return strings.Split(strings.TrimSuffix(stable(text), "\n"), "\n") }
	if diff := cmp.Diff(all, slices.Sorted(slices.Values(lines(following.out.String())))); diff != "" {
		t.Errorf("while it was executed (-want +got):\n%s", diff)
	}
	cases := map[string]struct {
		args     []string
		want     []string
		wantHint string
	}{
		"all":                     {want: all},
		"a job":                   {args: []string{"--job", "build"}, want: all[:1]},
		"a call":                  {args: []string{"--job", "publish"}, want: all[1:]},
		"a step inside of a call": {args: []string{"--step", "send"}, want: all[3:]},
		"a call of an Action":     {args: []string{"--job", "publish", "--step", "prepare"}, want: all[1:3]},
		"a step of an Action":     {args: []string{"--step", "pack"}, want: all[2:3]},
		"a step that is nowhere":  {args: []string{"--step", "sent"}, wantHint: "did you mean send?"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := run(t, config, "", append([]string{"logs", "workflowrun", "r1"}, tc.args...)...)
			if tc.wantHint != "" {
				if got.code != cli.ExitUsage || !strings.Contains(got.errOut, tc.wantHint) {
					t.Errorf("got %+v, want %s", got, tc.wantHint)
				}
				return
			}
			if diff := cmp.Diff(tc.want, lines(got.out)); diff != "" || got.code != cli.ExitOK {
				t.Errorf("exit code %d, stderr %s (-want +got):\n%s", got.code, got.errOut, diff)
			}
		})
	}
}

func TestAFailureInsideOfACallIsShown(t *testing.T) {
	namespace := shared.Namespace(t)
	define(t, namespace)
	shared.StartManager(t)
	play(t, namespace, map[string]func(*corev1alpha1.RunStatus){"upload/send": failure})
	got := run(t, kubeconfig(t, shared.Config(), namespace), "", "wf", "trigger", "release", "--name", "r1", "--input", "version=1", "--follow", "-q")
	want := result{code: cli.ExitFailed, errOut: "krt: WorkflowRun r1 Failed\n",
		out: "\nFirst failure: publish/upload/send Failed: ScriptFailed: Exit code 3\n\\x1b]52;c;ZXZpbA==\\a1 of 2 tests failed\n" +
			"Its output: krt logs r1-call-publish-upload-send -n " + namespace + "\n"}
	got.errOut = stable(got.errOut)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTriggersThatCreateNothing(t *testing.T) {
	namespace := shared.Namespace(t)
	define(t, namespace)
	config := kubeconfig(t, shared.Config(), namespace)
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"a cycle":                         {args: []string{"ring"}, code: cli.ExitFailed, want: "spec.jobs[next].uses: workflow call cycle: ring -> chain -> ring\n"},
		"no such Workflow":                {args: []string{"relase"}, code: cli.ExitFailed, want: `krt: there is no Workflow "relase" in namespace "` + namespace + `"` + "\n"},
		"an input that is missing":        {args: []string{"release"}, code: cli.ExitUsage, want: `--input: Workflow "release" requires the input "version": give it a value` + "\n"},
		"a dry run here":                  {args: []string{"release", "--input", "version=1", "--dry-run", "-o", "yaml"}, want: "  generateName: release-\n"},
		"a dry run there":                 {args: []string{"release", "--input", "version=1", "--dry-run=server", "--name", "x", "-o", "name"}, want: "workflowrun.workflows.kruntimes.io/x\n"},
		"a name that the cluster refuses": {args: []string{"release", "--input", "version=1", "--name", "No_Name"}, code: cli.ExitFailed, want: "krt: creating the WorkflowRun No_Name: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := run(t, config, "", append([]string{"workflow", "trigger"}, tc.args...)...)
			if got.code != tc.code || !strings.Contains(got.out+got.errOut, tc.want) {
				t.Errorf("got %+v, want exit code %d and %q", got, tc.code, tc.want)
			}
		})
	}
	var list workflowsv1alpha1.WorkflowRunList
	if err := shared.Admin().List(t.Context(), &list, client.InNamespace(namespace)); err != nil || len(list.Items) > 0 {
		t.Errorf("error %v, created: %v", err, list.Items)
	}
}

func TestDefinitionsAreShown(t *testing.T) {
	namespace := shared.Namespace(t)
	define(t, namespace)
	shared.StartManager(t)
	config := kubeconfig(t, shared.Config(), namespace)
	judged := regexp.MustCompile(`(?s)chain +False +Unresolved .*publish +True +Valid .*release +True +Valid .*ring +False +Unresolved `)
	cluster.Eventually(t, "all Workflows to be judged", func(context.Context) (bool, error) {
		got := run(t, config, "", "workflow", "list", "--sort-by", ".metadata.name")
		return judged.MatchString(got.out), nil
	})
	const caller = "apiVersion: workflows.kruntimes.io/v1alpha1\nkind: WorkflowRun\nmetadata: {name: x}\nspec:\n  jobs:\n    a: {uses: release}\n    b: {uses: missing, needs: [a]}\n"
	cases := map[string]struct {
		in   string
		args []string
		code int
		want []string
	}{
		"a Workflow":            {args: []string{"workflow", "describe", "release"}, want: []string{"Ready: True\n", " version yes - what is released\n", " publish build calls Workflow publish -\n"}},
		"one that is not ready": {args: []string{"describe", "workflow", "ring"}, want: []string{"Ready: False (Unresolved)\n spec.jobs[next].uses: ", "workflow call cycle: ring -> chain -> ring"}},
		"an Action":             {args: []string{"describe", "action/prepare"}, want: []string{"Name: prepare\n", " check - check\n pack - pack\n"}},
		"a graph":               {args: []string{"graph", "workflow", "release"}, want: []string{"Workflow release: 2 jobs in 2 stages\n", " 2 ─ publish calls publish needs build\n"}},
		"calls of files":        {in: caller, args: []string{"lint", "-f", "-"}, want: []string{"<stdin>:6:15: warning: spec.jobs[a].uses: the Workflow \"release\" is not in these files"}},
		"calls of the cluster": {in: caller, args: []string{"lint", "-f", "-", "--online"}, code: cli.ExitFailed, want: []string{
			"<stdin>:6:5: spec.jobs[a].with: Workflow \"release\" requires the input \"version\": give it a value\n<stdin>:7:15: spec.jobs[b].uses: there is no Workflow \"missing\" in this namespace\n"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := run(t, config, tc.in, tc.args...)
			for _, want := range tc.want {
				if text := stable(got.out); !strings.Contains(text, want) || got.code != tc.code {
					t.Errorf("exit code %d, want %d; the output does not hold %q: %s%s", got.code, tc.code, want, text, got.errOut)
				}
			}
		})
	}
}
