package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RunPhase is where a Run stands. See transition.go for who may move a Run from which phase to which.
// +kubebuilder:validation:Enum=Pending;Scheduled;Running;Succeeded;Failed;Timeout;Cancelled
type RunPhase string

const (
	// RunPending means that no Pod has been found yet, or that a retry waits for its next attempt.
	RunPending RunPhase = "Pending"
	// RunScheduled means that the scheduler has assigned the Run to a Pod.
	RunScheduled RunPhase = "Scheduled"
	// RunRunning means that the Pod has reported the execution. Executions of less than about 100 ms may skip it.
	RunRunning RunPhase = "Running"
	// RunSucceeded means that the execution ended with exit code 0 and its outputs were read. Terminal.
	RunSucceeded RunPhase = "Succeeded"
	// RunFailed means that the execution failed or could not take place; status.reason says why. Terminal.
	RunFailed RunPhase = "Failed"
	// RunTimeout means that the execution was stopped after spec.timeout. Terminal.
	RunTimeout RunPhase = "Timeout"
	// RunCancelled means that the Run was ended because of spec.cancelRequested. Terminal.
	RunCancelled RunPhase = "Cancelled"
)

// RunSpec says what is executed, where, and under which bounds.
//
// Everything but cancelRequested and ttlSecondsAfterFinished is immutable. The rule lists the fields one by one,
// because comparing the whole spec would forbid those two as well.
//
// +kubebuilder:validation:XValidation:rule="self.runtime == oldSelf.runtime",message="runtime is immutable: create a new Run",fieldPath=.runtime
// +kubebuilder:validation:XValidation:rule="has(self.source) == has(oldSelf.source) && (!has(self.source) || self.source == oldSelf.source)",message="source is immutable: create a new Run",fieldPath=.source
// +kubebuilder:validation:XValidation:rule="self.mode == oldSelf.mode",message="mode is immutable: create a new Run",fieldPath=.mode
// +kubebuilder:validation:XValidation:rule="has(self.workspace) == has(oldSelf.workspace) && (!has(self.workspace) || self.workspace == oldSelf.workspace)",message="workspace is immutable: create a new Run"
// +kubebuilder:validation:XValidation:rule="has(self.affinity) == has(oldSelf.affinity) && (!has(self.affinity) || self.affinity == oldSelf.affinity)",message="affinity is immutable: create a new Run"
// +kubebuilder:validation:XValidation:rule="has(self.artifactInputs) == has(oldSelf.artifactInputs) && (!has(self.artifactInputs) || self.artifactInputs == oldSelf.artifactInputs)",message="artifactInputs is immutable: create a new Run"
// +kubebuilder:validation:XValidation:rule="has(self.env) == has(oldSelf.env) && (!has(self.env) || self.env == oldSelf.env)",message="env is immutable: create a new Run"
// +kubebuilder:validation:XValidation:rule="has(self.resources) == has(oldSelf.resources) && (!has(self.resources) || self.resources == oldSelf.resources)",message="resources is immutable: create a new Run"
// +kubebuilder:validation:XValidation:rule="has(self.timeout) == has(oldSelf.timeout) && (!has(self.timeout) || self.timeout == oldSelf.timeout)",message="timeout is immutable: create a new Run"
// +kubebuilder:validation:XValidation:rule="has(self.retryPolicy) == has(oldSelf.retryPolicy) && (!has(self.retryPolicy) || self.retryPolicy == oldSelf.retryPolicy)",message="retryPolicy is immutable: create a new Run"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.cancelRequested) && oldSelf.cancelRequested) || (has(self.cancelRequested) && self.cancelRequested)",message="cancelRequested cannot be taken back: create a new Run"
// +kubebuilder:validation:XValidation:rule="has(self.source) || (has(self.mode.task) && has(self.mode.task.args) && size(self.mode.task.args) > 0)",message="nothing to run: set source.inline, source.git or mode.task.args",fieldPath=.source
// +kubebuilder:validation:XValidation:rule="has(self.source) || !has(self.mode.task) || !has(self.mode.task.args) || size(self.mode.task.args) == 0 || size(self.mode.task.args[0]) > 0",message="the first of args is the command and must not be empty",fieldPath=.mode.task.args
// +kubebuilder:validation:XValidation:rule="!(has(self.source) && has(self.source.git)) || (has(self.mode.task) && has(self.mode.task.entrypoint))",message="a git source needs mode.task.entrypoint, the file of the repository to run"
// +kubebuilder:validation:XValidation:rule="!(has(self.mode.task) && has(self.mode.task.entrypoint)) || (has(self.source) && has(self.source.git))",message="mode.task.entrypoint needs source.git; an inline script is itself what is run"
type RunSpec struct {
	// runtime names the Runtime of the same namespace whose Pods execute the Run. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="runtime must be the name of a Runtime: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	Runtime string `json:"runtime"`

	// source is the code to run. Unset: mode.task.args is the command. Immutable.
	// +optional
	Source *RunSource `json:"source,omitempty"`

	// mode says how the source is run. Default: task. Immutable.
	// +optional
	// +kubebuilder:default={task: {}}
	Mode RunMode `json:"mode,omitempty"`

	// workspace is the shared directory in which the Run executes. Unset: a private directory that is removed
	// afterwards. The creator needs the verb "use" on persistentworkspaces/use for it. Immutable.
	// +optional
	Workspace *WorkspaceReference `json:"workspace,omitempty"`

	// affinity places the Run beside, or away from, other Runs of the namespace. Immutable.
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`

	// artifactInputs are copied below the working directory before execution starts. Keyed by path; no path lies below that of
	// a file. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(f, f.artifact.type != 'File' || !self.exists(i, i.path.startsWith(f.path + '/')))",message="no path may lie below that of a file: choose another path for one of them"
	ArtifactInputs []ArtifactInput `json:"artifactInputs,omitempty"`

	// env is added to the environment of the execution. Keyed by name. Names that start with KRUNTIME_ are reserved. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Env []EnvVar `json:"env,omitempty"`

	// resources are the logical units that the Run takes from its Pod's capacity. Immutable.
	// +optional
	Resources *RunResources `json:"resources,omitempty"`

	// timeout bounds one attempt, from the start of execution; waiting for a Pod does not count. Unit: a Go duration
	// such as "90s" or "1h30m", from 1ms to 8760h. Unset: no bound. Immutable.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?m|[0-9]{1,9}([.][0-9]+)?s|[0-9]{1,12}([.][0-9]+)?ms|[0-9]{1,15}([.][0-9]+)?(us|µs)|[0-9]{1,18}([.][0-9]+)?ns)+$') && duration(self) >= duration('1ms') && duration(self) <= duration('8760h')",message="timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// retryPolicy says how often, when and after which failures the Run is tried again. Unset: one attempt. Immutable.
	// +optional
	RetryPolicy *RetryPolicy `json:"retryPolicy,omitempty"`

	// cancelRequested asks for the end of the Run. Mutable once, from false to true; false is the default.
	// +optional
	CancelRequested bool `json:"cancelRequested,omitempty"`

	// ttlSecondsAfterFinished is how long a finished Run is kept before it is deleted. Unit: seconds, from completionTime.
	// 0 deletes at once. Unset: kept until somebody deletes it. Mutable at any time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// RunSource is the code of a Run: exactly one of its fields is set.
// +kubebuilder:validation:XValidation:rule="has(self.inline) != has(self.git)",message="set exactly one of inline and git"
type RunSource struct {
	// inline is a script, handed to the Runtime's interpreter as a file. Size: 1 byte to 256 KiB.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Inline string `json:"inline,omitempty"`

	// git is a repository that is cloned before execution; mode.task.entrypoint names the file to run.
	// +optional
	Git *GitSource `json:"git,omitempty"`
}

// GitSource is a revision of a git repository.
type GitSource struct {
	// url is the repository, over https or ssh.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(https|ssh)://[^\s]+$`
	// +kubebuilder:validation:XValidation:rule="self.startsWith('https://') || self.startsWith('ssh://')",message="url must start with https:// or ssh://"
	URL string `json:"url"`

	// revision is a branch, tag or full commit id. Unset: the repository's default branch.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][^\s~^:?*\[\\]*$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_]')",message="revision must be a branch, tag or commit id, which start with a letter, digit or _"
	Revision string `json:"revision,omitempty"`
}

