package scheduler

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/queue"
)

// newer tells whether version a is later than b. Versions that cannot be compared count as not later, so that the one
// that was seen last wins.
func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}

// orderOf is the place of a Run that is seen for the first time.
func orderOf(run *corev1alpha1.Run) queue.Order {
	// A version that is no number leaves the order within the second to the names.
	version, err := strconv.ParseUint(run.ResourceVersion, 10, 64)
	if err != nil {
		version = 0
	}
	return queue.Order{Created: run.CreationTimestamp.Unix(), Version: version, Name: run.Name}
}
