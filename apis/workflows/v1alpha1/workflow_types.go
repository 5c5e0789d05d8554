package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WorkflowSpec is a reusable definition of jobs.
type WorkflowSpec struct {
	// inputs by name. Shape of a name: letters, digits, '-' and '_', with a letter or digit at both ends, up to
	// 63 characters.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$'))",message="every name of an input must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters"
	Inputs map[string]Input `json:"inputs,omitempty"`

	// outputs by name, evaluated when all jobs have succeeded; they see jobs only. Shape of a name: letters, digits, '-' and
	// '_', with a letter or digit at both ends, up to 47 characters.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9]([A-Za-z0-9_-]{0,45}[A-Za-z0-9])?$'))",message="every name of an output must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 47 characters"
	Outputs map[string]Output `json:"outputs,omitempty"`

	// jobs by name, as in a WorkflowRun.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$'))",message="every name of a job must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(j, !has(self[j].needs) || self[j].needs.all(n, n in self))",message="needs must name jobs of the same jobs map"
	// +kubebuilder:validation:XValidation:rule="self.map(j, has(self[j].steps) ? size(self[j].steps) : 0).sum() <= 1024",message="all jobs together may have 1024 steps: split the work into several Workflows"
	Jobs map[string]Job `json:"jobs"`
}

// DefinitionStatus says whether a definition can be used. It holds nothing about executions.
type DefinitionStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, whose reason and message say what is invalid. Keyed by type.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Workflow is a reusable definition of jobs. It executes nothing by itself: a trigger or a job with uses makes a
// WorkflowRun from it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=workflows,categories=kruntimes
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Workflow struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the definition.
	// +required
	Spec WorkflowSpec `json:"spec"`

	// status says whether the definition can be used. Written by the Workflow controller only.
	// +optional
	Status DefinitionStatus `json:"status,omitempty"`
}

// WorkflowList is a list of Workflows.
// +kubebuilder:object:root=true
type WorkflowList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Workflows.
	Items []Workflow `json:"items"`
}
