package statuspatch

import (
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// ForWorkflow returns the patch that turns the status of before into that of after, or nil when they are equal.
func ForWorkflow(before, after *workflowsv1alpha1.Workflow) ([]byte, error) {
	return build(before, &before.Status, &after.Status)
}

// ForAction returns the patch that turns the status of before into that of after, or nil when they are equal.
func ForAction(before, after *workflowsv1alpha1.Action) ([]byte, error) {
	return build(before, &before.Status, &after.Status)
}
