package workflows

import (
	"fmt"
	"strings"
	"testing"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// TestNamesThatCollideOrAreLong runs WorkflowRuns whose children's readable names are the same or too long: every step
// is executed once, under a name of its own.
func TestNamesThatCollideOrAreLong(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	p := startPlayer(t, ns, results(nil))
	j62, step := strings.Repeat("j", 62), "{runs-on: sh, steps: [{name: s, run: x}]}"
	long := strings.Repeat("w", 253)
	workflows := map[string]string{
		long:     fmt.Sprintf("jobs: {%sa: %s, %sb: %s}", j62, step, j62, step),
		"letter": fmt.Sprintf("jobs: {a_b: %s, a-b: %s, A-B: %s}", step, step, step),
		"a":      fmt.Sprintf("jobs: {b-c: %s}", step),
		"a-b":    fmt.Sprintf("jobs: {c: %s}", step),
		"dash":   "jobs: {a-b: {runs-on: sh, steps: [{name: c, run: x}]}, a: {runs-on: sh, steps: [{name: b-c, run: x}]}}",
	}
	for name, jobs := range workflows {
		newWorkflowRun(t, ns, name, jobs)
	}
	seen := map[string]bool{}
	for name := range workflows {
		run := awaitEnd(t, ns, name)
		if run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
			t.Errorf("%.20s: got %s: %s", name, run.Status.Phase, run.Status.Message)
		}
		for job, js := range run.Status.Jobs {
			for _, s := range js.Steps {
				if s.RunName == "" || seen[s.RunName] {
					t.Errorf("%.20s: job %s has no Run of its own: %q", name, job, s.RunName)
				}
				seen[s.RunName] = true
			}
		}
	}
	for step, names := range p.executions() {
		for i, name := range names {
			if !seen[name] || i > 0 && names[i-1] == name {
				t.Errorf("step %s was executed as %v", step, names)
			}
		}
	}
}
