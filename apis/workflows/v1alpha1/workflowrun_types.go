package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// WorkflowPhase is where a WorkflowRun stands.
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Cancelled
type WorkflowPhase string

const (
	// WorkflowPending means that no job has been started yet.
	WorkflowPending WorkflowPhase = "Pending"
	// WorkflowRunning means that a job has been started, and not all have settled.
	WorkflowRunning WorkflowPhase = "Running"
	// WorkflowSucceeded means that all jobs have settled and none of them failed. Terminal.
	WorkflowSucceeded WorkflowPhase = "Succeeded"
	// WorkflowFailed means that a job failed, or that the WorkflowRun could not be accepted. Terminal.
	WorkflowFailed WorkflowPhase = "Failed"
	// WorkflowCancelled means that spec.cancelRequested ended it and all its Runs have settled. Terminal.
	WorkflowCancelled WorkflowPhase = "Cancelled"
)

// JobPhase is where a job stands.
// +kubebuilder:validation:Enum=Pending;Waiting;Running;Succeeded;Failed;Skipped
type JobPhase string

const (
	// JobPending means that the job could start now.
	JobPending JobPhase = "Pending"
	// JobWaiting means that a needed job has not succeeded yet.
	JobWaiting JobPhase = "Waiting"
	// JobRunning means that a step, or the call, has been started.
	JobRunning JobPhase = "Running"
	// JobSucceeded means that all steps, or the call, succeeded and the outputs were evaluated. Terminal.
	JobSucceeded JobPhase = "Succeeded"
	// JobFailed means that a step failed, was cancelled or timed out, or that the job could not go on. Terminal.
	JobFailed JobPhase = "Failed"
	// JobSkipped means that a needed job failed or was skipped, so that this one never started. Terminal.
	JobSkipped JobPhase = "Skipped"
)

// WorkflowRunSpec says which jobs are executed.
//
// +kubebuilder:validation:XValidation:rule="self.jobs == oldSelf.jobs",message="jobs are immutable: create a new WorkflowRun",fieldPath=.jobs
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.cancelRequested) && oldSelf.cancelRequested) || (has(self.cancelRequested) && self.cancelRequested)",message="cancelRequested cannot be taken back: create a new WorkflowRun"
type WorkflowRunSpec struct {
	// jobs by name. They run in parallel, save where one needs another. Shape of a name: letters, digits, '-' and '_', with a
	// letter or digit at both ends, up to 63 characters. Immutable.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$'))",message="every name of a job must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(j, !has(self[j].needs) || self[j].needs.all(n, n in self))",message="needs must name jobs of the same jobs map"
	// +kubebuilder:validation:XValidation:rule="self.map(j, has(self[j].steps) ? size(self[j].steps) : 0).sum() <= 1024",message="all jobs together may have 1024 steps: split the work into several WorkflowRuns"
	Jobs map[string]Job `json:"jobs"`

	// cancelRequested asks for the end: no new Run is created, and active ones are cancelled. Mutable once, from false to
	// true; false is the default.
	// +optional
	CancelRequested bool `json:"cancelRequested,omitempty"`

	// ttlSecondsAfterFinished is how long a finished WorkflowRun, with its Runs, is kept before it is deleted. Unit: seconds,
	// from completionTime. 0 deletes at once. Unset: kept until somebody deletes it. Mutable at any time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// WorkflowRunStatus is what has become of a WorkflowRun. The WorkflowRun controller is its only writer.
//
// +kubebuilder:validation:XValidation:rule="!(oldSelf.phase in ['Succeeded','Failed','Cancelled']) || self.phase == oldSelf.phase",message="a finished WorkflowRun never changes its phase",fieldPath=.phase
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.snapshotName) || (has(self.snapshotName) && self.snapshotName == oldSelf.snapshotName)",message="snapshotName never changes once it is set",fieldPath=.snapshotName
type WorkflowRunStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase of the whole. Default: Pending.
	// +optional
	// +kubebuilder:default=Pending
	Phase WorkflowPhase `json:"phase,omitempty"`

	// message says in a sentence why the phase is what it is. Size: up to 1,024 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// snapshotName is the ControllerRevision that holds the accepted spec. Set once, at initialisation.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SnapshotName string `json:"snapshotName,omitempty"`

	// startTime is when the WorkflowRun was initialised.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`

	// completionTime is when the WorkflowRun became terminal.
	// +optional
	CompletionTime *metav1.MicroTime `json:"completionTime,omitempty"`

	// outputs are those of the Workflow from which the WorkflowRun was made, evaluated when it has succeeded.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Outputs map[string]corev1alpha1.OutputValue `json:"outputs,omitempty"`

	// jobs by name.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Jobs map[string]JobStatus `json:"jobs,omitempty"`

	// conditions: Accepted and Succeeded. Keyed by type.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// JobStatus is what has become of a job.
