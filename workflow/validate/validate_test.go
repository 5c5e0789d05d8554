package validate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/expression"
)

// decode reads a spec as a person writes it.
func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	spec := new(T)
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "\t", "  ")), spec); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return spec
}

func texts(errs field.ErrorList) []string {
	var list []string
	for _, e := range errs {
		list = append(list, e.Error())
	}
	return list
}

func checkTexts(t *testing.T, want []string, got field.ErrorList) {
	t.Helper()
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestWorkflowRun(t *testing.T) {
	const name = "letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters"
	cases := map[string]struct {
		spec string
		want []string
	}{
		"two jobs that hand on an output": {spec: `
jobs:
	build:
		runs-on: bash
		env: {LEVEL: debug}
		steps:
		- {name: checkout, run: git clone}
		- {name: image, run: 'build ${{ steps.checkout.outputs.revision }}', env: {REV: '${{ steps.checkout.outputs.revision }}'}, timeout: 90s}
		- {name: lint, uses: lint, with: {image: '${{ steps.image.outputs.image }}'}}
		outputs:
			image: {value: '${{ steps.image.outputs.image }}'}
			report: {value: '${{ steps.lint.outputs.report }}'}
	deploy:
		runs-on: bash
		needs: [build]
		env: {IMAGE: '${{ jobs.build.outputs.image }}'}
		steps:
		- {name: deploy, run: 'deploy $IMAGE', artifacts: [{from: jobs.build.artifacts.dist.tgz, path: in/dist.tgz}]}
	test:
		uses: test
		needs: [build]
		with: {image: '${{ jobs.build.outputs.image }}'}
	report:
		runs-on: ba${{ 's' }}h
		needs: [test]
		steps: [{name: report, run: 'echo ${{ jobs.test.outputs.anything }}'}]
`},
		"no jobs": {spec: `jobs: {}`, want: []string{"spec.jobs: Required value: name at least one job"}},
		"bad names": {
			spec: `
jobs:
	-a:
		runs-on: Bash_
		env: {"1A": x, KRUNTIME_X: y, A-b.c: fine, größe: z}
		steps: [{name: a_, run: x}, {name: a, uses: Lint, with: {_b: x}}]
		outputs: {"": {value: x}}
	` + strings.Repeat("b", 64) + `: {uses: a..b-, with: {c d: x}}
`,
			want: []string{
				`spec.jobs[-a]: Invalid value: "-a": the name of a job must be ` + name,
				`spec.jobs[-a].env[1A]: Invalid value: "1A": the name of a variable must be a letter or '_', then letters, digits, '_', '.' or '-', up to 256 characters`,
				`spec.jobs[-a].env[KRUNTIME_X]: Invalid value: "KRUNTIME_X": names that start with KRUNTIME_ are reserved`,
				`spec.jobs[-a].env[größe]: Invalid value: "größe": the name of a variable must be a letter or '_', then letters, digits, '_', '.' or '-', up to 256 characters`,
				`spec.jobs[-a].outputs[]: Invalid value: "": the name of an output must be ` + name,
				`spec.jobs[-a].runs-on: Invalid value: "Bash_": must be the name of a Runtime of the same namespace: lower-case letters, digits, '-' and '.', up to 253 characters`,
				`spec.jobs[-a].steps[0].name: Invalid value: "a_": the name of a step must be ` + name,
				`spec.jobs[-a].steps[1].uses: Invalid value: "Lint": must be the name of an Action of the same namespace: lower-case letters, digits, '-' and '.', up to 253 characters`,
				`spec.jobs[-a].steps[1].with[_b]: Invalid value: "_b": the name of an input must be ` + name,
				`spec.jobs[` + strings.Repeat("b", 64) + `]: Invalid value: "` + strings.Repeat("b", 64) + `": the name of a job must be ` + name,
				`spec.jobs[` + strings.Repeat("b", 64) + `].uses: Invalid value: "a..b-": must be the name of a Workflow of the same namespace: lower-case letters, digits, '-' and '.', up to 253 characters`,
				`spec.jobs[` + strings.Repeat("b", 64) + `].with[c d]: Invalid value: "c d": the name of an input must be ` + name,
			},
		},
		"jobs that are neither one thing nor the other": {
			spec: `
jobs:
	both: {runs-on: bash, uses: other, steps: [{name: a, run: x}], with: {a: b}}
	call: {uses: other, runs-on: bash, env: {A: b}, outputs: {a: {value: b}}}
	neither: {runs-on: bash}
	nowhere: {steps: [{name: a, run: x}], with: {a: b}}
`,
			want: []string{
				"spec.jobs[both].uses: Forbidden: a job has either steps or uses, not both",
				"spec.jobs[call].env: Forbidden: a job with uses takes only with and needs: this belongs into the Workflow that it calls",
				"spec.jobs[call].outputs: Forbidden: a job with uses takes only with and needs: this belongs into the Workflow that it calls",
				"spec.jobs[call].runs-on: Forbidden: a job with uses takes only with and needs: this belongs into the Workflow that it calls",
				"spec.jobs[neither]: Required value: a job has either steps or uses, the name of a Workflow",
				"spec.jobs[nowhere].runs-on: Required value: a job with steps needs runs-on, the name of a Runtime",
				"spec.jobs[nowhere].with: Forbidden: with belongs to a job with uses: hand values to steps with env",
			},
		},
		"steps that are neither one thing nor the other": {
			spec: `
jobs:
	a:
		runs-on: bash
		steps:
		- {name: both, run: x, uses: lint, with: {a: b}}
		- {name: neither}
		- {name: call, uses: lint, env: {A: b}, timeout: 1s, artifacts: [{from: x, path: y}]}
		- {name: both, run: x, with: {a: b}}
		- {name: slow, run: x, timeout: 0s}
		- {name: back, run: x, timeout: -1s}
`,
			want: []string{
				"spec.jobs[a].steps[0].uses: Forbidden: a step has either run or uses, not both",
				"spec.jobs[a].steps[1]: Required value: a step has either run or uses, the name of an Action",
				"spec.jobs[a].steps[2].artifacts: Forbidden: a step with uses takes only with: this belongs into the Action that it calls",
				"spec.jobs[a].steps[2].env: Forbidden: a step with uses takes only with: this belongs into the Action that it calls",
				"spec.jobs[a].steps[2].timeout: Forbidden: a step with uses takes only with: this belongs into the Action that it calls",
				`spec.jobs[a].steps[3].name: Duplicate value: "both"`,
				"spec.jobs[a].steps[3].with: Forbidden: with belongs to a step with uses: hand values to a script with env",
				`spec.jobs[a].steps[4].timeout: Invalid value: "0s": timeout must be a duration from 1ms to 8760h, such as 90s or 1h30m`,
				`spec.jobs[a].steps[5].timeout: Invalid value: "-1s": timeout must be a duration from 1ms to 8760h, such as 90s or 1h30m`,
			},
		},
		"needs that lead nowhere": {
			spec: `
jobs:
	build: {uses: b, needs: [test]}
	deploy: {uses: d, needs: [build, biuld, build, far-away]}
	self: {uses: s, needs: [self]}
	test: {uses: t, needs: [build]}
`,
			want: []string{
				`spec.jobs[build].needs[0]: Invalid value: "test": the jobs need each other in a circle: build -> test -> build`,
				`spec.jobs[deploy].needs[1]: Invalid value: "biuld": "biuld" is not a job of this WorkflowRun: did you mean "build"?`,
				`spec.jobs[deploy].needs[2]: Duplicate value: "build"`,
				`spec.jobs[deploy].needs[3]: Invalid value: "far-away": "far-away" is not a job of this WorkflowRun`,
				`spec.jobs[self].needs[0]: Invalid value: "self": the job needs itself: self -> self`,
			},
		},
		"expressions that are none": {
			spec: `
jobs:
	a:
		runs-on: bash
		steps:
		- name: s
		  run: |
		    line one ${{ a && b }}
		    x=123 y ${{ step.a.outputs.b }} ${{ steps.x }} ${{
		  env: {A: '${{ }}'}
`,
			want: []string{
				`spec.jobs[a].steps[0].env[A]: Invalid value: line 1, column 1: ${{ }}: the expression is empty: write inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text'`,
				`spec.jobs[a].steps[0].run: Invalid value: line 1, column 10: ${{ a && b }}: unexpected "&": an expression is inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text', without operators and functions`,
				`spec.jobs[a].steps[0].run: Invalid value: line 2, column 9: ${{ step.a.outputs.b }}: unknown context "step": did you mean "steps"?`,
				`spec.jobs[a].steps[0].run: Invalid value: line 2, column 33: ${{ steps.x }}: the reference is incomplete: write steps.x.outputs.NAME`,
				`spec.jobs[a].steps[0].run: Invalid value: line 2, column 48: ${{: the expression is not closed: end it with }}, or write ${{ '${{' }} for the characters ${{ themselves`,
			},
		},
		"inputs, which a WorkflowRun has not": {
			spec: `jobs: {a: {runs-on: '${{ inputs.os }}', steps: [{name: s, run: 'echo ${{ inputs.x }}'}]}}`,
			want: []string{
				"spec.jobs[a].runs-on: Invalid value: line 1, column 1: ${{ inputs.os }}: a WorkflowRun has no inputs: write the value itself, or declare inputs in a Workflow and trigger that",
				"spec.jobs[a].steps[0].run: Invalid value: line 1, column 6: ${{ inputs.x }}: a WorkflowRun has no inputs: write the value itself, or declare inputs in a Workflow and trigger that",
			},
		},
		"steps that cannot be read": {
			spec: `
jobs:
	a:
		runs-on: ${{ steps.first.outputs.x }}
		env: {A: '${{ steps.first.outputs.x }}'}
		steps:
		- {name: first, run: '${{ steps.first.outputs.x }} ${{ steps.second.outputs.x }} ${{ steps.frist.outputs.x }}'}
		- {name: second, run: '${{ steps.first.outputs.x }} ${{ steps.frist.outputs.x }} ${{ steps.other.outputs.x }}'}
		outputs: {x: {value: '${{ steps.second.outputs.x }} ${{ steps.other.outputs.x }}'}}
	b: {uses: b, with: {x: '${{ steps.first.outputs.x }}'}}
`,
			want: []string{
				"spec.jobs[a].env[A]: Invalid value: line 1, column 1: ${{ steps.first.outputs.x }}: the env of a job is there before its first step: put this into the env of the step that reads it",
				`spec.jobs[a].outputs[x].value: Invalid value: line 1, column 31: ${{ steps.other.outputs.x }}: "other" is not a step of this job`,
				"spec.jobs[a].runs-on: Invalid value: line 1, column 1: ${{ steps.first.outputs.x }}: runs-on sees inputs only",
				"spec.jobs[a].steps[0].run: Invalid value: line 1, column 1: ${{ steps.first.outputs.x }}: a step cannot read its own outputs",
				`spec.jobs[a].steps[0].run: Invalid value: line 1, column 30: ${{ steps.second.outputs.x }}: step "second" comes later: a step sees only those before it`,
				`spec.jobs[a].steps[0].run: Invalid value: line 1, column 60: ${{ steps.frist.outputs.x }}: "frist" is not a step of this job: did you mean "first"?`,
				`spec.jobs[a].steps[1].run: Invalid value: line 1, column 30: ${{ steps.frist.outputs.x }}: "frist" is not a step of this job: did you mean "first"?`,
				`spec.jobs[a].steps[1].run: Invalid value: line 1, column 59: ${{ steps.other.outputs.x }}: "other" is not a step of this job`,
				"spec.jobs[b].with[x]: Invalid value: line 1, column 1: ${{ steps.first.outputs.x }}: a job with uses has no steps",
			},
		},
		"jobs that cannot be read": {
			spec: `
jobs:
	build: {runs-on: bash, steps: [{name: s, run: x}], outputs: {image: {value: x}}}
	call: {uses: other, needs: [build]}
	mute: {runs-on: bash, steps: [{name: s, run: x}]}
	test:
		runs-on: ${{ jobs.build.outputs.image }}
		needs: [call, mute]
		steps:
		- {name: s, run: '${{ jobs.call.outputs.anything }} ${{ jobs.build.outputs.image }} ${{ jobs.biuld.outputs.image }}'}
		- {name: t, run: '${{ jobs.test.outputs.x }} ${{ jobs.mute.outputs.x }}'}
	tell: {uses: other, needs: [build], with: {a: '${{ jobs.build.outputs.imgae }}'}}
`,
			want: []string{
				"spec.jobs[tell].with[a]: Invalid value: line 1, column 1: ${{ jobs.build.outputs.imgae }}: job \"build\" has no output \"imgae\": did you mean \"image\"?",
				"spec.jobs[test].runs-on: Invalid value: line 1, column 1: ${{ jobs.build.outputs.image }}: runs-on sees inputs only",
				`spec.jobs[test].steps[0].run: Invalid value: line 1, column 35: ${{ jobs.build.outputs.image }}: job "test" does not need "build": add it to jobs.test.needs`,
				`spec.jobs[test].steps[0].run: Invalid value: line 1, column 67: ${{ jobs.biuld.outputs.image }}: "biuld" is not a job of this WorkflowRun: did you mean "build"?`,
				"spec.jobs[test].steps[1].run: Invalid value: line 1, column 1: ${{ jobs.test.outputs.x }}: a job cannot read from itself",
			},
		},
		"artifacts": {
			spec: `
jobs:
	build: {uses: b}
	other: {uses: o}
	test:
		runs-on: bash
		needs: [build]
		steps:
		- name: s
		  run: x
		  artifacts:
		  - {from: jobs.build.artifacts.dist.tgz, path: ..a/.b/...}
		  - {from: 'jobs.build.artifacts.${{ ''a'' }}', path: 'x/${{ ''y'' }}'}
		  - {from: jobs.other.artifacts.a, path: /abs}
		  - {from: jobs.biuld.artifacts.a, path: a/../b}
		  - {from: jobs.test.artifacts.a, path: .kruntimes/x}
		  - {from: steps.s.artifacts.a, path: a/}
		  - {from: jobs.build.artifacts., path: ./a}
		  - {from: jobs.build.artifacts.a/b, path: 'x/${{ ''..'' }}'}
		  - {from: '${{ jobs.build.outputs.a }}', path: '${{ steps.s.outputs.a }}'}
		  - {from: 'jobs.build.artifacts.${{ inputs.a }}', path: x/y}
`,
			want: []string{
				`spec.jobs[test].steps[0].artifacts[2].from: Invalid value: "jobs.other.artifacts.a": job "test" does not need "other": add it to jobs.test.needs`,
				`spec.jobs[test].steps[0].artifacts[2].path: Invalid value: "/abs": must be relative to the working directory, without ".", ".." and empty parts`,
				`spec.jobs[test].steps[0].artifacts[3].from: Invalid value: "jobs.biuld.artifacts.a": "biuld" is not a job of this WorkflowRun: did you mean "build"?`,
				`spec.jobs[test].steps[0].artifacts[3].path: Invalid value: "a/../b": must be relative to the working directory, without ".", ".." and empty parts`,
				`spec.jobs[test].steps[0].artifacts[4].from: Invalid value: "jobs.test.artifacts.a": a job cannot read from itself`,
				`spec.jobs[test].steps[0].artifacts[4].path: Invalid value: ".kruntimes/x": must not lie below .kruntimes`,
				`spec.jobs[test].steps[0].artifacts[5].from: Invalid value: "steps.s.artifacts.a": must be jobs.<job>.artifacts.<name>`,
				`spec.jobs[test].steps[0].artifacts[5].path: Invalid value: "a/": must be relative to the working directory, without ".", ".." and empty parts`,
				`spec.jobs[test].steps[0].artifacts[6].from: Invalid value: "jobs.build.artifacts.": the name of an artifact must have 1 to 255 bytes and no '/'`,
				`spec.jobs[test].steps[0].artifacts[6].path: Invalid value: "./a": must be relative to the working directory, without ".", ".." and empty parts`,
				`spec.jobs[test].steps[0].artifacts[7].from: Invalid value: "jobs.build.artifacts.a/b": the name of an artifact must have 1 to 255 bytes and no '/'`,
				`spec.jobs[test].steps[0].artifacts[7].path: Invalid value: "x/..": must be relative to the working directory, without ".", ".." and empty parts`,
				"spec.jobs[test].steps[0].artifacts[8].from: Invalid value: line 1, column 1: ${{ jobs.build.outputs.a }}: artifacts see inputs only",
				"spec.jobs[test].steps[0].artifacts[8].path: Invalid value: line 1, column 1: ${{ steps.s.outputs.a }}: artifacts see inputs only",
				"spec.jobs[test].steps[0].artifacts[9].from: Invalid value: line 1, column 22: ${{ inputs.a }}: a WorkflowRun has no inputs: write the value itself, or declare inputs in a Workflow and trigger that",
				`spec.jobs[test].steps[0].artifacts[9].path: Duplicate value: "x/y"`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			checkTexts(t, tc.want, WorkflowRun(decode[workflowsv1alpha1.WorkflowRunSpec](t, tc.spec)))
		})
	}
}

func TestAPassageKnowsItsPlace(t *testing.T) {
	errs := WorkflowRun(decode[workflowsv1alpha1.WorkflowRunSpec](t, `jobs: {a: {runs-on: bash, steps: [{name: s, run: "a\n ${{ inputs.x }} ${{y}}"}]}}`))
	var got []Passage
	for _, e := range errs {
		var passage Passage
		if p, ok := e.BadValue.(Passage); ok {
			passage = p
		}
		got = append(got, passage)
	}
	want := []Passage{
		{Position: expression.Position{Offset: 3, Line: 2, Column: 2}, Expression: "${{ inputs.x }}"},
		{Position: expression.Position{Offset: 19, Line: 2, Column: 18}, Expression: "${{y}}"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("passages (-want +got):\n%s", diff)
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("ä", 32<<10)
	step := func(name string) workflowsv1alpha1.Step { return workflowsv1alpha1.Step{Name: name, Run: "true"} }
	steps := func(n int) []workflowsv1alpha1.Step {
		var list []workflowsv1alpha1.Step
		for i := range n {
			list = append(list, step(fmt.Sprintf("s%d", i)))
		}
		return list
	}
	cases := map[string]struct {
		change func(*workflowsv1alpha1.WorkflowRunSpec, *workflowsv1alpha1.Job)
		want   []string
	}{
		"all at the bound": {change: func(spec *workflowsv1alpha1.WorkflowRunSpec, job *workflowsv1alpha1.Job) {
			job.Steps = steps(128)
			job.Steps[0].Timeout = &metav1.Duration{Duration: time.Millisecond}
			job.Env = map[string]workflowsv1alpha1.EnvValue{strings.Repeat("E", 256): workflowsv1alpha1.EnvValue(long)}
			for i := range 63 {
				name := fmt.Sprintf("j%d", i)
				job.Needs = append(job.Needs, name)
				spec.Jobs[name] = workflowsv1alpha1.Job{RunsOn: "bash", Steps: steps(14)}
			}
			spec.Jobs["j0"] = workflowsv1alpha1.Job{RunsOn: "bash", Steps: steps(28)}
		}},
		"a step too many in all": {
			change: func(spec *workflowsv1alpha1.WorkflowRunSpec, job *workflowsv1alpha1.Job) {
				job.Steps = steps(1)
				for i := range 8 {
					spec.Jobs[fmt.Sprintf("j%d", i)] = workflowsv1alpha1.Job{RunsOn: "bash", Steps: steps(128)}
				}
			},
			want: []string{"spec.jobs: Too many: 1025: all jobs together may have 1024 steps: split the work into several WorkflowRuns"},
		},
		"a job and a need too many": {
			change: func(spec *workflowsv1alpha1.WorkflowRunSpec, job *workflowsv1alpha1.Job) {
				for i := range 64 {
					name := fmt.Sprintf("j%d", i)
					job.Needs = append(job.Needs, name)
					spec.Jobs[name] = workflowsv1alpha1.Job{Uses: "other"}
				}
			},
			want: []string{"spec.jobs: Too many: 65: must have at most 64 items", "spec.jobs[job].needs: Too many: 64: must have at most 63 items"},
		},
		"a step too many in a job": {
			change: func(_ *workflowsv1alpha1.WorkflowRunSpec, job *workflowsv1alpha1.Job) { job.Steps = steps(129) },
			want:   []string{"spec.jobs[job].steps: Too many: 129: must have at most 128 items"},
		},
		"texts that are a character too long": {
			change: func(_ *workflowsv1alpha1.WorkflowRunSpec, job *workflowsv1alpha1.Job) {
				job.RunsOn = strings.Repeat("a", 254)
				job.Env = map[string]workflowsv1alpha1.EnvValue{"E": workflowsv1alpha1.EnvValue(long + "x")}
				job.Outputs = map[string]workflowsv1alpha1.Output{"o": {Value: long + "x", Description: strings.Repeat("d", 1025)}}
				job.Steps[0].Run = strings.Repeat("x", 256<<10+1)
			},
			want: []string{
				"spec.jobs[job].env[E]: Too long: the text has 32769 characters, and may have 32768",
				"spec.jobs[job].outputs[o].description: Too long: the text has 1025 characters, and may have 1024",
				"spec.jobs[job].outputs[o].value: Too long: the text has 32769 characters, and may have 32768",
				"spec.jobs[job].runs-on: Too long: the text has 254 characters, and may have 253",
				`spec.jobs[job].runs-on: Invalid value: "` + strings.Repeat("a", 254) + `": must be the name of a Runtime of the same namespace: lower-case letters, digits, '-' and '.', up to 253 characters`,
				"spec.jobs[job].steps[0].run: Too long: the text has 262145 characters, and may have 262144",
			},
		},
		"entries and artifacts that are one too many": {
			change: func(_ *workflowsv1alpha1.WorkflowRunSpec, job *workflowsv1alpha1.Job) {
				job.Env, job.Outputs = map[string]workflowsv1alpha1.EnvValue{}, map[string]workflowsv1alpha1.Output{}
				for i := range 65 {
					job.Env[fmt.Sprintf("E%d", i)] = ""
					job.Outputs[fmt.Sprintf("o%d", i)] = workflowsv1alpha1.Output{}
				}
				for i := range 33 {
					job.Steps[0].Artifacts = append(job.Steps[0].Artifacts, workflowsv1alpha1.StepArtifact{From: "jobs.job.artifacts.a", Path: fmt.Sprint(i)})
				}
			},
			want: append([]string{
				"spec.jobs[job].env: Too many: 65: must have at most 64 items",
				"spec.jobs[job].outputs: Too many: 65: must have at most 64 items",
				"spec.jobs[job].steps[0].artifacts: Too many: 33: must have at most 32 items",
			}, repeat(33, `spec.jobs[job].steps[0].artifacts[%d].from: Invalid value: "jobs.job.artifacts.a": a job cannot read from itself`)...),
		},
		"a definition that is too large": {
			change: func(_ *workflowsv1alpha1.WorkflowRunSpec, job *workflowsv1alpha1.Job) {
				job.Steps = steps(3)
				for i := range job.Steps {
					job.Steps[i].Run = strings.Repeat("x", 180_000)
				}
			},
			want: []string{"spec: Too long: the definition has 540114 bytes as JSON, and may have 524288: split it into several WorkflowRuns"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := &workflowsv1alpha1.WorkflowRunSpec{Jobs: map[string]workflowsv1alpha1.Job{}}
			job := workflowsv1alpha1.Job{RunsOn: "bash", Steps: steps(1)}
			tc.change(spec, &job)
			spec.Jobs["job"] = job
			checkTexts(t, tc.want, WorkflowRun(spec))
		})
	}
}

func repeat(n int, format string) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(format, i))
	}
	return list
}

func TestPassageIsPrintedAsText(t *testing.T) {
	passage := Passage{Position: expression.Position{Line: 1, Column: 2}, Expression: "${{ a && b }}"}
	err := field.Invalid(field.NewPath("spec"), passage, "no operators")
	if diff := cmp.Diff("spec: Invalid value: line 1, column 2: ${{ a && b }}: no operators", err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}
