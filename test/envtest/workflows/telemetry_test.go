package workflows

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

const circle = "jobs: {a: {runs-on: sh, needs: [b], steps: [{name: s, run: x}]}, b: {runs-on: sh, needs: [a], steps: [{name: s, run: x}]}}"

// TestEventsAndMetricsTellOnceHowWorkflowRunsEnd ends WorkflowRuns in all ways, and starts another manager.
func TestEventsAndMetricsTellOnceHowWorkflowRunsEnd(t *testing.T) {
	shared.DeleteAll(t, &workflowsv1alpha1.WorkflowRunList{}, &corev1alpha1.RunList{})
	ns := shared.Namespace(t)
	token, address := shared.MetricsReader(t, ns, "reader"), cluster.FreeAddress(t)
	stop := shared.StartManager(t, func(o *manager.Options) { o.Metrics.Address = address })
	before := cluster.Metrics(t, address, token)
	startPlayer(t, ns, map[string]result{
		"breaks/s": {phase: corev1alpha1.RunFailed, reason: corev1alpha1.RunReasonScriptFailed},
		"waits/s":  {holds: corev1alpha1.RunRunning},
	})
	job := func(name string) string {
		return "jobs: {" + name + ": {runs-on: sh, steps: [{name: s, run: x}]}, other: {runs-on: sh, steps: [{name: s, run: x}]}}"
	}
	newWorkflowRun(t, ns, "good", job("works"))
	newWorkflowRun(t, ns, "bad", job("breaks"))
	newWorkflowRun(t, ns, "circle", circle)
	held := newWorkflowRun(t, ns, "held", job("waits"))
	await(t, ns, "held", "its job to run", func(run *workflowsv1alpha1.WorkflowRun) bool { return summary(run)["waits/s"] == "Running" })
	if err := shared.Admin().Patch(t.Context(), held, mergePatch(`{"spec":{"cancelRequested":true}}`)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"good", "bad", "circle", "held"} {
		awaitEnd(t, ns, name)
	}
	want := map[string][]string{
		"workflowrun/good":   {"Normal JobsSucceeded: all jobs succeeded within N"},
		"workflowrun/bad":    {"Warning JobFailed: job breaks failed: step s: ScriptFailed", "Warning JobsFailed: job breaks failed: step s: ScriptFailed"},
		"workflowrun/circle": {`Warning InvalidJobs: not accepted: spec.jobs[a].needs[0]: Invalid value: "b": the jobs need each other in a circle: a -> b -> a`},
		"workflowrun/held":   {"Normal Cancelled: cancelled on request (spec.cancelRequested)"},
		"run/bad-breaks-s":   {"Warning ScriptFailed: the Run is Failed"},
		"run/held-waits-s":   {"Normal Cancelled: the Run is Cancelled"},
	}
	told := func() {
		t.Helper()
		shared.ExpectEvents(t, ns, want, func(text string) string {
			if head, _, found := strings.Cut(text, " within "); found {
				return head + " within N"
			}
			return text
		})
	}
	told()
	wantCounts := map[string]float64{
		"kruntimes_workflowrun_finished_total phase=Succeeded": 1, "kruntimes_workflowrun_finished_total phase=Failed": 2,
		"kruntimes_workflowrun_finished_total phase=Cancelled": 1,
	}
	counts := cluster.Grown(before, cluster.Metrics(t, address, token), "kruntimes_workflowrun_finished_total")
	if diff := cmp.Diff(wantCounts, counts); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	stop()
	shared.StartManager(t)
	newWorkflowRun(t, ns, "circle-2", circle)
	want["workflowrun/circle-2"] = want["workflowrun/circle"]
	told()
}
