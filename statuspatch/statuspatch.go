// Package statuspatch builds the one form in which the components of kruntimes write status: a JSON merge patch
// (RFC 7386) that holds only the changed fields of status and the resourceVersion that the writer decided on, so that
// a decision on stale data is refused with a conflict instead of being stored. Bounded fits texts into what the schemas
// allow.
package statuspatch

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TransitionError is returned when a writer wants a phase that the state machine does not grant it.
type TransitionError struct {
	// Writer is who wanted to write, From the phase it saw, To the phase it wanted.
	Writer   corev1alpha1.Writer
	From, To corev1alpha1.RunPhase
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("%s may not move a Run from %s to %s", e.Writer, e.From, e.To)
}

// ForRun returns the patch that turns the status of before into that of after, or nil when they are equal.
// It returns a TransitionError when the state machine does not allow writer the change of phase.
func ForRun(writer corev1alpha1.Writer, before, after *corev1alpha1.Run) ([]byte, error) {
	from, to := before.Status.Phase, after.Status.Phase
	if !corev1alpha1.CanTransition(from, to, writer) {
		return nil, &TransitionError{Writer: writer, From: from, To: to}
	}
	return build(before, &before.Status, &after.Status)
}

// ForRuntime returns the patch that turns the status of before into that of after, or nil when they are equal.
func ForRuntime(before, after *corev1alpha1.Runtime) ([]byte, error) {
	return build(before, &before.Status, &after.Status)
}

// build makes the patch; seen carries the resourceVersion and UID that the decision rests on.
func build(seen metav1.Object, before, after any) ([]byte, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encoding the status before: %w", err)
	}
	changed, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the status after: %w", err)
	}
	diff, err := jsonpatch.CreateMergePatch(old, changed)
	if err != nil {
		return nil, fmt.Errorf("comparing the statuses: %w", err)
	}
	if string(diff) == "{}" {
		return nil, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": seen.GetResourceVersion(), "uid": seen.GetUID()},
		"status":   json.RawMessage(diff),
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return patch, nil
}
