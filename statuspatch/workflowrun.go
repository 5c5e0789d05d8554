package statuspatch

import (
	"k8s.io/apimachinery/pkg/api/equality"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// ForWorkflowRun returns the patch that turns the status of before into that of after, or nil when they are equal. Jobs
// that have not changed cost no more than a comparison, so that a patch of a large WorkflowRun stays cheap.
func ForWorkflowRun(before, after *workflowsv1alpha1.WorkflowRun) ([]byte, error) {
	from, to := before.Status, after.Status
	from.Jobs, to.Jobs = map[string]workflowsv1alpha1.JobStatus{}, map[string]workflowsv1alpha1.JobStatus{}
	for name, job := range before.Status.Jobs {
		if changed, ok := after.Status.Jobs[name]; !ok || !equality.Semantic.DeepEqual(job, changed) {
			from.Jobs[name] = job
		}
	}
	for name, job := range after.Status.Jobs {
		if _, isChanged := from.Jobs[name]; isChanged {
			to.Jobs[name] = job
		} else if _, isOld := before.Status.Jobs[name]; !isOld {
			to.Jobs[name] = job
		}
	}
	return build(before, &from, &to)
}
