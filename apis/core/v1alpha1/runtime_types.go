package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerMode says which process of the runtime container executes Runs.
// +kubebuilder:validation:Enum=Injected;Custom
type ServerMode string

const (
	// ServerInjected replaces the container's command with the built-in runtime server, so that any image works.
	ServerInjected ServerMode = "Injected"
	// ServerCustom leaves the command alone: the image brings its own implementation of apis/runtime/v1.
	ServerCustom ServerMode = "Custom"
)

// RuntimeSpec says what the warm Pods look like, how many there are, and what fits into one.
//
// +kubebuilder:validation:XValidation:rule="size(self.template.spec.containers) > 0 && self.template.spec.containers[0].name == 'runtime'",message="the first container must be named runtime",fieldPath=.template
// +kubebuilder:validation:XValidation:rule="self.template.spec.containers.all(c, c.name != 'runtimed' && !c.name.startsWith('kruntimes-'))",message="container names runtimed and kruntimes-* are reserved",fieldPath=.template
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec.initContainers) || self.template.spec.initContainers.all(c, c.name != 'runtimed' && !c.name.startsWith('kruntimes-'))",message="init container names runtimed and kruntimes-* are reserved",fieldPath=.template
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec.volumes) || self.template.spec.volumes.all(v, !(v.name in ['workspace','artifact-store']) && !v.name.startsWith('kruntimes-'))",message="volume names workspace, artifact-store and kruntimes-* are reserved: use spec.workspace and spec.artifactStore",fieldPath=.template
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec.hostPID) || !self.template.spec.hostPID",message="hostPID is not allowed: executions must not see the processes of the node",fieldPath=.template
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec.shareProcessNamespace) || !self.template.spec.shareProcessNamespace",message="shareProcessNamespace is not allowed: executions must not see the processes of runtimed",fieldPath=.template
// +kubebuilder:validation:XValidation:rule="!has(self.artifactStore) || !has(self.artifactStore.filesystem) || !has(self.template.spec.volumes) || self.template.spec.volumes.all(v, !has(v.persistentVolumeClaim) || v.persistentVolumeClaim.claimName != self.artifactStore.filesystem.volumeClaimName)",message="the claim of the artifact store must not be a volume of the template: every execution could read and change all artifacts",fieldPath=.artifactStore
// +kubebuilder:validation:XValidation:rule="!has(self.artifactStore) || !has(self.artifactStore.filesystem) || !has(self.workspace) || !has(self.workspace.persistentVolumeClaim) || self.workspace.persistentVolumeClaim.claimName != self.artifactStore.filesystem.volumeClaimName",message="the claim of the artifact store must not be that of the workspace: every execution could read and change all artifacts",fieldPath=.artifactStore
type RuntimeSpec struct {
	// replicas is the number of Pods kept warm. Default: 1. 0 is allowed: Runs then wait. Mutable; also through scale.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// capacity is what one Pod offers, in logical units. "runs" is the number of executions at a time, default 4, at most
	// 1,000,000,000. Other names, such as example.com/gpu, may be added and requested by Runs. Mutable; Pods are not
	// replaced for it.
	// +optional
	// +kubebuilder:default={runs: "4"}
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).startsWith('-'))",message="capacity must not be negative"
	// +kubebuilder:validation:XValidation:rule="!('runs' in self) || !isQuantity(string(self['runs'])) || quantity(string(self['runs'])).compareTo(quantity('1000000000')) <= 0",message="runs must be at most 1000000000"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="capacity must name units such as runs or example.com/gpu"
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// hack/crds adds the rules on mounts to the schema: they need bounds that the embedded type does not have.

	// template is the Pod. Its first container is named runtime and executes Runs; the rest is yours. Reserved: the
	// container runtimed, everything named kruntimes-*, the volumes workspace and artifact-store, and in the container
	// runtime the paths /workspace and /kruntimes. Bounds: 32 containers, 32 init containers, 64 mounts in each. A change
	// rolls the Pods.
	// Where it says nothing, Pods run as user and group 65532 and get 600 s of grace.
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// interpreter is the command to which a script is handed as a file. Default: ["/bin/sh", "-e"]. Mutable; a change
	// rolls the Pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"/bin/sh","-e"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:XValidation:rule="!self.contains('\\u0000')",message="interpreter must not hold NUL characters: no process can be given one"
	Interpreter []string `json:"interpreter,omitempty"`

	// server says who executes Runs in the runtime container. Default: Injected. Mutable; a change rolls the Pods.
	// +optional
	// +kubebuilder:default=Injected
	Server ServerMode `json:"server,omitempty"`

	// hack/crds adds the bound of one source to the schema.

	// workspace is the volume at /workspace: at most one source of a Kubernetes volume. Default: emptyDir: {}. A change
	// rolls the Pods.
	// +optional
	// +kubebuilder:default={emptyDir: {}}
	Workspace corev1.VolumeSource `json:"workspace,omitempty"`

	// artifactStore is where artifacts of Runs are kept. Unset: Runs of this Runtime can neither make nor take artifacts.
	// Mutable with all its fields; a change moves nothing: what earlier Runs have stored stays where it is.
	// +optional
	ArtifactStore *ArtifactStore `json:"artifactStore,omitempty"`
}