// RunMode says how a Run is executed.
// +kubebuilder:validation:XValidation:rule="!has(self.function)",message="function mode is not available in this version"
type RunMode struct {
	// task runs to its end once per attempt.
	// +optional
	Task *TaskMode `json:"task,omitempty"`

	// function is reserved for a later version and refused in this one.
	// +optional
	Function *FunctionMode `json:"function,omitempty"`
}

// TaskMode is the command line of a task.
type TaskMode struct {
	// entrypoint is the file of a git source that is run. A relative path without "..". Size: up to 1,024 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="entrypoint must be a relative path without '..'"
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\u0000')",message="entrypoint must not hold NUL characters: no file can have one in its name"
	Entrypoint string `json:"entrypoint,omitempty"`

	// args are the arguments of the script or entrypoint or, without a source, the command itself.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=32768
	// +kubebuilder:validation:items:XValidation:rule="!self.contains('\\u0000')",message="args must not hold NUL characters: no process can be given one"
	Args []string `json:"args,omitempty"`
}

// FunctionMode is reserved: a Run that sets it is refused.
type FunctionMode struct{}

// WorkspaceReference names a workspace of the Run's namespace.
type WorkspaceReference struct {
	// name of the workspace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// kind of the workspace. Default, and the only kind so far: PersistentWorkspace.
	// +optional
	// +kubebuilder:default=PersistentWorkspace
	// +kubebuilder:validation:Enum=PersistentWorkspace
	Kind string `json:"kind,omitempty"`

	// apiGroup is group and version of the kind. Default, and the only one so far: workspaces.kruntimes.io/v1alpha1.
	// +optional
	// +kubebuilder:default="workspaces.kruntimes.io/v1alpha1"
	// +kubebuilder:validation:Enum="workspaces.kruntimes.io/v1alpha1"
	APIGroup string `json:"apiGroup,omitempty"`
}

