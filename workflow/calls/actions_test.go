package calls

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

func TestActions(t *testing.T) {
	const fetch = `fetch: {inputs: {from: {default: x}}, steps: [
	{name: s, run: x, artifacts: [{from: jobs.build.artifacts.dist, path: dist}, {from: 'jobs.${{ inputs.from }}.artifacts.dist', path: b}]},
	{name: t, run: x, artifacts: [{from: 'jobs.${{ ''lint'' }}.artifacts.report', path: report}]}]}`
	cases := map[string]struct {
		actions string
		jobs    string
		want    []string
		errs    []string
	}{
		"no steps that call": {jobs: `{a: {runs-on: sh, steps: [{name: s, run: x}]}, b: {uses: b}}`},
		"Actions that fit, called twice and in two jobs": {
			actions: `{one: {inputs: {i: {required: true}, j: {default: x}}, steps: [{name: s, run: x}]}, two: {steps: [{name: s, run: x}]}, three: {steps: [{name: s, run: x}]}}`,
			jobs: `{a: {runs-on: sh, steps: [{name: s, uses: one, with: {i: '${{ steps.none.outputs.x }}'}}, {name: t, uses: two}, {name: u, uses: two}]},
				b: {runs-on: sh, steps: [{name: s, uses: one, with: {i: v, j: v}}]}}`,
			want: []string{"one", "two"},
		},
		"Actions that cannot be called": {
			actions: `{nested: {steps: [{name: s, uses: other}, {name: s, run: x}]}, fine: {steps: [{name: s, run: x}]}}`,
			jobs: `{b: {runs-on: sh, steps: [{name: s, uses: gone}, {name: t, uses: fine, with: {a: b}}]},
				a: {runs-on: sh, steps: [{name: s, uses: nested, with: {not: looked at}}, {name: t, uses: gone}]}}`,
			want: []string{"fine"},
			errs: []string{
				`spec.jobs[a].steps[0].uses: Invalid value: "nested": Action "nested" is invalid: ` +
					`spec.steps[0].uses: Forbidden: the steps of an Action run scripts: an Action cannot call another Action, and 1 more`,
				`spec.jobs[a].steps[1].uses: Not found: "gone": there is no Action "gone" in this namespace`,
				`spec.jobs[b].steps[0].uses: Not found: "gone": there is no Action "gone" in this namespace`,
				`spec.jobs[b].steps[1].with[a]: Invalid value: "a": "a" is not an input of Action "fine": remove it, or declare it in the inputs there`,
			},
		},
		"an Action that cannot exist": {
			jobs: `{a: {runs-on: sh, steps: [{name: s, uses: ../b}]}}`,
			errs: []string{`spec.jobs[a].steps[0].uses: Not found: "../b": there is no Action "../b" in this namespace`},
		},
		"inputs that do not fit": {
			actions: `act: {inputs: {image: {required: true}, arch: {required: true}}, steps: [{name: s, run: x}]}`,
			jobs:    `{a: {runs-on: sh, steps: [{name: s, uses: act, with: {imgae: v}}]}}`,
			want:    []string{"act"},
			errs: []string{
				`spec.jobs[a].steps[0].with: Required value: Action "act" requires the input "arch": give it a value`,
				`spec.jobs[a].steps[0].with: Required value: Action "act" requires the input "image": give it a value`,
				`spec.jobs[a].steps[0].with[imgae]: Invalid value: "imgae": "imgae" is not an input of Action "act": did you mean "image"?`,
			},
		},
		"artifacts of jobs that the caller needs": {
			actions: fetch,
			jobs: `{build: {uses: b}, lint: {runs-on: sh, steps: [{name: s, run: x}]},
				test: {runs-on: sh, needs: [build, lint], steps: [{name: s, uses: fetch}]}}`,
			want: []string{"fetch"},
		},
		"artifacts of jobs that the caller does not need": {
			actions: fetch,
			jobs: `{build: {runs-on: sh, steps: [{name: s, uses: fetch}]}, linter: {runs-on: sh, steps: [{name: s, run: x}]},
				test: {runs-on: sh, steps: [{name: s, uses: fetch}]}}`,
			want: []string{"fetch"},
			errs: []string{
				`spec.jobs[build].steps[0].uses: Invalid value: "fetch": Action "fetch": spec.steps[0].artifacts[0].from: a job cannot read from itself`,
				`spec.jobs[build].steps[0].uses: Invalid value: "fetch": Action "fetch": spec.steps[1].artifacts[0].from: "lint" is not a job of this WorkflowRun: did you mean "linter"?`,
				`spec.jobs[test].steps[0].uses: Invalid value: "fetch": Action "fetch": spec.steps[0].artifacts[0].from: job "test" does not need "build": add it to jobs.test.needs`,
				`spec.jobs[test].steps[0].uses: Invalid value: "fetch": Action "fetch": spec.steps[1].artifacts[0].from: "lint" is not a job of this WorkflowRun: did you mean "linter"?`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := written(t, "", tc.actions)
			got, errs, err := Actions(n, *decode[map[string]workflowsv1alpha1.Job](t, tc.jobs))
			if err != nil {
				t.Fatal(err)
			}
			checkTexts(t, tc.errs, errs)
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("Actions (-want +got):\n%s", diff)
			}
			for name, spec := range got {
				if spec != n.actions[name] {
					t.Errorf("Action %q is not the one that was found", name)
				}
			}
			n.checkReads(t)
			if len(n.workflows) > 0 {
				t.Errorf("Workflows were read: %v", n.reads)
			}
		})
	}
}

