package workflows

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// sortedKeys returns the keys of a map in order, so that no result depends on the order of a map.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// sortedIdentities does the same for children.
func sortedIdentities[V any](m map[identity]V) []identity {
	return slices.SortedFunc(maps.Keys(m), func(a, b identity) int {
		return cmp.Or(strings.Compare(a.job, b.job), strings.Compare(a.step, b.step), strings.Compare(a.actionStep, b.actionStep))
	})
}

// micro is a time as a status holds it.
func micro(t time.Time) *metav1.MicroTime {
	at := metav1.NewMicroTime(t.Truncate(time.Microsecond))
	return &at
}

// later returns the later of two times, of which the second may be nil.
func later(t, other *metav1.MicroTime) *metav1.MicroTime {
	if other != nil && other.After(t.Time) {
		return other.DeepCopy()
	}
	return t
}

// bounded shortens a message to what a status may hold.
func bounded(message string) string {
	return statuspatch.Bounded(message, workflowsv1alpha1.MaxMessageLength)
}
