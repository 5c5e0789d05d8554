package v1alpha1

// Labels of child Runs, child WorkflowRuns and job workspaces. The WorkflowRun controller writes them; only the control
// plane may (an admission policy says so), so that nobody can plant a child. LabelWorkflow is the exception: anybody may
// put it on a WorkflowRun at create. Readers: the controller, krt, people.
const (
	// LabelWorkflowRun is the name of the WorkflowRun, shortened with a hash where it is longer than 63 characters.
	LabelWorkflowRun = "workflows.kruntimes.io/workflow-run"
	// LabelWorkflowRunUID is the UID of the WorkflowRun.
	LabelWorkflowRunUID = "workflows.kruntimes.io/workflow-run-uid"
	// LabelJob is the name of the job.
	LabelJob = "workflows.kruntimes.io/job"
	// LabelStep is the name of the step. Absent on children that belong to a whole job.
	LabelStep = "workflows.kruntimes.io/step"
	// LabelActionStep is the name of the step within the Action that the step calls. Absent on others.
	LabelActionStep = "workflows.kruntimes.io/action-step"
	// LabelWorkflow is the name of the Workflow that a WorkflowRun was made from, shortened with a hash where it is longer
	// than 63 characters. krt writes it on the WorkflowRuns that it triggers, the controller on those of calls.
	LabelWorkflow = "workflows.kruntimes.io/workflow"
	// LabelPrefix starts every label of this group.
	LabelPrefix = "workflows.kruntimes.io/"
)

// AnnotationOutputPrefix starts the annotations that freeze the outputs of the Workflow from which a WorkflowRun was
// made. Key: the prefix and an output's name. Value: its expression. Set at create, never changed.
const AnnotationOutputPrefix = "kruntimes.io/workflow-output."

// FieldPhase is the selectable field of WorkflowRun.
const FieldPhase = "status.phase"
