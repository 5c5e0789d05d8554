//go:build e2e

package e2e_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

// The subtests are parallel, here and in the other files about workflows: they share a Runtime that is only theirs.

func TestAWorkflowRunIsExecutedAsItsNeedsSay(t *testing.T) {
	t.Parallel()
	parent := e2e.New(t)
	parent.Runtime("bash", e2e.WithCapacity("8"))

	t.Run("values go from step to step, from job to job, and out", func(t *testing.T) {
		t.Parallel()
		env := parent.In(t)
		file := manifestFile(t, passing)
		got := env.TryKrt("", "workflow", "run", "--file="+file, "--follow")
		if got.Code != 0 {
			t.Fatalf("krt workflow run: %+v", got)
		}
		for _, want := range []string{"build/write ", "publish ", "size=6", "verdict=6 bytes, checked"} {
			if !strings.Contains(got.Stdout, want) {
				t.Errorf("krt workflow run shows no %q:\n%s", want, got.Stdout)
			}
		}
		run := env.WorkflowRun("passing")
		if diff := cmp.Diff(map[string]corev1alpha1.OutputValue{"verdict": "6 bytes, checked", "size": "6"}, run.Status.Outputs); diff != "" {
			t.Errorf("outputs (-want +got):\n%s", diff)
		}
		if run.Status.Jobs["publish"].StartTime.Before(run.Status.Jobs["check"].CompletionTime) {
			t.Errorf("publish began before check, which it needs, had ended: %+v", run.Status.Jobs)
		}
		if diff := cmp.Diff([]string{"check"}, run.Status.Jobs["publish"].Pre); diff != "" {
			t.Errorf("what publish needs (-want +got):\n%s", diff)
		}
		want := []string{"passing-build-measure", "passing-build-write", "passing-check-compare", "passing-publish-tell"}
		if diff := cmp.Diff(want, env.RunsOf(run)); diff != "" {
			t.Errorf("Runs (-want +got):\n%s", diff)
		}
		described := env.Krt("describe", "workflowrun", "passing")
		for _, want := range []string{"Succeeded", "passing-build-write", "6 bytes, checked"} {
			if !strings.Contains(described, want) {
				t.Errorf("krt describe shows no %q:\n%s", want, described)
			}
		}
		if got := env.Krt("logs", "workflowrun", "passing", "--job=publish"); !strings.HasSuffix(got, "6 bytes, checked\n") {
			t.Errorf("krt logs: %q", got)
		}
		env.WaitEvent(run, "Normal JobsSucceeded ")
	})

	t.Run("a job that fails is told, and only what needs it is skipped", func(t *testing.T) {
		t.Parallel()
		env := parent.In(t)
		file := manifestFile(t, failing)
		got := env.TryKrt("", "workflow", "run", "--file="+file, "--follow")
		if got.Code != 1 {
			t.Errorf("krt workflow run: exit code %d, want 1", got.Code)
		}
		for _, want := range []string{"First failure: build/test Failed: ScriptFailed: Exit code 3", "greeting is not polite", "krt logs failing-build-test"} {
			if !strings.Contains(got.Stdout, want) {
				t.Errorf("krt workflow run shows no %q:\n%s", want, got.Stdout)
			}
		}
		run := env.WorkflowRun("failing")
		want := map[string]string{
			"": "Failed", "build": "Failed", "build/test": "Failed", "build/never": "Pending", "docs": "Succeeded", "docs/render": "Succeeded",
			"deploy": "Skipped", "deploy/never": "Pending", "announce": "Skipped", "announce/never": "Pending",
		}
		if diff := cmp.Diff(want, e2e.Phases(run)); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"failing-build-test", "failing-docs-render"}, env.RunsOf(run)); diff != "" {
			t.Errorf("Runs (-want +got):\n%s", diff)
		}
		if described := env.Krt("describe", "workflowrun", "failing"); !strings.Contains(described, "Failed first: build/test Failed: ScriptFailed: Exit code 3") {
			t.Errorf("krt describe does not begin with what failed first:\n%s", described)
		}
		env.WaitEvent(run, "Warning JobFailed job build failed: step test: ScriptFailed: Exit code 3")
		env.Kubectl("wait", "--for=condition=Succeeded=false", "workflowrun/failing")
	})

	t.Run("values come back byte for byte, whatever is in them", func(t *testing.T) {
		t.Parallel()
		env := parent.In(t)
		want := awkward()
		env.Create(carrying(want))
		run := env.WaitSucceeded("carrying")
		for place, got := range map[string]map[string]corev1alpha1.OutputValue{
			"the step": run.Status.Jobs["make"].Steps[0].Outputs, "the job": run.Status.Jobs["make"].Outputs, "the WorkflowRun": run.Status.Outputs,
		} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("outputs of %s (-want +got):\n%s", place, diff)
			}
		}
		if diff := cmp.Diff(want, decoded(t, run.Status.Jobs["take"].Outputs)); diff != "" {
			t.Errorf("what the script of the other job found (-want +got):\n%s", diff)
		}
	})
}