// TestActionsCountInPlaceOfTheirCalls holds the bounds of a WorkflowRun with the Actions that it calls.
func TestActionsCountInPlaceOfTheirCalls(t *testing.T) {
	action := func(steps int, script string) *workflowsv1alpha1.ActionSpec {
		spec := &workflowsv1alpha1.ActionSpec{}
		for i := range steps {
			spec.Steps = append(spec.Steps, workflowsv1alpha1.Step{Name: fmt.Sprint("s", i), Run: script})
		}
		return spec
	}
	large := strings.Repeat("x", 200<<10)
	n := &namespace{actions: map[string]*workflowsv1alpha1.ActionSpec{
		"wide": action(128, "x"), "narrow": action(1, "x"), "large": action(1, large), "larger": action(1, large+"x"), "largest": action(1, strings.Repeat("x", 112<<10)),
	}}
	calls := func(actions ...string) map[string]workflowsv1alpha1.Job {
		job := workflowsv1alpha1.Job{RunsOn: "sh"}
		for i, name := range actions {
			job.Steps = append(job.Steps, workflowsv1alpha1.Step{Name: fmt.Sprint("s", i), Uses: name})
		}
		return map[string]workflowsv1alpha1.Job{"a": job}
	}
	cases := map[string]struct {
		jobs map[string]workflowsv1alpha1.Job
		want []string
	}{
		"as many steps as there may be": {jobs: calls("wide", "wide", "wide", "wide", "wide", "wide", "wide", "wide")},
		"a step more": {
			jobs: calls("wide", "wide", "wide", "wide", "wide", "wide", "wide", "wide", "narrow"),
			want: []string{"spec.jobs: Too many: 1025: all jobs together may have 1024 steps, those of the Actions that they call included: split the work into several WorkflowRuns"},
		},
		"large Actions, each counted once": {jobs: calls("large", "large", "large", "larger")},
		"Actions that are too large together": {
			jobs: calls("large", "larger", "largest"),
			want: []string{"spec.jobs: Too long: the jobs and the Actions that they call have 524522 bytes as JSON, and may have 524288: split the work into several WorkflowRuns"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, errs, err := Actions(n, tc.jobs)
			if err != nil {
				t.Fatal(err)
			}
			checkTexts(t, tc.want, errs)
			errs, err = Jobs(n, tc.jobs)
			if err != nil {
				t.Fatal(err)
			}
			checkTexts(t, tc.want, errs)
		})
	}
}

func TestActionsThatCannotBeRead(t *testing.T) {
	n := &namespace{broken: "Action act"}
	got, errs, err := Actions(n, *decode[map[string]workflowsv1alpha1.Job](t, `{a: {runs-on: sh, steps: [{name: s, uses: gone}, {name: t, uses: act}]}}`))
	if !errors.Is(err, errBroken) || got != nil || errs != nil {
		t.Errorf("got %v, %v, %v; want the error of reading alone", got, errs, err)
	}
}
