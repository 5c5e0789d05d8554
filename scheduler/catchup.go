package scheduler

import (
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// beginCatchUp makes the engine remember which Runs go: a read of the store that was answered before must not bring
// them back.
func (e *engine) beginCatchUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = map[types.UID]struct{}{}
}

// catchUp takes in a Run as a read of the store shows it.
func (e *engine) catchUp(run *corev1alpha1.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.gone[run.UID]; !ok {
		e.see(run)
	}
}

// endCatchUp ends what beginCatchUp began.
func (e *engine) endCatchUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = nil
}