// EnvVar is one environment variable of an execution.
// +kubebuilder:validation:XValidation:rule="!has(self.valueFrom)",message="valueFrom is not supported: mount the Secret in the Runtime's template instead"
type EnvVar struct {
	// name of the variable. Shape: a letter or _, then letters, digits, '_', '.' or '-'. KRUNTIME_* is reserved.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_.-]*$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_.-]*$')",message="name must be a letter or _, then letters, digits, '_', '.' or '-'"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('KRUNTIME_')",message="names that start with KRUNTIME_ are reserved"
	Name string `json:"name"`

	// value of the variable, taken as it is: nothing in it is expanded. Default: empty. Size: up to 32 KiB.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\u0000')",message="value must not hold NUL characters: no environment can"
	Value string `json:"value,omitempty"`

	// valueFrom is refused: a Run must not be a way to read a Secret that its creator cannot read.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	ValueFrom *UnsupportedValueFrom `json:"valueFrom,omitempty"`
}

// UnsupportedValueFrom exists so that a manifest that sets valueFrom is told what to do instead of losing the field.
type UnsupportedValueFrom struct{}

// RunResources are the logical units that a Run takes.
type RunResources struct {
	// requests maps a logical resource, as declared by the Runtime's capacity, to the units taken. "runs" defaults to 1,
	// and is a whole number from 1 to 1,000,000,000; other units may be fractions, or 0. Names are those of Kubernetes
	// resources.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).startsWith('-'))",message="requests must not be negative"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="requests must name units such as runs or example.com/gpu"
	// +kubebuilder:validation:XValidation:rule="!('runs' in self) || (isQuantity(string(self['runs'])) && quantity(string(self['runs'])).isInteger() && quantity(string(self['runs'])).asInteger() >= 1 && quantity(string(self['runs'])).asInteger() <= 1000000000)",message="runs must be a whole number of at least 1 and at most 1000000000"
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// RunStatus is what has become of a Run. transition.go says who writes it; admission policies hold everyone else off.
//
// +kubebuilder:validation:XValidation:rule="!(oldSelf.phase in ['Succeeded','Failed','Timeout','Cancelled']) || self.phase == oldSelf.phase",message="a finished Run never changes its phase",fieldPath=.phase
// +kubebuilder:validation:XValidation:rule="self.phase == oldSelf.phase || oldSelf.phase in ['Succeeded','Failed','Timeout','Cancelled'] || (oldSelf.phase == 'Pending' ? self.phase in ['Scheduled','Cancelled'] : oldSelf.phase == 'Scheduled' ? self.phase in ['Pending','Running','Succeeded','Failed','Timeout','Cancelled'] : self.phase in ['Pending','Succeeded','Failed','Timeout','Cancelled'])",message="this phase cannot follow the one before",fieldPath=.phase
// +kubebuilder:validation:XValidation:rule="(has(self.attempt) ? self.attempt : 0) >= (has(oldSelf.attempt) ? oldSelf.attempt : 0)",message="attempt never decreases"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.assignedPodUID) || (has(self.assignedPodUID) && has(self.assignedPod) && has(oldSelf.assignedPod) && self.assignedPodUID == oldSelf.assignedPodUID && self.assignedPod == oldSelf.assignedPod) || (has(self.attempt) ? self.attempt : 0) > (has(oldSelf.attempt) ? oldSelf.attempt : 0)",message="the assignment changes only from empty or with a higher attempt"
// +kubebuilder:validation:XValidation:rule="has(self.assignedPod) == has(self.assignedPodUID)",message="assignedPod and assignedPodUID are set together"
// +kubebuilder:validation:XValidation:rule="!(self.phase in ['Scheduled','Running','Succeeded','Failed','Timeout']) || has(self.assignedPodUID)",message="this phase needs an assigned Pod"
// +kubebuilder:validation:XValidation:rule="self.phase != 'Pending' || !has(self.assignedPodUID)",message="a Pending Run has no assigned Pod"
type RunStatus struct {
	// phase is where the Run stands.
	// +required
	// +kubebuilder:default=Pending
	Phase RunPhase `json:"phase"`

	// observedGeneration is the metadata.generation that the last writer of this status had seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// assignedPod is the Pod that executes the Run. Selectable. Set by the scheduler together with assignedPodUID.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AssignedPod string `json:"assignedPod,omitempty"`

	// assignedPodUID tells the assigned Pod from a later one of the same name.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AssignedPodUID string `json:"assignedPodUID,omitempty"`

	// reason says in one word why the Run is in its terminal phase, or why its last attempt was handed back.
	// +optional
	Reason RunReason `json:"reason,omitempty"`

	// message tells a person more; the last lines of standard error when a script fails. Size: up to 4,096 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// exitCode is the exit code of the last attempt that ended, 128+n when signal n ended it. Unset: none has run to an end.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// attempt counts from 1, the first assignment. In a Run that was handed back it is the number of the attempt to come.
	// Unset: never assigned.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt int32 `json:"attempt,omitempty"`

	// nextAttemptTime is when a Run that was handed back may be scheduled again. Set with it, cleared by the assignment. Unset:
	// at once.
	// +optional
	NextAttemptTime *metav1.MicroTime `json:"nextAttemptTime,omitempty"`

	// scheduledTime is when the scheduler assigned the current attempt.
	// +optional
	ScheduledTime *metav1.MicroTime `json:"scheduledTime,omitempty"`

	// startTime is when the process of the current attempt was started.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`

	// completionTime is when the Run became terminal.
	// +optional
	CompletionTime *metav1.MicroTime `json:"completionTime,omitempty"`

	// outputs are the values that the script wrote to $KRUNTIME_OUTPUTS. A value: up to 4 KiB; all: up to 64 KiB.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Outputs map[string]OutputValue `json:"outputs,omitempty"`

	// artifacts are the files and directories that the execution left in $KRUNTIME_ARTIFACTS_DIR. Keyed by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Artifacts []ArtifactRef `json:"artifacts,omitempty"`

	// conditions: Scheduled and Succeeded. Keyed by type.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// OutputValue is the text of one output. Size: up to 4,096 bytes.
// +kubebuilder:validation:MaxLength=4096
type OutputValue string

// Run is one execution of a script or command on a warm Pod of a Runtime.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=runs,categories=kruntimes
// +kubebuilder:selectablefield:JSONPath=.status.assignedPod
// +kubebuilder:selectablefield:JSONPath=.status.phase
// +kubebuilder:selectablefield:JSONPath=.spec.workspace.name
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.spec.runtime`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Scheduled",type=string,JSONPath=`.status.conditions[?(@.type=="Scheduled")].reason`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Exit",type=integer,JSONPath=`.status.exitCode`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.assignedPod`,priority=1
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || has(self.status)",message="status cannot be dropped"
type Run struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is executed.
	// +required
	Spec RunSpec `json:"spec"`

	// status says what has become of it. Written by the scheduler, the Run lifecycle controller and runtimed only.
	// +optional
	// +kubebuilder:default={phase: Pending}
	Status RunStatus `json:"status,omitempty"`
}

// RunList is a list of Runs.
// +kubebuilder:object:root=true
type RunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Runs.
	Items []Run `json:"items"`
}
