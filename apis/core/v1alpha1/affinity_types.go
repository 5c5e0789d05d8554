package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Affinity places a Run relative to other Runs of its namespace that are assigned to a Pod.
type Affinity struct {
	// runAffinity places the Run where matching Runs are.
	// +optional
	RunAffinity *RunAffinity `json:"runAffinity,omitempty"`

	// runAntiAffinity keeps the Run away from where matching Runs are.
	// +optional
	RunAntiAffinity *RunAffinity `json:"runAntiAffinity,omitempty"`
}

// RunAffinity holds the hard and the soft rules of one direction, shaped like the Pod affinity of Kubernetes.
type RunAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution are rules that a Pod must meet, all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Required []RunAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// preferredDuringSchedulingIgnoredDuringExecution are rules that raise the score of a Pod that meets them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Preferred []WeightedRunAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// RunAffinityTerm selects Runs, and says what "the same place" is.
type RunAffinityTerm struct {
	// labelSelector selects the Runs that count. Must not be empty.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="labelSelector must not be empty: set matchLabels or matchExpressions"
	LabelSelector metav1.LabelSelector `json:"labelSelector"`

	// topologyKey says what "the same place" is. The only value so far: kruntimes.io/runtime-pod.
	// +required
	// +kubebuilder:validation:Enum="kruntimes.io/runtime-pod"
	TopologyKey string `json:"topologyKey"`
}

// WeightedRunAffinityTerm is a soft rule with a weight.
type WeightedRunAffinityTerm struct {
	// weight of the rule among the others. Bounds: 1 to 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// runAffinityTerm is the rule.
	// +required
	Term RunAffinityTerm `json:"runAffinityTerm"`
}
