package v1alpha1

import corev1 "k8s.io/api/core/v1"

// The condition that the manager writes into the status of a namespace which is being deleted.
const (
	// NamespaceConditionRuntimePodsRemaining is False when no Pod of a Runtime is left in a namespace in deletion; its time says when
	// that was seen last. It is never True, and absent before.
	NamespaceConditionRuntimePodsRemaining corev1.NamespaceConditionType = "kruntimes.io/RuntimePodsRemaining"
	// ReasonRuntimePodsGone means that every Pod of a Runtime is gone.
	ReasonRuntimePodsGone = "RuntimePodsGone"
)
