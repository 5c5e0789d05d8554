package template

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
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

func TestJobsRendersEveryTextThatMayHoldExpressions(t *testing.T) {
	const written = `
call:
	uses: deploy
	needs: [test]
	with: {to: '${{ inputs.x }} ${{ jobs.test.outputs.o }}', plain: '${{ ''${{ inputs.x }}'' }}'}
test:
	runs-on: rt-${{ inputs.x }}
	env: {A: '${{ inputs.x }}', B: '$HOME ${{ ''$'' }}'}
	outputs: {o: {value: '${{ inputs.x }}${{ steps.s.outputs.k }}', description: '${{ inputs.x }}'}}
	steps:
	- name: s
	  run: "echo ${{ inputs.x }}\n${{inputs.dollar}}{{ }}"
	  env: {E: '${{ inputs.x }}'}
	  timeout: 1m30s
	  artifacts: [{from: 'jobs.other.artifacts.${{ inputs.x }}', path: 'in/${{ inputs.x }}'}]
	- {name: t, uses: act, with: {i: '${{ inputs.x }}', j: '${{ inputs.empty }}'}}
`
	const rendered = `
call:
	uses: deploy
	needs: [test]
	with: {to: 'val ${{ jobs.test.outputs.o }}', plain: '${{ ''${{ inputs.x }}'' }}'}
test:
	runs-on: rt-val
	env: {A: 'val', B: '$HOME ${{ ''$'' }}'}
	outputs: {o: {value: 'val${{ steps.s.outputs.k }}', description: '${{ inputs.x }}'}}
	steps:
	- name: s
	  run: "echo val\n${{ '$' }}{{ }}"
	  env: {E: 'val'}
	  timeout: 1m30s
	  artifacts: [{from: 'jobs.other.artifacts.val', path: 'in/val'}]
	- {name: t, uses: act, with: {i: 'val', j: '${{ '''' }}'}}
`
	type jobs = map[string]workflowsv1alpha1.Job
	given := *decode[jobs](t, written)
	got, errs := Jobs(given, map[string]string{"x": "val", "dollar": "$", "empty": ""})
	checkTexts(t, nil, errs)
	if diff := cmp.Diff(*decode[jobs](t, rendered), got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(*decode[jobs](t, written), given); diff != "" {
		t.Errorf("the jobs that were handed over changed (-want +got):\n%s", diff)
	}
}

func TestJobsErrors(t *testing.T) {
	cases := map[string]struct {
		jobs   string
		inputs map[string]string
		want   []string
	}{
		"all that is wrong, wherever it stands": {
			jobs: `
b:
	runs-on: ${{ inputs.imgae }}
	env: {A: '${{ x.y }}'}
	outputs: {o: {value: '${{ inputs.other }}'}}
	steps:
	- {name: s, run: 'echo ${{ inputs.a }} ${{ inputs.image }}', env: {E: '${{ inputs.b }}'}, artifacts: [{from: '${{ inputs.c }}', path: '${{ inputs.d }}'}]}
	- {name: t, uses: act, with: {i: '${{ inputs.'}}
a: {uses: c, with: {i: '${{ inputs.e }}'}}
`,
			inputs: map[string]string{"image": "v"},
			want: []string{
				`spec.jobs[a].with[i]: Invalid value: line 1, column 1: ${{ inputs.e }}: there is no input "e"`,
				`spec.jobs[b].env[A]: Invalid value: line 1, column 1: ${{ x.y }}: unknown context "x": write inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text'`,
				`spec.jobs[b].outputs[o].value: Invalid value: line 1, column 1: ${{ inputs.other }}: there is no input "other"`,
				`spec.jobs[b].runs-on: Invalid value: line 1, column 1: ${{ inputs.imgae }}: there is no input "imgae": did you mean "image"?`,
				`spec.jobs[b].steps[0].artifacts[0].from: Invalid value: line 1, column 1: ${{ inputs.c }}: there is no input "c"`,
				`spec.jobs[b].steps[0].artifacts[0].path: Invalid value: line 1, column 1: ${{ inputs.d }}: there is no input "d"`,
				`spec.jobs[b].steps[0].env[E]: Invalid value: line 1, column 1: ${{ inputs.b }}: there is no input "b"`,
				`spec.jobs[b].steps[0].run: Invalid value: line 1, column 6: ${{ inputs.a }}: there is no input "a"`,
				`spec.jobs[b].steps[1].with[i]: Invalid value: line 1, column 1: ${{ inputs.: the expression is not closed: end it with }}, or write ${{ '${{' }} for the characters ${{ themselves`,
			},
		},
		"values that are longer than each field may be": {
			jobs: `
a: {runs-on: '${{ inputs.name }}', env: {E: '${{ inputs.value }}', F: '${{ inputs.path }}'}, outputs: {o: {value: '${{ inputs.value }}'}}, steps: [
	{name: s, run: '${{ inputs.value }}', artifacts: [{from: '${{ inputs.path }}', path: '${{ inputs.path }}'}]}, {name: t, uses: x, with: {i: '${{ inputs.value }}'}}]}
`,
			inputs: map[string]string{"name": strings.Repeat("ä", 254), "value": strings.Repeat("ä", 32<<10+1), "path": strings.Repeat("ä", 1025)},
			want: []string{
				"spec.jobs[a].env[E]: Invalid value: line 1, column 1: ${{ inputs.value }}: the text would have 32769 characters with all inputs in it, and may have 32768: hand over shorter inputs",
				"spec.jobs[a].outputs[o].value: Invalid value: line 1, column 1: ${{ inputs.value }}: the text would have 32769 characters with all inputs in it, and may have 32768: hand over shorter inputs",
				"spec.jobs[a].runs-on: Invalid value: line 1, column 1: ${{ inputs.name }}: the text would have 254 characters with all inputs in it, and may have 253: hand over shorter inputs",
				"spec.jobs[a].steps[0].artifacts[0].from: Invalid value: line 1, column 1: ${{ inputs.path }}: the text would have 1025 characters with all inputs in it, and may have 1024: hand over shorter inputs",
				"spec.jobs[a].steps[0].artifacts[0].path: Invalid value: line 1, column 1: ${{ inputs.path }}: the text would have 1025 characters with all inputs in it, and may have 1024: hand over shorter inputs",
				"spec.jobs[a].steps[1].with[i]: Invalid value: line 1, column 1: ${{ inputs.value }}: the text would have 32769 characters with all inputs in it, and may have 32768: hand over shorter inputs",
			},
		},
		"a script that is longer than one may be": {
			jobs:   `{a: {runs-on: sh, steps: [{name: s, run: '${{ inputs.long }}'}]}}`,
			inputs: map[string]string{"long": strings.Repeat("x", 256<<10+1)},
			want: []string{
				"spec.jobs[a].steps[0].run: Invalid value: line 1, column 1: ${{ inputs.long }}: the text would have 262145 characters with all inputs in it, and may have 262144: hand over shorter inputs",
			},
		},
		"values at the bounds": {
			jobs: `
a: {runs-on: '${{ inputs.name }}', env: {E: '${{ inputs.value }}'}, steps: [
	{name: s, run: '${{ inputs.long }}', artifacts: [{from: '${{ inputs.path }}', path: '${{ inputs.path }}'}]}]}
`,
			inputs: map[string]string{"name": strings.Repeat("n", 253), "value": strings.Repeat("ä", 32<<10), "path": strings.Repeat("p", 1024), "long": strings.Repeat("x", 256<<10)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			jobs, errs := Jobs(*decode[map[string]workflowsv1alpha1.Job](t, tc.jobs), tc.inputs)
			checkTexts(t, tc.want, errs)
			if (jobs == nil) != (len(tc.want) > 0) {
				t.Errorf("got %d jobs beside %d errors", len(jobs), len(errs))
			}
		})
	}
}

// TestHostileInputsCostLittle renders what would come to gigabytes.
func TestHostileInputsCostLittle(t *testing.T) {
	jobs := map[string]workflowsv1alpha1.Job{}
	for j := range 64 {
		var job workflowsv1alpha1.Job
		for s := range 128 {
			job.Steps = append(job.Steps, workflowsv1alpha1.Step{Name: fmt.Sprint(s), Run: strings.Repeat("${{ inputs.a }}", 7)})
		}
		jobs[fmt.Sprintf("j%02d", j)] = job
	}
	cases := map[string]struct {
		inputs map[string]string
		want   int
		last   string
	}{
		"values that are too long together": {
			inputs: map[string]string{"a": strings.Repeat("v", 32<<10)}, want: 1,
			last: "spec.jobs: Too long: the jobs would have more bytes than the 524288 of a definition with all inputs in them: hand over shorter inputs, or split the Workflow",
		},
		"values that are too long for every field": {
			inputs: map[string]string{"a": strings.Repeat("v", 64<<10)}, want: 100,
			last: "spec.jobs[j00].steps[99].run: Invalid value: line 1, column 1: ${{ inputs.a }}: the text would have 458752 characters with all inputs in it, and may have 262144: hand over shorter inputs",
		},
		"no values at all": {
			want: 100,
			last: `spec.jobs[j00].steps[14].run: Invalid value: line 1, column 16: ${{ inputs.a }}: there is no input "a"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, errs := Jobs(jobs, tc.inputs)
			runtime.ReadMemStats(&after)
			if got != nil || len(errs) != tc.want {
				t.Fatalf("got %d jobs and %d errors, want %d errors alone", len(got), len(errs), tc.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
				t.Errorf("rendering took %d bytes of memory, want less than 16 MiB", used)
			}
			last := errs[len(errs)-1].Error()
			if diff := cmp.Diff(tc.last, last); diff != "" {
				t.Errorf("last error (-want +got):\n%s", diff)
			}
		})
	}
}

const deploy = `
inputs:
	image: {required: true}
	env: {default: staging}
outputs:
	url: {value: 'https://${{ jobs.apply.outputs.host }}'}
jobs:
	apply:
		runs-on: bash
		env: {IMAGE: '${{ inputs.image }}'}
		steps: [{name: apply, run: 'apply ${{ inputs.env }}'}]
		outputs: {host: {value: '${{ inputs.env }}.${{ steps.apply.outputs.domain }}'}}
`

func TestWorkflowRun(t *testing.T) {
	long := strings.Repeat("n", 60) + ".deploy"
	for name, label := range map[string]string{"deploy": "deploy", long: strings.Repeat("n", 54) + "-368aaeae"} {
		got, errs := WorkflowRun(name, decode[workflowsv1alpha1.WorkflowSpec](t, deploy), map[string]string{"image": "app:${{ v }}"})
		checkTexts(t, nil, errs)
		want := &workflowsv1alpha1.WorkflowRun{
			TypeMeta: metav1.TypeMeta{APIVersion: "workflows.kruntimes.io/v1alpha1", Kind: "WorkflowRun"},
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{"workflows.kruntimes.io/workflow": label},
				Annotations: map[string]string{"kruntimes.io/workflow-output.url": "https://${{ jobs.apply.outputs.host }}"},
			},
			Spec: *decode[workflowsv1alpha1.WorkflowRunSpec](t, `
jobs:
	apply:
		runs-on: bash
		env: {IMAGE: '${{ ''app:${{ v }}'' }}'}
		steps: [{name: apply, run: 'apply staging'}]
		outputs: {host: {value: 'staging.${{ steps.apply.outputs.domain }}'}}
`),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("WorkflowRun of %q (-want +got):\n%s", name, diff)
		}
	}
}

func TestWorkflowRunErrors(t *testing.T) {
	outputs := map[string]workflowsv1alpha1.Output{}
	for i := range 10 {
		outputs[fmt.Sprintf("o%d", i)] = workflowsv1alpha1.Output{Value: strings.Repeat("x", 32<<10)}
	}
	cases := map[string]struct {
		change func(*workflowsv1alpha1.WorkflowSpec)
		with   map[string]string
		want   []string
	}{
		"inputs that do not fit": {
			with: map[string]string{"imgae": "x"},
			want: []string{
				`with: Required value: Workflow "deploy" requires the input "image": give it a value`,
				`with[imgae]: Invalid value: "imgae": "imgae" is not an input of Workflow "deploy": did you mean "image"?`,
			},
		},
		"a text that cannot be rendered": {
			change: func(spec *workflowsv1alpha1.WorkflowSpec) { delete(spec.Inputs, "env") },
			with:   map[string]string{"image": "x"},
			want: []string{
				`spec.jobs[apply].outputs[host].value: Invalid value: line 1, column 1: ${{ inputs.env }}: there is no input "env"`,
				`spec.jobs[apply].steps[0].run: Invalid value: line 1, column 7: ${{ inputs.env }}: there is no input "env"`,
			},
		},
		"a value with which the jobs are invalid": {
			change: func(spec *workflowsv1alpha1.WorkflowSpec) {
				job := spec.Jobs["apply"]
				job.RunsOn = "${{ inputs.env }}"
				spec.Jobs["apply"] = job
			},
			with: map[string]string{"image": "x", "env": "No Runtime"},
			want: []string{
				`spec.jobs[apply].runs-on: Invalid value: "No Runtime": must be the name of a Runtime of the same namespace: lower-case letters, digits, '-' and '.', up to 253 characters`,
			},
		},
		"an output of a job that is not there": {
			change: func(spec *workflowsv1alpha1.WorkflowSpec) {
				spec.Outputs["url"] = workflowsv1alpha1.Output{Value: "${{ jobs.aply.outputs.host }}"}
			},
			with: map[string]string{"image": "x"},
			want: []string{
				`metadata.annotations[kruntimes.io/workflow-output.url]: Invalid value: line 1, column 1: ${{ jobs.aply.outputs.host }}: "aply" is not a job of this WorkflowRun: did you mean "apply"?`,
			},
		},
		"a contract over its budget": {
			change: func(spec *workflowsv1alpha1.WorkflowSpec) { spec.Outputs = outputs },
			with:   map[string]string{"image": "x"},
			want:   []string{"metadata.annotations: Too long: the declared outputs have 327990 bytes, and may have 245760"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := decode[workflowsv1alpha1.WorkflowSpec](t, deploy)
			if tc.change != nil {
				tc.change(spec)
			}
			run, errs := WorkflowRun("deploy", spec, tc.with)
			checkTexts(t, tc.want, errs)
			if run != nil {
				t.Errorf("got a WorkflowRun beside errors: %v", run)
			}
		})
	}
}

func TestContract(t *testing.T) {
	if got := Contract(nil); got != nil {
		t.Errorf("no outputs gave %v", got)
	}
	got := Contract(map[string]workflowsv1alpha1.Output{"a": {Value: "${{ jobs.a.outputs.b }}", Description: "d"}, "b-C_1": {}})
	want := map[string]string{"kruntimes.io/workflow-output.a": "${{ jobs.a.outputs.b }}", "kruntimes.io/workflow-output.b-C_1": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
