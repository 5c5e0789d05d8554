package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ActionSpec is a reusable group of steps, which run in the job that calls it.
type ActionSpec struct {
	// inputs by name. Shape of a name: letters, digits, '-' and '_', with a letter or digit at both ends, up to
	// 63 characters.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$'))",message="every name of an input must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters"
	Inputs map[string]Input `json:"inputs,omitempty"`

	// outputs by name, evaluated when all steps have succeeded; they see the Action's own inputs and steps only.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$'))",message="every name of an output must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters"
	Outputs map[string]Output `json:"outputs,omitempty"`

	// steps run one after another. They run scripts: an Action calls no other Action. Keyed by name.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:XValidation:rule="!has(self.uses)",message="the steps of an Action run scripts: an Action cannot call another Action"
	Steps []Step `json:"steps"`
}

// Action is a reusable group of steps. A step with uses runs them in its own job: same Runtime, workspace, environment
// and artifacts.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=actions,categories=kruntimes
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Action struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the definition.
	// +required
	Spec ActionSpec `json:"spec"`

	// status says whether the definition can be used. Written by the Action controller only.
	// +optional
	Status DefinitionStatus `json:"status,omitempty"`
}

// ActionList is a list of Actions.
// +kubebuilder:object:root=true
type ActionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Actions.
	Items []Action `json:"items"`
}
