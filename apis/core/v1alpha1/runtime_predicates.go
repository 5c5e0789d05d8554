package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The schema's defaults, for Runtimes that were not read from an API server.
const (
	defaultReplicas     = 1
	defaultCapacityRuns = 4
)

// DesiredReplicas returns how many Pods r asks for, with the default filled in.
func (r *Runtime) DesiredReplicas() int32 {
	if r.Spec.Replicas == nil {
		return defaultReplicas
	}
	return *r.Spec.Replicas
}

// OfferedCapacity returns the logical units that one Pod of r offers, with the default of "runs" filled in.
// The result is a copy.
func (r *Runtime) OfferedCapacity() corev1.ResourceList {
	capacity := corev1.ResourceList{}
	for name, q := range r.Spec.Capacity {
		capacity[name] = q.DeepCopy()
	}
	if _, ok := capacity[ResourceRuns]; !ok {
		capacity[ResourceRuns] = *resource.NewQuantity(defaultCapacityRuns, resource.DecimalSI)
	}
	return capacity
}
