package validate

import (
	"strings"
	"testing"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

func TestWorkflow(t *testing.T) {
	cases := map[string]struct {
		spec string
		want []string
	}{
		"inputs wherever they can be read": {spec: `
inputs:
	image: {type: string, required: true, description: what to test}
	os: {default: bash}
	flags: {}
outputs:
	` + strings.Repeat("r", 47) + `: {value: '${{ jobs.test.outputs.report }}', description: what was found}
	any: {value: '${{ jobs.call.outputs.whatever }}'}
jobs:
	test:
		runs-on: ${{ inputs.os }}
		env: {FLAGS: '${{ inputs.flags }}'}
		steps:
		- name: test
		  run: test ${{ inputs.image }}
		  artifacts: [{from: 'jobs.call.artifacts.${{ inputs.flags }}', path: 'in/${{ inputs.flags }}'}]
		needs: [call]
		outputs: {report: {value: '${{ inputs.image }} ${{ steps.test.outputs.report }}'}}
	call: {uses: other, with: {image: '${{ inputs.image }}'}}
`},
		"inputs that are wrong": {
			spec: `
inputs:
	-a: {type: number}
	both: {required: true, default: x}
	expression: {default: 'x ${{ inputs.a }}'}
	dollar: {default: '$ {{ x }}'}
jobs: {a: {uses: b}}
`,
			want: []string{
				`spec.inputs[-a]: Invalid value: "-a": the name of an input must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters`,
				`spec.inputs[-a].type: Unsupported value: "number": supported values: "string"`,
				"spec.inputs[both].default: Forbidden: an input is either required or has a default: remove one of them",
				"spec.inputs[expression].default: Forbidden: a default is taken as it is and holds no expressions: write ${{ inputs.NAME }} where the input is used",
			},
		},
		"inputs that nobody declared": {
			spec: `
inputs: {image: {}}
jobs:
	a:
		runs-on: bash
		env: {I: '${{ inputs.imgae }}', O: '${{ inputs.other }}'}
		steps: [{name: s, uses: act, with: {i: '${{ inputs.Image }}'}}]
`,
			want: []string{
				`spec.jobs[a].env[I]: Invalid value: line 1, column 1: ${{ inputs.imgae }}: "imgae" is not an input of this Workflow: did you mean "image"?`,
				`spec.jobs[a].env[O]: Invalid value: line 1, column 1: ${{ inputs.other }}: "other" is not an input of this Workflow: declare it in spec.inputs`,
				`spec.jobs[a].steps[0].with[i]: Invalid value: line 1, column 1: ${{ inputs.Image }}: "Image" is not an input of this Workflow: did you mean "image"?`,
			},
		},
		"outputs that cannot be had": {
			spec: `
inputs: {image: {}}
outputs:
	` + strings.Repeat("r", 48) + `: {value: x}
	input: {value: '${{ inputs.image }}'}
	job: {value: '${{ jobs.ab.outputs.x }}'}
	output: {value: '${{ jobs.a.outputs.x }}'}
	step: {value: '${{ steps.s.outputs.x }}'}
jobs: {a: {runs-on: bash, steps: [{name: s, run: x}]}, b: {uses: b, needs: [c]}}
`,
			want: []string{
				`spec.jobs[b].needs[0]: Invalid value: "c": "c" is not a job of this Workflow`,
				"spec.outputs[input].value: Invalid value: line 1, column 1: ${{ inputs.image }}: the outputs of a Workflow see jobs only",
				`spec.outputs[job].value: Invalid value: line 1, column 1: ${{ jobs.ab.outputs.x }}: "ab" is not a job of this Workflow`,
				`spec.outputs[` + strings.Repeat("r", 48) + `]: Invalid value: "` + strings.Repeat("r", 48) + `": the name of an output must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 47 characters`,
				"spec.outputs[step].value: Invalid value: line 1, column 1: ${{ steps.s.outputs.x }}: the outputs of a Workflow see jobs only: give the job an output",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			checkTexts(t, tc.want, Workflow(decode[workflowsv1alpha1.WorkflowSpec](t, tc.spec)))
		})
	}
}

func TestAction(t *testing.T) {
	const noJobs = "an Action sees its own inputs and steps only: hand the value to it in an input"
	cases := map[string]struct {
		spec string
		want []string
	}{
		"own inputs and steps": {spec: `
inputs: {version: {default: "3.12"}}
outputs: {python-version: {value: '${{ steps.setup.outputs.python-version }} ${{ inputs.version }}'}}
steps:
- {name: setup, run: 'setup ${{ inputs.version }}', artifacts: [{from: jobs.build.artifacts.dist, path: dist}]}
- {name: check, run: 'check ${{ steps.setup.outputs.path }}', env: {V: '${{ inputs.version }}'}, timeout: 1m}
`},
		"no steps": {spec: `steps: []`, want: []string{"spec.steps: Required value: name at least one step"}},
		"what an Action cannot do": {
			spec: `
inputs: {version: {}}
outputs: {a: {value: '${{ jobs.build.outputs.a }}'}, b: {value: '${{ steps.setpu.outputs.a }}'}}
steps:
- {name: setup, uses: other, with: {a: b}}
- {name: empty}
- {name: read, run: '${{ jobs.build.outputs.a }} ${{ steps.later.outputs.a }} ${{ inputs.verzion }}'}
- {name: later, run: x, artifacts: [{from: build, path: x}]}
`,
			want: []string{
				"spec.outputs[a].value: Invalid value: line 1, column 1: ${{ jobs.build.outputs.a }}: " + noJobs,
				`spec.outputs[b].value: Invalid value: line 1, column 1: ${{ steps.setpu.outputs.a }}: "setpu" is not a step of this Action: did you mean "setup"?`,
				"spec.steps[0].uses: Forbidden: the steps of an Action run scripts: an Action cannot call another Action",
				"spec.steps[1].run: Required value: a step of an Action runs a script",
				"spec.steps[2].run: Invalid value: line 1, column 1: ${{ jobs.build.outputs.a }}: " + noJobs,
				`spec.steps[2].run: Invalid value: line 1, column 29: ${{ steps.later.outputs.a }}: step "later" comes later: a step sees only those before it`,
				`spec.steps[2].run: Invalid value: line 1, column 58: ${{ inputs.verzion }}: "verzion" is not an input of this Action: did you mean "version"?`,
				`spec.steps[3].artifacts[0].from: Invalid value: "build": must be jobs.<job>.artifacts.<name>`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			checkTexts(t, tc.want, Action(decode[workflowsv1alpha1.ActionSpec](t, tc.spec)))
		})
	}
}
