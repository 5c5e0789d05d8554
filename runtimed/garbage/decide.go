package garbage

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
)

// isCandidate tells whether a claim may be garbage: it is this namespace's, and old enough that whoever wrote it had the
// time to be seen.
func isCandidate(claim artifacts.Claim, namespace types.UID, before time.Time) bool {
	return namespace != "" && claim.Owner.NamespaceUID == namespace && claim.Owner.Run != "" && claim.Since.Before(before)
}

// isGarbage tells whether the Run of a candidate is gone; run is what the API server has under its name now, or nil.
func isGarbage(claim artifacts.Claim, run *corev1alpha1.Run) bool {
	return run == nil || run.UID != claim.Run
}

// first is how long a Sweeper waits before its first sweep, some minutes of an hour; random is in [0, 1).
func first(interval time.Duration, random float64) time.Duration {
	return time.Duration(float64(interval) * (0.05 + 0.1*random))
}

// next is how long it waits between two sweeps; random is in [0, 1).
func next(interval time.Duration, random float64) time.Duration {
	return time.Duration(float64(interval) * (0.75 + 0.5*random))
}