// ArtifactStore is exactly one kind of store.
// +kubebuilder:validation:XValidation:rule="has(self.filesystem) != has(self.s3)",message="set exactly one of filesystem and s3"
type ArtifactStore struct {
	// filesystem keeps artifacts on a volume. Mutable.
	// +optional
	Filesystem *FilesystemStore `json:"filesystem,omitempty"`
	// s3 keeps artifacts in a bucket of an S3-compatible service. Mutable.
	// +optional
	S3 *S3Store `json:"s3,omitempty"`
}

// FilesystemStore keeps artifacts on a PersistentVolumeClaim that only runtimed mounts.
type FilesystemStore struct {
	// volumeClaimName is a claim of the namespace; ReadWriteMany where the Pods spread over nodes. Not one that executions
	// can reach, as the workspace. Mutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeClaimName string `json:"volumeClaimName"`
}

// S3Store keeps artifacts in a bucket.
type S3Store struct {
	// bucket must exist. Mutable.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket"`
	// prefix is put before every key. Default: none. Mutable.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Prefix string `json:"prefix,omitempty"`
	// region of the bucket. Default: what the SDK finds. Mutable.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`
	// endpoint is the URL of a service other than AWS. Default: AWS. Mutable.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^\s]+$`
	Endpoint string `json:"endpoint,omitempty"`
	// forcePathStyle puts the bucket into the path and not into the host name. Default: false. Mutable.
	// +optional
	ForcePathStyle bool `json:"forcePathStyle,omitempty"`
	// credentialsSecretName is a Secret of the namespace with the keys accessKeyID and secretAccessKey.
	// Default: the SDK's own chain. Mutable.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`
}

// RuntimeStatus is what is there of the Pods.
type RuntimeStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// replicas is the number of Pods.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of Pods that take Runs.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// selector selects the Pods, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`
	// conditions: Available, Progressing, WorkspaceNotShareable and ArtifactStoreNotShareable where the workspace or the
	// artifact store is a claim, and ArtifactStoreReady where there is an artifact store. Keyed by type.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions of a Runtime, and their reasons. Written by the Runtime controller, save ArtifactStoreReady. It never writes Available or Progressing
// as Unknown: where they are absent, it has not come to the Runtime yet.
const (
	// RuntimeConditionAvailable is True while at least one Pod is ready, or while none is asked for, else False.
	RuntimeConditionAvailable = "Available"
	// RuntimeConditionProgressing is True while Pods are being made or replaced, False when all are there or none comes.
	RuntimeConditionProgressing = "Progressing"
	// RuntimeConditionWorkspaceNotShareable is True when spec.workspace is a claim that Pods on several nodes cannot use at
	// the same time although there is to be more than one, False when it is one that they can, or for one Pod, Unknown when
	// it is not there. Absent when spec.workspace is another kind of volume.
	RuntimeConditionWorkspaceNotShareable = "WorkspaceNotShareable"
	// RuntimeConditionArtifactStoreNotShareable says the same of the claim of spec.artifactStore.filesystem. Absent where
	// there is none.
	RuntimeConditionArtifactStoreNotShareable = "ArtifactStoreNotShareable"

	// ReasonPodsReady means that every Pod asked for is ready and of the current template.
	ReasonPodsReady = "PodsReady"
	// ReasonSomePodsReady means that fewer Pods than asked for are ready.
	ReasonSomePodsReady = "SomePodsReady"
	// ReasonScaledToZero means that no Pod is asked for.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonPodsStarting means that Pods are being made and nothing is known to be wrong with them.
	ReasonPodsStarting = "PodsStarting"
	// ReasonPodsFailing means that a Pod cannot start; the message holds the Pod's own reason, such as ImagePullBackOff.
	ReasonPodsFailing = "PodsFailing"
	// ReasonPodsRefused means that the API server refuses to make the Pods: quota, admission.
	ReasonPodsRefused = "PodsRefused"
	// ReasonRollingOut means that Pods of an earlier template are being replaced.
	ReasonRollingOut = "RollingOut"
	// ReasonDeploymentRefused means that the Deployment, or the ServiceAccount or RoleBinding that its Pods need, cannot be
	// made: the API server refuses it, in the words of the message, or its name is taken by an object of somebody else.
	ReasonDeploymentRefused = "DeploymentRefused"

	// ReasonClaimNotShareable means that the claim is not ReadWriteMany, and that more than one Pod is asked for.
	ReasonClaimNotShareable = "ClaimNotShareable"
	// ReasonClaimShareable means that the claim is ReadWriteMany.
	ReasonClaimShareable = "ClaimShareable"
	// ReasonSingleReplica means that the claim is not ReadWriteMany, and that no more than one Pod is asked for.
	ReasonSingleReplica = "SingleReplica"
	// ReasonClaimNotFound means that there is no claim of the name.
	ReasonClaimNotFound = "ClaimNotFound"
)

// Runtime is a pool of warm Pods into which Runs are dispatched.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=runtimes,categories=kruntimes
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Runs-per-Pod",type=string,JSONPath=`.spec.capacity.runs`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.template.spec.containers[0].image`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Runtime struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what the Pods look like.
	// +required
	Spec RuntimeSpec `json:"spec"`

	// status says what is there of them.
	// +optional
	Status RuntimeStatus `json:"status,omitempty"`
}

// RuntimeList is a list of Runtimes.
// +kubebuilder:object:root=true
type RuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Runtimes.
	Items []Runtime `json:"items"`
}