type JobStatus struct {
	// phase of the job.
	// +required
	Phase JobPhase `json:"phase"`

	// message says why the job failed, was skipped or waits. Size: up to 1,024 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// pre lists the jobs that have to succeed first, sorted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=63
	Pre []string `json:"pre,omitempty"`

	// startTime is when the first step, or the call, was started.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`

	// completionTime is when the job became terminal.
	// +optional
	CompletionTime *metav1.MicroTime `json:"completionTime,omitempty"`

	// outputs are the evaluated outputs of the job, or of the called Workflow. A value: up to 4 KiB.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Outputs map[string]corev1alpha1.OutputValue `json:"outputs,omitempty"`

	// artifacts holds, by name, what the steps that have succeeded left in $KRUNTIME_ARTIFACTS_DIR. A later step replaces
	// what an earlier one left under the same name. Other jobs get them once this one has succeeded.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Artifacts map[string]corev1alpha1.ArtifactRef `json:"artifacts,omitempty"`

	// workflowRunName is the child WorkflowRun of a call.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	WorkflowRunName string `json:"workflowRunName,omitempty"`

	// steps in the order of execution. Keyed by name. Empty for a call.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Steps []StepStatus `json:"steps,omitempty"`
}

// StepStatus is what has become of a step.
type StepStatus struct {
	// name of the step.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// phase of the step's Run, as it is there. A step that was never started stays Pending. Of an Action call: the phase of
	// the Action's steps taken together.
	// +required
	Phase corev1alpha1.RunPhase `json:"phase"`

	// runName is the Run of the step. Empty: not started, or an Action call.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RunName string `json:"runName,omitempty"`

	// outputs of the step's Run or, of an Action call, the Action's outputs.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Outputs map[string]corev1alpha1.OutputValue `json:"outputs,omitempty"`

	// message says why the step failed or cannot start. Size: up to 1,024 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// startTime is when the step's Run was created or, once known, started.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`

	// completionTime is when the step's Run became terminal.
	// +optional
	CompletionTime *metav1.MicroTime `json:"completionTime,omitempty"`

	// actionSteps are the steps of the called Action, in order. Keyed by name. Set only for an Action call.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	ActionSteps []ActionStepStatus `json:"actionSteps,omitempty"`
}

// ActionStepStatus is what has become of one step of a called Action.
type ActionStepStatus struct {
	// name of the step within its Action.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// phase of the step's Run, as it is there. A step that was never started stays Pending.
	// +required
	Phase corev1alpha1.RunPhase `json:"phase"`

	// runName is the Run of the step. Empty: not started.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RunName string `json:"runName,omitempty"`

	// outputs of the step's Run.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Outputs map[string]corev1alpha1.OutputValue `json:"outputs,omitempty"`

	// message says why the step failed or cannot start. Size: up to 1,024 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// startTime is when the step's Run was created or, once known, started.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`

	// completionTime is when the step's Run became terminal.
	// +optional
	CompletionTime *metav1.MicroTime `json:"completionTime,omitempty"`
}

// WorkflowRun is one execution of jobs and their steps on warm Pods.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=workflowruns,categories=kruntimes,shortName=wfrun
// +kubebuilder:selectablefield:JSONPath=.status.phase
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.status.startTime`
// +kubebuilder:printcolumn:name="Finished",type=date,JSONPath=`.status.completionTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || has(self.status)",message="status cannot be dropped"
type WorkflowRun struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which jobs are executed.
	// +required
	Spec WorkflowRunSpec `json:"spec"`

	// status says what has become of them. Written by the WorkflowRun controller only.
	// +optional
	// +kubebuilder:default={phase: Pending}
	Status WorkflowRunStatus `json:"status,omitempty"`
}

// WorkflowRunList is a list of WorkflowRuns.
// +kubebuilder:object:root=true
type WorkflowRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the WorkflowRuns.
	Items []WorkflowRun `json:"items"`
}
