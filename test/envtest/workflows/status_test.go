package workflows

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

const (
	phaseMessage    = "status.phase: Invalid value: a finished WorkflowRun never changes its phase"
	snapshotMessage = "status.snapshotName: Invalid value: snapshotName never changes once it is set"
)

func patchStatus(t *testing.T, c client.Client, u *unstructured.Unstructured, patch string) error {
	t.Helper()
	return c.Status().Patch(t.Context(), u.DeepCopy(), mergePatch(`{"status":`+patch+`}`))
}

func TestATerminalPhaseNeverChanges(t *testing.T) {
	ns := shared.Namespace(t)
	for _, phase := range []workflowsv1alpha1.WorkflowPhase{workflowsv1alpha1.WorkflowSucceeded, workflowsv1alpha1.WorkflowFailed, workflowsv1alpha1.WorkflowCancelled} {
		run := manifest(t, "WorkflowRun", ns, "ends-"+strings.ToLower(string(phase)), job(sh))
		shared.Create(t, run)
		expectError(t, "running", patchStatus(t, shared.Admin(), run, `{"phase":"Running"}`), "")
		expectError(t, string(phase), patchStatus(t, shared.Admin(), run, `{"phase":"`+string(phase)+`"}`), "")
		for _, other := range []string{`"Pending"`, `"Running"`, `"Succeeded"`, `"Failed"`, `"Cancelled"`, `null`} {
			if other != `"`+string(phase)+`"` {
				expectInvalid(t, string(phase)+" to "+other, patchStatus(t, shared.Admin(), run, `{"phase":`+other+`}`), phaseMessage)
			}
		}
		expectInvalid(t, "dropping the status of "+string(phase), patchStatus(t, shared.Admin(), run, `null`), phaseMessage)
		expectError(t, "another message", patchStatus(t, shared.Admin(), run, `{"message":"x"}`), "")
	}
}

func TestTheSnapshotNeverChanges(t *testing.T) {
	ns := shared.Namespace(t)
	run := manifest(t, "WorkflowRun", ns, "r", job(sh))
	shared.Create(t, run)
	expectError(t, "setting it", patchStatus(t, shared.Admin(), run, `{"snapshotName":"a"}`), "")
	expectError(t, "keeping it", patchStatus(t, shared.Admin(), run, `{"snapshotName":"a","message":"x"}`), "")
	for _, patch := range []string{`{"snapshotName":"b"}`, `{"snapshotName":""}`, `{"snapshotName":null}`, `null`} {
		expectInvalid(t, patch, patchStatus(t, shared.Admin(), run, patch), snapshotMessage)
	}
}

// TestAStatusIsNeverMissing: dropping one leaves the default, so that every WorkflowRun shows a phase.
func TestAStatusIsNeverMissing(t *testing.T) {
	ns := shared.Namespace(t)
	run := manifest(t, "WorkflowRun", ns, "r", job(sh))
	shared.Create(t, run)
	expectError(t, "dropping the status", patchStatus(t, shared.Admin(), run, `null`), "")
	stored := &workflowsv1alpha1.WorkflowRun{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(run), stored); err != nil {
		t.Fatal(err)
	}
	if stored.Status.Phase != workflowsv1alpha1.WorkflowPending {
		t.Errorf("the phase is %q, want Pending", stored.Status.Phase)
	}
}

func TestStatusSchema(t *testing.T) {
	ns := shared.Namespace(t)
	run := manifest(t, "WorkflowRun", ns, "r", job(sh))
	shared.Create(t, run)
	tests := map[string]struct{ patch, message string }{
		"everything of a job": {`{"jobs":{"j":{"phase":"Running","message":"m","pre":["a","b"],"outputs":{"o":"v"},"workflowRunName":"w",
			"startTime":"2026-07-06T12:00:00.123456Z","completionTime":"2026-07-06T12:00:00.123456Z",
			"steps":[{"name":"s","phase":"Timeout","runName":"r","outputs":{"o":"v"},"message":"m","startTime":"2026-07-06T12:00:00.123456Z"},
			{"name":"t","phase":"Running","actionSteps":[{"name":"s","phase":"Cancelled","runName":"r"}]}]}}}`, ""},
		"a phase that is none":       {`{"phase":"Timeout"}`, `status.phase: Unsupported value: "Timeout": supported values: "Pending", "Running", "Succeeded", "Failed", "Cancelled"`},
		"a job without phase":        {`{"jobs":{"j":{}}}`, `status.jobs.j.phase: Required value`},
		"a cancelled job":            {`{"jobs":{"j":{"phase":"Cancelled"}}}`, `status.jobs.j.phase: Unsupported value: "Cancelled": supported values: "Pending", "Waiting", "Running", "Succeeded", "Failed", "Skipped"`},
		"a skipped step":             {`{"jobs":{"j":{"phase":"Running","steps":[{"name":"s","phase":"Skipped"}]}}}`, `status.jobs.j.steps[0].phase: Unsupported value: "Skipped": supported values: "Pending", "Scheduled", "Running", "Succeeded", "Failed", "Timeout", "Cancelled"`},
		"a step without phase":       {`{"jobs":{"j":{"phase":"Running","steps":[{"name":"s"}]}}}`, `status.jobs.j.steps[0].phase: Required value`},
		"two steps of a name":        {`{"jobs":{"j":{"phase":"Running","steps":[{"name":"s","phase":"Pending"},{"name":"s","phase":"Pending"}]}}}`, `status.jobs[j].steps[1]: Duplicate value: {"name":"s"}`},
		"two steps of an Action":     {`{"jobs":{"j":{"phase":"Running","steps":[{"name":"s","phase":"Pending","actionSteps":[{"name":"a","phase":"Pending"},{"name":"a","phase":"Pending"}]}]}}}`, `status.jobs[j].steps[0].actionSteps[1]: Duplicate value: {"name":"a"}`},
		"a predecessor listed twice": {`{"jobs":{"j":{"phase":"Waiting","pre":["a","a"]}}}`, `status.jobs[j].pre[1]: Duplicate value: "a"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dry := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
			err := shared.Admin().Status().Patch(t.Context(), run.DeepCopy(), mergePatch(`{"status":`+tc.patch+`}`), dry)
			expectInvalid(t, "patch", err, tc.message)
		})
	}
}
