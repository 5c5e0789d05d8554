package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkspaceMode says where the directory lies.
// +kubebuilder:validation:Enum=RuntimePodLocal
type WorkspaceMode string

// WorkspaceRuntimePodLocal keeps the directory on the workspace volume of one Runtime Pod; only Runs on that Pod can use it.
const WorkspaceRuntimePodLocal WorkspaceMode = "RuntimePodLocal"

// CleanupPolicy says whether a workspace is deleted when nobody uses it.
// +kubebuilder:validation:Enum=DeleteAfterTTL;Retain
type CleanupPolicy string

const (
	// CleanupDeleteAfterTTL deletes the workspace when no Run has used it for spec.ttlSecondsAfterUnused.
	CleanupDeleteAfterTTL CleanupPolicy = "DeleteAfterTTL"
	// CleanupRetain keeps the workspace until somebody deletes it.
	CleanupRetain CleanupPolicy = "Retain"
)

// WorkspacePhase is where a PersistentWorkspace stands.
// +kubebuilder:validation:Enum=Pending;Bound;Lost;Released
type WorkspacePhase string

const (
	// WorkspacePending means that the workspace waits for a ready Pod of its Runtime.
	WorkspacePending WorkspacePhase = "Pending"
	// WorkspaceBound means that the workspace has its Pod, ready or not.
	WorkspaceBound WorkspacePhase = "Bound"
	// WorkspaceLost means that the Pod, and with it the directory, is gone. Terminal: a workspace is never bound again.
	WorkspaceLost WorkspacePhase = "Lost"
	// WorkspaceReleased means that the workspace is on its way out: no Run may use it any more.
	WorkspaceReleased WorkspacePhase = "Released"
)

// PersistentWorkspaceSpec says to which Runtime a workspace belongs and how long it lives.
//
// +kubebuilder:validation:XValidation:rule="self.runtime == oldSelf.runtime",message="runtime is immutable: create another workspace",fieldPath=.runtime
// +kubebuilder:validation:XValidation:rule="self.mode == oldSelf.mode",message="mode is immutable: create another workspace",fieldPath=.mode
type PersistentWorkspaceSpec struct {
	// runtime is a Runtime of the namespace, which need not exist yet. Only Runs of this Runtime can use the workspace.
	// Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Runtime string `json:"runtime"`

	// mode says where the directory lies. Default, and the only one so far: RuntimePodLocal, on one Pod of the Runtime.
	// The workspace is lost with that Pod. Immutable.
	// +optional
	// +kubebuilder:default=RuntimePodLocal
	Mode WorkspaceMode `json:"mode,omitempty"`

	// ttlSecondsAfterUnused is how long the workspace outlives its last use, or its binding while no Run has used it.
	// Unit: seconds, from 0 to 315,360,000 (10 years). Unset: it is not deleted by itself. Counts
	// only with cleanupPolicy DeleteAfterTTL. Mutable.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	TTLSecondsAfterUnused *int32 `json:"ttlSecondsAfterUnused,omitempty"`

	// cleanupPolicy says whether the workspace is deleted when nobody uses it. Default: Retain. Whoever deletes the
	// workspace deletes its directory, whatever this says. Mutable.
	// +optional
	// +kubebuilder:default=Retain
	CleanupPolicy CleanupPolicy `json:"cleanupPolicy,omitempty"`
}

// PersistentWorkspaceStatus is what has become of a workspace. Only the workspace controller writes it.
//
// +kubebuilder:validation:XValidation:rule="self.phase == oldSelf.phase || (oldSelf.phase == 'Pending' ? self.phase in ['Bound','Released'] : oldSelf.phase == 'Bound' ? self.phase in ['Lost','Released'] : oldSelf.phase == 'Released' ? self.phase == 'Lost' : false)",message="this phase cannot follow the one before",fieldPath=.phase
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.boundPod) || (has(self.boundPod) && self.boundPod == oldSelf.boundPod)",message="boundPod never changes",fieldPath=.boundPod
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.boundPodUID) || (has(self.boundPodUID) && self.boundPodUID == oldSelf.boundPodUID)",message="boundPodUID never changes",fieldPath=.boundPodUID
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.path) || (has(self.path) && self.path == oldSelf.path)",message="path never changes",fieldPath=.path
// +kubebuilder:validation:XValidation:rule="has(self.boundPod) == has(self.boundPodUID) && has(self.boundPod) == has(self.path)",message="boundPod, boundPodUID and path are set together"
// +kubebuilder:validation:XValidation:rule="!(self.phase in ['Bound','Lost']) || has(self.boundPod)",message="this phase needs a bound Pod"
// +kubebuilder:validation:XValidation:rule="self.phase != 'Pending' || !has(self.boundPod)",message="a Pending workspace has no bound Pod"
type PersistentWorkspaceStatus struct {
	// phase is where the workspace stands.
	// +required
	// +kubebuilder:default=Pending
	Phase WorkspacePhase `json:"phase"`

	// observedGeneration is the metadata.generation that the last writer of this status had seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// runtime is the Runtime of the bound Pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Runtime string `json:"runtime,omitempty"`

	// boundPod is the Pod on whose volume the directory lies. Selectable. Never changes once it is set.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	BoundPod string `json:"boundPod,omitempty"`

	// boundPodUID tells the bound Pod from a later one of the same name. Never changes once it is set.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BoundPodUID string `json:"boundPodUID,omitempty"`

	// path is the directory in the bound Pod: /workspace/persistent/<name>. Never changes once it is set.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`

	// lastUsedTime is the completionTime of the last Run that used the workspace, in whole seconds, rounded up. Written once
	// when its last active Run has finished, a few seconds late. Unset: no Run has used it yet.
	// +optional
	LastUsedTime *metav1.Time `json:"lastUsedTime,omitempty"`

	// conditions: Bound and Available. Keyed by type.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PersistentWorkspace is a directory that Runs of one Runtime share, on the Pod to which it is bound. Whoever may use it
// may read and change everything in it: it is no isolation against hostile code.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=persistentworkspaces,shortName=pws,categories=kruntimes
// +kubebuilder:selectablefield:JSONPath=.status.boundPod
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.spec.runtime`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Last Used",type=date,JSONPath=`.status.lastUsedTime`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.boundPod`,priority=1
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.cleanupPolicy`,priority=1
// +kubebuilder:printcolumn:name="TTL",type=integer,JSONPath=`.spec.ttlSecondsAfterUnused`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || has(self.status)",message="status cannot be dropped"
type PersistentWorkspace struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says to which Runtime the workspace belongs and how long it lives.
	// +required
	Spec PersistentWorkspaceSpec `json:"spec"`

	// status says what has become of it. Written by the workspace controller only.
	// +optional
	// +kubebuilder:default={phase: Pending}
	Status PersistentWorkspaceStatus `json:"status,omitempty"`
}

// PersistentWorkspaceList is a list of PersistentWorkspaces.
// +kubebuilder:object:root=true
type PersistentWorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the PersistentWorkspaces.
	Items []PersistentWorkspace `json:"items"`
}
