package validate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// TestHostileDefinitionsCostLittle hands over what would make hundreds of thousands of errors.
func TestHostileDefinitionsCostLittle(t *testing.T) {
	job := func(script string) workflowsv1alpha1.Job {
		return workflowsv1alpha1.Job{RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: script}}}
	}
	cases := map[string]struct {
		jobs map[string]workflowsv1alpha1.Job
		want int
	}{
		"one text of broken expressions":       {map[string]workflowsv1alpha1.Job{"a": job(strings.Repeat("${{", 80_000))}, 100},
		"a definition over its bound":          {map[string]workflowsv1alpha1.Job{"a": job(strings.Repeat("${{", 200_000))}, 1},
		"many texts that are all a bit broken": {manyJobs(60, job("${{ a }}${{ b }}")), 101},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := WorkflowRun(&workflowsv1alpha1.WorkflowRunSpec{Jobs: tc.jobs})
			if len(got) != tc.want {
				t.Errorf("got %d errors, want %d; the last one: %v", len(got), tc.want, got[len(got)-1])
			}
		})
	}
}

func manyJobs(n int, job workflowsv1alpha1.Job) map[string]workflowsv1alpha1.Job {
	jobs := map[string]workflowsv1alpha1.Job{}
	for i := range n {
		jobs[fmt.Sprintf("j%02d", i)] = job
	}
	return jobs
}

func TestOutputContract(t *testing.T) {
	jobs := map[string]workflowsv1alpha1.Job{"build": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "x"}},
		Outputs: map[string]workflowsv1alpha1.Output{"image": {Value: "x"}}}}
	const prefix = workflowsv1alpha1.AnnotationOutputPrefix
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprintf("%so%02d", prefix, i)] = "x"
	}
	cases := map[string]struct {
		annotations map[string]string
		want        []string
	}{
		"valid, beside others": {map[string]string{prefix + "image": "${{ jobs.build.outputs.image }}", "example.com/x": "${{ y"}, nil},
		"what is not there": {map[string]string{prefix + "a": "${{ jobs.biuld.outputs.image }}"}, []string{
			`metadata.annotations[kruntimes.io/workflow-output.a]: Invalid value: line 1, column 1: ${{ jobs.biuld.outputs.image }}: "biuld" is not a job of this WorkflowRun: did you mean "build"?`}},
		"too many": {many, []string{"metadata.annotations: Too many: 65: a WorkflowRun declares up to 64 outputs, and this one declares 65"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range OutputContract(tc.annotations, jobs) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
