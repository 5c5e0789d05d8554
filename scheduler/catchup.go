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
	if _, ok := e.gone[run.UID]; ok {
		return
	}
	_, isKnown := e.runs[run.UID]
	e.see(run)
	if t, ok := e.runs[run.UID]; ok && !isKnown {
		t.unshown = true
	}
}

// endCatchUp ends what beginCatchUp began.
func (e *engine) endCatchUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = nil
}

// unshown returns the Runs that a read of the store has shown, and the informer has not since. As a rule it lags behind for a
// moment. But when its watch was interrupted, it never shows a Run that has ended meanwhile, nor that it has ended.
func (e *engine) unshown() []*corev1alpha1.Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	var runs []*corev1alpha1.Run
	for _, t := range e.runs {
		if t.unshown {
			runs = append(runs, t.run)
		}
	}
	return runs
}

// reread takes in how a later read of the store shows a Run that is unshown: stored is what has its name, nil when nothing has.
func (e *engine) reread(run, stored *corev1alpha1.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch t, ok := e.runs[run.UID]; {
	case !ok || !t.unshown: // The informer will tell the rest.
	case stored == nil || stored.UID != run.UID:
		e.disappear(run.UID)
	default:
		e.see(stored)
	}
}
