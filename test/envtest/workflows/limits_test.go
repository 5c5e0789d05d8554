package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// grid makes a number of jobs of a number of steps each, in order, named so that they sort as they were made.
func grid(jobs, steps int) map[string]workflowsv1alpha1.Job {
	made := map[string]workflowsv1alpha1.Job{}
	for j := range jobs {
		job := workflowsv1alpha1.Job{RunsOn: "sh"}
		for s := range steps {
			job.Steps = append(job.Steps, workflowsv1alpha1.Step{Name: fmt.Sprintf("step-%03d", s), Run: "true"})
		}
		made[fmt.Sprintf("job-%02d", j)] = job
	}
	return made
}

// merge adds the jobs of b to a, under names of their own.
func merge(a, b map[string]workflowsv1alpha1.Job) map[string]workflowsv1alpha1.Job {
	for name, job := range b {
		a["other-"+name] = job
	}
	return a
}

// full gives every job all needs that it can have without a cycle, and every step an environment.
func full(jobs map[string]workflowsv1alpha1.Job, variables, size int) map[string]workflowsv1alpha1.Job {
	for name, job := range jobs {
		for other := range jobs {
			if other < name {
				job.Needs = append(job.Needs, other)
			}
		}
		for i := range job.Steps {
			job.Steps[i].Env = map[string]workflowsv1alpha1.EnvValue{}
			for v := range variables {
				job.Steps[i].Env[fmt.Sprintf("VARIABLE_%02d", v)] = workflowsv1alpha1.EnvValue(strings.Repeat("v", size))
			}
		}
		jobs[name] = job
	}
	return jobs
}

func TestLimits(t *testing.T) {
	const sum = "spec.jobs: Invalid value: all jobs together may have 1024 steps: split the work into several "
	tests := map[string]struct {
		jobs    map[string]workflowsv1alpha1.Job
		message string
	}{
		"64 jobs of 16 steps":                      {grid(64, 16), ""},
		"8 jobs of 128 steps":                      {grid(8, 128), ""},
		"64 jobs of 16 steps, all they may hold":   {full(grid(64, 16), 16, 16), ""},
		"65 jobs":                                  {grid(65, 1), "spec.jobs: Too many: 65: must have at most 64 items"},
		"129 steps of a job":                       {grid(1, 129), "spec.jobs.job-00.steps: Too many: 129: must have at most 128 items"},
		"1025 steps":                               {merge(grid(8, 128), grid(1, 1)), sum},
		"64 jobs of 128 steps":                     {grid(64, 128), sum},
		"64 jobs of 128 steps, with needs and env": {full(grid(64, 128), 4, 4), sum},
	}
	ns := shared.Namespace(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Namespace: ns, Name: "x"}
			for kind, object := range map[string]client.Object{
				"WorkflowRuns": &workflowsv1alpha1.WorkflowRun{ObjectMeta: meta, Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: tc.jobs}},
				"Workflows":    &workflowsv1alpha1.Workflow{ObjectMeta: meta, Spec: workflowsv1alpha1.WorkflowSpec{Jobs: tc.jobs}},
			} {
				message := tc.message
				if message == sum {
					message += kind
				}
				expectInvalid(t, kind, shared.Admin().Create(t.Context(), object, client.DryRunAll), message)
			}
		})
	}
}

// largeStatus is the status of a finished WorkflowRun of the jobs, with outputs and a message of every step.
func largeStatus(jobs map[string]workflowsv1alpha1.Job, outputs, value, message int) workflowsv1alpha1.WorkflowRunStatus {
	at := metav1.NewMicroTime(time.Date(2026, 7, 6, 12, 0, 0, 123456000, time.UTC))
	status := workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowFailed, SnapshotName: strings.Repeat("n", 253),
		StartTime: &at, CompletionTime: &at, Jobs: map[string]workflowsv1alpha1.JobStatus{}}
	values := map[string]corev1alpha1.OutputValue{}
	for o := range outputs {
		values[fmt.Sprintf("%c%c", 'a'+o/8, 'a'+o%8)] = corev1alpha1.OutputValue(strings.Repeat("v", value))
	}
	for name, job := range jobs {
		s := workflowsv1alpha1.JobStatus{Phase: workflowsv1alpha1.JobFailed, Pre: job.Needs, StartTime: &at, CompletionTime: &at}
		for _, step := range job.Steps {
			s.Steps = append(s.Steps, workflowsv1alpha1.StepStatus{Name: step.Name, Phase: corev1alpha1.RunSucceeded,
				RunName: strings.Repeat("r", 63), StartTime: &at, CompletionTime: &at, Outputs: values, Message: strings.Repeat("m", message)})
		}
		status.Jobs[name] = s
	}
	return status
}

func size(t *testing.T, value any) int {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// TestALargeStatusCanBeWritten goes to the bounds of the API: with scripts, Runs with long names, messages and outputs of
// some size; and with so many small outputs that the API server gives up to track who wrote them.
func TestALargeStatusCanBeWritten(t *testing.T) {
	tests := map[string]struct{ outputs, value, message int }{
		"a few outputs and messages": {4, 50, 260},
		"many small outputs":         {50, 2, 0},
	}
	ns := shared.Namespace(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			jobs := grid(workflowsv1alpha1.MaxJobs, workflowsv1alpha1.MaxSteps/workflowsv1alpha1.MaxJobs)
			for _, job := range jobs {
				for i := range job.Steps {
					job.Steps[i].Run = strings.Repeat("x", 450)
				}
			}
			run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "large-"},
				Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: jobs}}
			shared.Create(t, run)
			before := client.MergeFrom(run.DeepCopy())
			run.Status = largeStatus(jobs, tc.outputs, tc.value, tc.message)
			checkNear(t, "spec", size(t, run.Spec), workflowsv1alpha1.MaxDefinitionBytes)
			checkNear(t, "status", size(t, run.Status), workflowsv1alpha1.MaxStatusBytes)
			want := run.Status.DeepCopy()
			expectError(t, "writing the status", shared.Admin().Status().Patch(t.Context(), run, before), "")
			if diff := cmp.Diff(want, &run.Status); diff != "" {
				t.Errorf("the status that was stored (-want +got):\n%s", diff)
			}
			expectError(t, "setting a time to live", shared.Admin().Patch(t.Context(), run, mergePatch(`{"spec":{"ttlSecondsAfterFinished":1}}`)), "")
		})
	}
}

// checkNear checks that what the test makes is worth its name.
func checkNear(t *testing.T, what string, size, bound int) {
	t.Helper()
	if size > bound || size < bound*9/10 {
		t.Errorf("the %s has %d bytes, want a little less than %d", what, size, bound)
	}
}
