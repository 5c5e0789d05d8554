package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// IsAssignedTo tells whether r is active on exactly this Pod, not merely on one of the same name.
func (r *Run) IsAssignedTo(pod, uid string) bool {
	return r.Status.Phase.IsActive() && r.Status.AssignedPod == pod && r.Status.AssignedPodUID == uid
}

// Requests returns the logical units that r takes from its Pod, with the default of one "runs" filled in.
// The result is a copy.
func (r *Run) Requests() corev1.ResourceList {
	requests := corev1.ResourceList{}
	if r.Spec.Resources != nil {
		for name, q := range r.Spec.Resources.Requests {
			requests[name] = q.DeepCopy()
		}
	}
	if _, ok := requests[ResourceRuns]; !ok {
		requests[ResourceRuns] = resource.MustParse("1")
	}
	return requests
}

// CurrentAttempt returns the number of the attempt that r is at. It counts from 1: the first attempt is the current one
// before it is assigned, too.
func (r *Run) CurrentAttempt() int32 { return max(r.Status.Attempt, 1) }

// OrPending returns p, or Pending for the phase of a Run to which nobody has written: what the schema's default makes of
// it.
func (p RunPhase) OrPending() RunPhase {
	if p == "" {
		return RunPending
	}
	return p
}

// maxLabelValue is the bound of Kubernetes on label values.
const maxLabelValue = 63

// RuntimeLabelValue returns the value of LabelRuntime for a Runtime's name: the name itself where it fits a label,
// else its first 54 characters, a dash and 8 digits of its hash.
func RuntimeLabelValue(name string) string {
	if len(name) <= maxLabelValue {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:54] + "-" + hex.EncodeToString(sum[:4])
}
