package validate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// FuzzDefinitions holds what is true of every definition, whatever nonsense stands in it.
func FuzzDefinitions(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"jobs":{"a":{"runs-on":"bash","steps":[{"name":"s","run":"${{ inputs.x }} ${{ steps.t.outputs.x"}]}}}`,
		`{"jobs":{"a":{"uses":"b","needs":["a","c"],"with":{"x":"${{ jobs.a.outputs.b }}"}},"c":{"needs":["a"],"outputs":{"o":{"value":"${{"}}}}}`,
		`{"inputs":{"x":{"default":"${{"}},"outputs":{"o":{"value":"${{ jobs.a.outputs.b }}${{ steps.s.outputs.b }}"}},"jobs":{"":{}}}`,
		`{"steps":[{"name":"s","artifacts":[{"from":"jobs..artifacts.x","path":"${{ '..' }}"},{"from":"","path":""}],"timeout":"-1s"}]}`,
		`{"jobs":{"a":{"runs-on":"${{ 'a' }}","env":{"\u0000":"","é":"${{ steps.a }}"},"steps":[{"name":"","uses":"-"},{"name":"","with":{"":""}}]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var run workflowsv1alpha1.WorkflowRunSpec
		if json.Unmarshal(data, &run) == nil {
			checkErrors(t, func() field.ErrorList { return WorkflowRun(&run) })
		}
		var workflow workflowsv1alpha1.WorkflowSpec
		if json.Unmarshal(data, &workflow) == nil {
			checkErrors(t, func() field.ErrorList { return Workflow(&workflow) })
		}
		var action workflowsv1alpha1.ActionSpec
		if json.Unmarshal(data, &action) == nil {
			checkErrors(t, func() field.ErrorList { return Action(&action) })
		}
	})
}

// checkErrors validates twice, for the order of maps must not show.
func checkErrors(t *testing.T, validate func() field.ErrorList) {
	t.Helper()
	errs := validate()
	if diff := cmp.Diff(texts(errs), texts(validate())); diff != "" {
		t.Errorf("errors of the second time (-first +second):\n%s", diff)
	}
	for _, e := range errs {
		if body := e.ErrorBody(); !utf8.ValidString(body) || strings.Contains(body, "\n") {
			t.Errorf("error %q is not one line of text", body)
		}
	}
	if !slices.IsSortedFunc(errs, func(a, b *field.Error) int { return comparePaths(a.Field, b.Field) }) {
		t.Errorf("errors are not sorted: %q", texts(errs))
	}
}

func TestComparePaths(t *testing.T) {
	sorted := []string{
		"", "spec", "spec.jobs", "spec.jobs[a]", "spec.jobs[a].steps[2]", "spec.jobs[a].steps[2].run", "spec.jobs[a].steps[10]",
		"spec.jobs[a-b]", "spec.jobs[a1]", "spec.jobs[a01]", "spec.jobs[a2]", "spec.jobs[a18446744073709551616]", "spec.jobs[b]",
	}
	for i, a := range sorted {
		for j, b := range sorted {
			if got, want := comparePaths(a, b), i-j; got < 0 != (want < 0) || got > 0 != (want > 0) {
				t.Errorf("comparePaths(%q, %q) = %d, want the sign of %d", a, b, got, want)
			}
		}
	}
}

// largest is a definition at all bounds at once; text stands in every script.
func largest(text string) *workflowsv1alpha1.WorkflowRunSpec {
	spec := &workflowsv1alpha1.WorkflowRunSpec{Jobs: map[string]workflowsv1alpha1.Job{}}
	for j := range workflowsv1alpha1.MaxJobs {
		job := workflowsv1alpha1.Job{RunsOn: "bash", Outputs: map[string]workflowsv1alpha1.Output{}}
		for n := range j {
			job.Needs = append(job.Needs, fmt.Sprintf("job-%d", n))
		}
		for s := range workflowsv1alpha1.MaxSteps / workflowsv1alpha1.MaxJobs {
			job.Steps = append(job.Steps, workflowsv1alpha1.Step{Name: fmt.Sprintf("step-%d", s), Run: text})
		}
		spec.Jobs[fmt.Sprintf("job-%d", j)] = job
	}
	return spec
}

func BenchmarkWorkflowRun(b *testing.B) {
	for name, text := range map[string]string{
		"plain":    strings.Repeat("echo a line of a script\n", 16),
		"literals": strings.Repeat("${{ 'text' }} and other text\n", 14),
		"wrong":    strings.Repeat("${{ steps.setp-1.outputs.x }}", 14),
		"hostile":  strings.Repeat("${{ jobs."+strings.Repeat("x", 57)+"zz.outputs.x }}", 5),
	} {
		spec := largest(text)
		if name == "hostile" {
			for j := range workflowsv1alpha1.MaxJobs {
				spec.Jobs[strings.Repeat("x", 57)+fmt.Sprint(j)] = spec.Jobs[fmt.Sprintf("job-%d", j)]
				delete(spec.Jobs, fmt.Sprintf("job-%d", j))
			}
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if errs := WorkflowRun(spec); len(errs) > 0 != (name == "wrong" || name == "hostile") {
					b.Fatal(errs[0])
				}
			}
		})
	}
}
