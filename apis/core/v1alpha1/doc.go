// Package v1alpha1 holds the API group kruntimes.io: Runtime, a pool of warm
// Pods, and Run, one execution that is dispatched into such a Pod.
//
// The package also owns what every writer of these kinds shares: the closed
// lists of reasons and conditions, and the Run state machine (see transition.go)
// that the CRD's transition rules are tested against.
//
// +kubebuilder:object:generate=true
// +groupName=kruntimes.io
package v1alpha1
