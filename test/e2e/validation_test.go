//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"kruntimes.io/kruntimes/test/e2e"
)

// The manager is asked through its Service, with the certificate that was issued for it: what only a webhook can say shows that
// both work.
func TestWhatCanNeverWorkIsRefusedWithAllThatIsWrong(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	cases := map[string]struct {
		manifest string
		want     []string
	}{
		"a WorkflowRun": {`
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: hopeless}
spec:
  jobs:
    build:
      runs-on: bash
      steps:
      - {name: one, run: "echo ${{ env.HOME }}"}
      - {name: two, env: {X: "${{ steps.three.outputs.x }}"}, run: "true"}
    test:
      runs-on: bash
      steps: [{name: one, run: "echo ${{ jobs.build.outputs.x }}"}]
`, []string{
			`"hopeless" is invalid`,
			`spec.jobs[build].steps[0].run: line 1, column 6: ${{ env.HOME }}: unknown context "env"`,
			`spec.jobs[build].steps[1].env[X]: line 1, column 1: ${{ steps.three.outputs.x }}: "three" is not a step of this job`,
			`spec.jobs[test].steps[0].run: line 1, column 6: ${{ jobs.build.outputs.x }}: job "test" does not need "build"`,
		}},
		"a Workflow whose jobs need each other": {`
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: hopeless}
spec:
  outputs: {x: {value: "${{ inputs.y }}"}}
  jobs:
    a: {runs-on: bash, needs: [b], steps: [{name: one, run: "true"}]}
    b: {runs-on: bash, needs: [a], steps: [{name: one, run: "true"}]}
`, []string{`"hopeless" is invalid`, "spec.jobs", "a -> b -> a", "spec.outputs[x].value"}},
		"an Action": {`
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Action
metadata: {name: hopeless}
spec:
  outputs: {x: {value: "${{ steps.two.outputs.x }}"}}
  steps: [{name: one, run: "echo ${{ inputs.y }}"}]
`, []string{
			`"hopeless" is invalid`, "spec.outputs[x].value", `"two" is not a step of this Action`,
			`spec.steps[0].run: line 1, column 6: ${{ inputs.y }}: "y" is not an input of this Action`,
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { refused(t, env.In(t), tc.manifest, tc.want) })
	}
}

func TestInvalidManifestsAreRefusedWithTheNamesOfTheirFields(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	const run, workflowRun = "apiVersion: kruntimes.io/v1alpha1\nkind: Run\nmetadata: {name: x}\n", "apiVersion: workflows.kruntimes.io/v1alpha1\nkind: WorkflowRun\nmetadata: {name: x}\n"
	cases := map[string]struct {
		manifest string
		want     []string
	}{
		"a Run with several faults": {
			run + `spec: {source: {inline: "true"}, timeout: 1 day, ttlSecondsAfterFinished: -1}`,
			[]string{"spec.runtime: Required value", "spec.timeout", "spec.ttlSecondsAfterFinished"},
		},
		"a Run with a field that is misspelt": {run + `spec: {runtime: bash, sorce: {inline: "true"}}`, []string{`unknown field "spec.sorce"`}},
		"a Run that asks for a Secret": {
			run + `spec: {runtime: bash, source: {inline: "true"}, env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]}`,
			[]string{"spec.env[0]", "valueFrom is not supported"},
		},
		"a Run with nothing to run": {run + `spec: {runtime: bash}`, []string{"spec.source", "nothing to run"}},
		"a Runtime without the container runtime": {
			"apiVersion: kruntimes.io/v1alpha1\nkind: Runtime\nmetadata: {name: x}\n" +
				`spec: {replicas: -1, template: {spec: {containers: [{name: other, image: x}]}}}`,
			[]string{"spec.replicas", "spec.template", "the first container must be named runtime"},
		},
		"a workspace of a mode that is none": {
			"apiVersion: workspaces.kruntimes.io/v1alpha1\nkind: PersistentWorkspace\nmetadata: {name: x}\n" +
				`spec: {runtime: bash, mode: Elsewhere, ttlSecondsAfterUnused: -5}`,
			[]string{"spec.mode", `"Elsewhere"`, "RuntimePodLocal", "spec.ttlSecondsAfterUnused"},
		},
		"a job that is two things": {
			workflowRun + `spec: {jobs: {a: {runs-on: bash, uses: b, steps: [{name: s, run: "true", timeout: soon}]}}}`,
			[]string{"spec.jobs[a]", "either steps or uses", "spec.jobs[a].steps[0].timeout", "90s"},
		},
		"a job that needs none of the others": {
			workflowRun + `spec: {jobs: {a: {runs-on: bash, needs: [b], steps: [{name: s, run: "true"}]}}}`,
			[]string{"spec.jobs", "needs must name jobs"},
		},
		"two steps of one name": {
			workflowRun + `spec: {jobs: {a: {runs-on: bash, steps: [{name: s, run: "true"}, {name: s, run: "true"}]}}}`,
			[]string{"spec.jobs[a].steps[1]", "Duplicate value"},
		},
		"a variable that YAML takes for a number": {
			workflowRun + `spec: {jobs: {a: {runs-on: bash, env: {VERSION: 3.10}, steps: [{name: s, run: "true"}]}}}`,
			[]string{"spec.jobs.a.env.VERSION", "must be of type string"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { refused(t, env.In(t), tc.manifest, tc.want) })
	}
}

// refused has a manifest looked at as people do, and expects all of these words. Early words are left out where the manager takes more
// than two seconds, so they are asked for again.
func refused(t *testing.T, env *e2e.Env, manifest string, want []string) {
	t.Helper()
	var got e2e.Result
	env.Eventually("the manifest is refused", func() string {
		if got = env.TryKubectl(manifest, "create", "--dry-run=server", "--filename=-"); got.Code == 0 {
			return "it was accepted: " + got.Stdout
		}
		return ""
	})
	for _, words := range want {
		if !strings.Contains(got.Stderr, words) {
			t.Errorf("the refusal does not say %q:\n%s", words, got.Stderr)
		}
	}
}