const passing = `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata:
  name: passing
  annotations:
    kruntimes.io/workflow-output.size: ${{ jobs.build.outputs.size }}
    kruntimes.io/workflow-output.verdict: ${{ jobs.check.outputs.verdict }}
spec:
  jobs:
    build:
      runs-on: bash
      steps:
      - name: write
        run: printf hello\\n > file; echo "file=file" >> "$KRUNTIME_OUTPUTS"
      - name: measure
        env: {FILE: "${{ steps.write.outputs.file }}"}
        run: echo "size=$(stat -c %s "$FILE")" >> "$KRUNTIME_OUTPUTS"
      outputs:
        size: {value: "${{ steps.measure.outputs.size }}"}
    check:
      needs: [build]
      runs-on: bash
      env: {SIZE: "${{ jobs.build.outputs.size }}"}
      steps:
      - name: compare
        run: test "$SIZE" = 6; test ! -e file; echo "verdict=$SIZE bytes, checked" >> "$KRUNTIME_OUTPUTS"
      outputs:
        verdict: {value: "${{ steps.compare.outputs.verdict }}"}
    publish:
      needs: [check]
      runs-on: bash
      steps:
      - name: tell
        env: {VERDICT: "${{ jobs.check.outputs.verdict }}"}
        run: echo "$VERDICT"
`

const failing = `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: failing}
spec:
  jobs:
    build:
      runs-on: bash
      steps:
      - {name: test, run: "echo greeting is not polite >&2; exit 3"}
      - {name: never, run: "true"}
    deploy:
      needs: [build]
      runs-on: bash
      steps: [{name: never, run: "true"}]
    announce:
      needs: [deploy, docs]
      runs-on: bash
      steps: [{name: never, run: "true"}]
    docs:
      runs-on: bash
      steps: [{name: render, run: "true"}]
`

// awkward are values that something on their way could change: shells, YAML, JSON, environments, the reader of outputs.
func awkward() map[string]corev1alpha1.OutputValue {
	return map[string]corev1alpha1.OutputValue{
		"spaces":     "  two before, a tab\tinside, two after  ",
		"unicode":    "größer ✓ 漢字 🎉 e\u0301 \u202e",
		"lines":      "one\n\n  three\nfour\n\n",
		"dollars":    "$HOME ${HOME} $(id) `id` $$ \\$HOME %s",
		"quotes":     `it's "quoted" \"twice\" '`,
		"expression": "${{ jobs.make.outputs.lines }} ${{ }",
		"signs":      "a=b#c: {d: [e]} & <f> | > * ! % @ ,",
		"word":       "yes",
		"number":     "010",
		"controls":   "carriage\r\nreturn, bell \a, escape \x1b[31m",
		"empty":      "",
	}
}

// carrying writes values in one job and reads them in another one, as variables. Scripts get and leave them as base64, so that no
// shell changes what is compared.
func carrying(values map[string]corev1alpha1.OutputValue) *workflowsv1alpha1.WorkflowRun {
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Name: "carrying", Annotations: map[string]string{}}}
	var write, read strings.Builder
	making, taking := map[string]workflowsv1alpha1.Output{}, map[string]workflowsv1alpha1.Output{}
	found := map[string]workflowsv1alpha1.EnvValue{}
	for name, value := range values {
		fmt.Fprintf(&write, "{ echo '%s<<END OF IT'; echo %s | base64 -d; echo; echo 'END OF IT'; } >> \"$KRUNTIME_OUTPUTS\"\n",
			name, base64.StdEncoding.EncodeToString([]byte(value)))
		fmt.Fprintf(&read, "echo \"%s=$(printf %%s \"$V_%s\" | base64 -w0)\" >> \"$KRUNTIME_OUTPUTS\"\n", name, name)
		making[name] = workflowsv1alpha1.Output{Value: fmt.Sprintf("${{ steps.write.outputs.%s }}", name)}
		taking[name] = workflowsv1alpha1.Output{Value: fmt.Sprintf("${{ steps.read.outputs.%s }}", name)}
		found["V_"+name] = workflowsv1alpha1.EnvValue(fmt.Sprintf("${{ jobs.make.outputs.%s }}", name))
		run.Annotations[workflowsv1alpha1.AnnotationOutputPrefix+name] = fmt.Sprintf("${{ jobs.make.outputs.%s }}", name)
	}
	run.Spec.Jobs = map[string]workflowsv1alpha1.Job{
		"make": {RunsOn: "bash", Outputs: making, Steps: []workflowsv1alpha1.Step{{Name: "write", Run: write.String()}}},
		"take": {RunsOn: "bash", Outputs: taking, Needs: []string{"make"}, Env: found, Steps: []workflowsv1alpha1.Step{{Name: "read", Run: read.String()}}},
	}
	return run
}

// decoded takes the base64 off values.
func decoded(t *testing.T, values map[string]corev1alpha1.OutputValue) map[string]corev1alpha1.OutputValue {
	t.Helper()
	plain := map[string]corev1alpha1.OutputValue{}
	for name, value := range values {
		raw, err := base64.StdEncoding.DecodeString(string(value))
		if err != nil {
			t.Fatalf("decoding %s: %v", name, err)
		}
		plain[name] = corev1alpha1.OutputValue(raw)
	}
	return plain
}

// manifestFile writes manifests to a file, for programs.
func manifestFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
