package v1alpha1

// Reasons of events. What becomes of a WorkflowRun is told under the reason that its conditions give; the reasons here are
// those of events that no condition repeats.
const (
	// EventJobFailed means that a job of a WorkflowRun failed; the message names the job, the step and why.
	// Written by the WorkflowRun controller. Type: Warning.
	EventJobFailed = "JobFailed"
)
