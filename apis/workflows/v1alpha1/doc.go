// Package v1alpha1 holds the API group workflows.kruntimes.io: WorkflowRun, one execution of jobs and steps; Workflow, a
// reusable definition of jobs; and Action, a reusable group of steps.
//
// +kubebuilder:object:generate=true
// +groupName=workflows.kruntimes.io
package v1alpha1
