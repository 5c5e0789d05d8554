package observe

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
)

// TestWatchEndsWithItsContext stops before the cache is filled, as a manager that is stopped while it starts.
func TestWatchEndsWithItsContext(t *testing.T) {
	unfilled := &informertest.FakeInformers{Error: errors.New("timeout waiting for the informer to sync")}
	if err := Watch(t.Context(), unfilled, &corev1.Pod{}, Eyes[*corev1.Pod]{}); !errors.Is(err, unfilled.Error) {
		t.Errorf("while it should watch: got error %v, want %v", err, unfilled.Error)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Watch(ended, unfilled, &corev1.Pod{}, Eyes[*corev1.Pod]{}); err != nil {
		t.Errorf("after the end: got error %v, want none", err)
	}
}
