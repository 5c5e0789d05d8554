package v1alpha1

// Conditions of a Run. "kubectl wait --for=condition=Succeeded run/x" works: Succeeded is Unknown while the Run is active.
const (
	// RunConditionScheduled is True once the Run has a Pod, False while it waits for one (reason and message say why).
	// Written by the scheduler, and with the patch that hands a Run back for its next attempt.
	RunConditionScheduled = "Scheduled"
	// RunConditionSucceeded is True when the phase is Succeeded, False in any other terminal phase, Unknown before.
	// Written with the terminal phase; absent means Unknown.
	RunConditionSucceeded = "Succeeded"
)

// Reasons of RunConditionScheduled.
const (
	// ReasonAssigned means that the Run has a Pod.
	ReasonAssigned = "Assigned"
	// ReasonRuntimeNotFound means that the namespace has no Runtime of the name in spec.runtime.
	ReasonRuntimeNotFound = "RuntimeNotFound"
	// ReasonNoPods means that the Runtime has no Pod: it is scaled to 0, or none could be made.
	ReasonNoPods = "NoPods"
	// ReasonNoReadyPods means that the Runtime has Pods, of which none is ready.
	ReasonNoReadyPods = "NoReadyPods"
	// ReasonInsufficientCapacity means that no ready Pod has the requested units free now.
	ReasonInsufficientCapacity = "InsufficientCapacity"
	// ReasonExceedsCapacity means that the request is larger than an empty Pod of the Runtime.
	ReasonExceedsCapacity = "ExceedsCapacity"
	// ReasonAffinityNotSatisfied means that rules between Runs leave no Pod: the affinity and anti-affinity that the Run
	// requires, and the anti-affinity that Runs on the Pods require.
	ReasonAffinityNotSatisfied = "AffinityNotSatisfied"
	// ReasonWorkspaceNotFound means that the workspace in spec.workspace does not exist.
	ReasonWorkspaceNotFound = "WorkspaceNotFound"
	// ReasonWorkspacePending means that the workspace has no Pod yet.
	ReasonWorkspacePending = "WorkspacePending"
	// ReasonWorkspaceReleased means that the workspace is on its way out and takes no Run any more.
	ReasonWorkspaceReleased = "WorkspaceReleased"
	// ReasonWorkspaceLost means that the Pod of the workspace is gone, and its directory with it.
	ReasonWorkspaceLost = "WorkspaceLost"
	// ReasonWorkspaceMismatch means that the workspace belongs to another Runtime.
	ReasonWorkspaceMismatch = "WorkspaceMismatch"
	// ReasonWorkspacePodUnavailable means that the Pod of the workspace is not ready, or is another one of its name.
	ReasonWorkspacePodUnavailable = "WorkspacePodUnavailable"
	// ReasonUnschedulable means that Pods were rejected for various reasons; the message counts them.
	ReasonUnschedulable = "Unschedulable"
	// ReasonBackoff means that the Run waits until status.nextAttemptTime.
	ReasonBackoff = "Backoff"
	// ReasonHandedBack means that the Pod was shut down before it began to execute the Run, and that the scheduler has not
	// looked for another one yet.
	ReasonHandedBack = "HandedBack"
)

// RunReason is the closed list of words that status.reason holds. Retry policies, metrics and tests share it.
// +kubebuilder:validation:Enum=ScriptFailed;Timeout;Cancelled;OOMKilled;ExecutionLost;ServerLost;PodTerminated;RuntimePodLost;SourceFailed;StagingFailed;InterpreterNotFound;WorkspaceUnavailable;OutputsInvalid;OutputsTooLarge;ArtifactInputFailed;ArtifactUploadFailed
type RunReason string

const (
	// RunReasonScriptFailed means that the script or command ended with an exit code other than 0.
	RunReasonScriptFailed RunReason = "ScriptFailed"
	// RunReasonTimeout means that the attempt was stopped after spec.timeout.
	RunReasonTimeout RunReason = "Timeout"
	// RunReasonCancelled means that the end was asked for with spec.cancelRequested.
	RunReasonCancelled RunReason = "Cancelled"
	// RunReasonOOMKilled means that the kernel killed the execution for its memory use.
	RunReasonOOMKilled RunReason = "OOMKilled"
	// RunReasonExecutionLost means that runtimed restarted and cannot know how the execution ended, or its supervisor died.
	RunReasonExecutionLost RunReason = "ExecutionLost"
	// RunReasonServerLost means that the runtime server, and with it every execution of the Pod, died.
	RunReasonServerLost RunReason = "ServerLost"
	// RunReasonPodTerminated means that the Pod was shut down before the execution ended.
	RunReasonPodTerminated RunReason = "PodTerminated"
	// RunReasonRuntimePodLost means that the Pod is gone, and nobody reported how the execution ended.
	RunReasonRuntimePodLost RunReason = "RuntimePodLost"
	// RunReasonSourceFailed means that the source could not be fetched, or that its entrypoint cannot be run.
	RunReasonSourceFailed RunReason = "SourceFailed"
	// RunReasonStagingFailed means that the files of the execution could not be laid out in the Pod.
	RunReasonStagingFailed RunReason = "StagingFailed"
	// RunReasonInterpreterNotFound means that the Runtime's image lacks the interpreter that the Runtime names.
	RunReasonInterpreterNotFound RunReason = "InterpreterNotFound"
	// RunReasonWorkspaceUnavailable means that the workspace could not be used on the Pod of the attempt. Nothing was
	// executed, and the Run is handed back, whatever its policy says.
	RunReasonWorkspaceUnavailable RunReason = "WorkspaceUnavailable"
	// RunReasonOutputsInvalid means that the outputs file cannot be read or holds an invalid line; the message names it.
	RunReasonOutputsInvalid RunReason = "OutputsInvalid"
	// RunReasonOutputsTooLarge means that an output, or all outputs together, are over their bound.
	RunReasonOutputsTooLarge RunReason = "OutputsTooLarge"
	// RunReasonArtifactInputFailed means that an artifact input could not be staged.
	RunReasonArtifactInputFailed RunReason = "ArtifactInputFailed"
	// RunReasonArtifactUploadFailed means that an artifact could not be stored.
	RunReasonArtifactUploadFailed RunReason = "ArtifactUploadFailed"
)

// RunReasons lists every RunReason, in the order of declaration.
func RunReasons() []RunReason {
	return []RunReason{
		RunReasonScriptFailed, RunReasonTimeout, RunReasonCancelled, RunReasonOOMKilled, RunReasonExecutionLost,
		RunReasonServerLost, RunReasonPodTerminated, RunReasonRuntimePodLost, RunReasonSourceFailed,
		RunReasonStagingFailed, RunReasonInterpreterNotFound, RunReasonWorkspaceUnavailable, RunReasonOutputsInvalid,
		RunReasonOutputsTooLarge, RunReasonArtifactInputFailed, RunReasonArtifactUploadFailed,
	}
}
