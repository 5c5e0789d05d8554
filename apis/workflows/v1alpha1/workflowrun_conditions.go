package v1alpha1

// Conditions of a WorkflowRun. "kubectl wait --for=condition=Succeeded workflowrun/x" works: Succeeded is Unknown while
// the WorkflowRun is active. The WorkflowRun controller owns both.
const (
	// WorkflowRunConditionAccepted is set once, at initialisation. True: the jobs form a graph that can be executed. False:
	// the message lists what is wrong, and no Run was or will be created.
	WorkflowRunConditionAccepted = "Accepted"
	// WorkflowRunConditionSucceeded is True when the phase is Succeeded, False in any other terminal phase, Unknown before.
	WorkflowRunConditionSucceeded = "Succeeded"
)

// Reasons of WorkflowRunConditionAccepted.
const (
	// ReasonAccepted means that nothing is wrong.
	ReasonAccepted = "Accepted"
	// ReasonInvalidJobs means that a job, a step, a name, an edge or an expression is invalid.
	ReasonInvalidJobs = "InvalidJobs"
	// ReasonInvalidReference means that an Action that a step calls is missing, is invalid or is called wrongly.
	ReasonInvalidReference = "InvalidReference"
	// ReasonSnapshotRefused means that the API server refuses the snapshot for good.
	ReasonSnapshotRefused = "SnapshotRefused"
	// ReasonTooLarge means that the WorkflowRun, with the Actions that it calls, is over a bound.
	ReasonTooLarge = "TooLarge"
)

// Reasons of WorkflowRunConditionSucceeded.
const (
	// ReasonRunning means that not all jobs have settled.
	ReasonRunning = "Running"
	// ReasonJobsSucceeded means that all jobs have settled and none of them failed.
	ReasonJobsSucceeded = "JobsSucceeded"
	// ReasonJobsFailed means that a job failed.
	ReasonJobsFailed = "JobsFailed"
	// ReasonNotAccepted means that the WorkflowRun was never started; condition Accepted says why.
	ReasonNotAccepted = "NotAccepted"
	// ReasonCancelled means that spec.cancelRequested ended it.
	ReasonCancelled = "Cancelled"
	// ReasonOutputsFailed means that the jobs succeeded, but an output of the WorkflowRun could not be evaluated.
	ReasonOutputsFailed = "OutputsFailed"
	// ReasonStatusRefused means that the API server refused the status for good, and that the rest was cancelled.
	ReasonStatusRefused = "StatusRefused"
)

// Words that start the message of a failed job or step, where no Run says why.
const (
	// WordChildDeleted means that a Run or WorkflowRun that was recorded is gone.
	WordChildDeleted = "ChildDeleted"
	// WordStatusTooLarge means that the status would have grown over MaxStatusBytes.
	WordStatusTooLarge = "StatusTooLarge"
	// WordOutputsTooLarge means that outputs are over their bound.
	WordOutputsTooLarge = "OutputsTooLarge"
	// WordArtifactMissing means that a needed job has succeeded and left no artifact of the name that a step asks for.
	WordArtifactMissing = "ArtifactMissing"
	// WordTooManyArtifacts means that artifacts are over MaxArtifactNamesPerJob or MaxArtifactNames.
	WordTooManyArtifacts = "TooManyArtifacts"
	// WordExpressionFailed means that an expression could not be evaluated.
	WordExpressionFailed = "ExpressionFailed"
	// WordCallInvalid means that a Workflow cannot be called: it is missing, is invalid, is called wrongly, or its calls go in
	// a circle or too deep. The same of an Action that has changed while its WorkflowRun began.
	WordCallInvalid = "CallInvalid"
	// WordChildRefused means that the API server refuses the Run for good: it is invalid, or not allowed.
	WordChildRefused = "ChildRefused"
	// WordWorkspaceRefused means that the API server refuses the workspace of the job for good.
	WordWorkspaceRefused = "WorkspaceRefused"
	// WordWorkspaceLost means that the workspace of the job was lost or deleted while the job ran.
	WordWorkspaceLost = "WorkspaceLost"
)
