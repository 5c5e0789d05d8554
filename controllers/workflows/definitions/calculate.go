package definitions

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
	"kruntimes.io/kruntimes/workflow/validate"
)

// observation is all that a verdict rests on.
type observation struct {
	// status as it is stored, and the generation of the spec.
	status     workflowsv1alpha1.DefinitionStatus
	generation int64
	// invalid is what is wrong with the definition in itself.
	invalid field.ErrorList
	// unresolved is what is wrong with what it calls. It is known only of a definition that is valid in itself.
	unresolved field.ErrorList
	// now is the time of the verdict.
	now time.Time
}

// calculate returns the status that a definition shall have. Messages hold nothing that changes by itself, so that nothing is
// written for it.
func calculate(o *observation) workflowsv1alpha1.DefinitionStatus {
	status := *o.status.DeepCopy()
	status.ObservedGeneration = o.generation
	ready := metav1.Condition{
		Type: workflowsv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: workflowsv1alpha1.ReasonValid,
		ObservedGeneration: o.generation, LastTransitionTime: metav1.NewTime(o.now),
	}
	switch {
	case len(o.invalid) > 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, workflowsv1alpha1.ReasonInvalid, message(o.invalid)
	case len(o.unresolved) > 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, workflowsv1alpha1.ReasonUnresolved, message(o.unresolved)
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	return status
}

// message lists what is wrong, with its places.
func message(errs field.ErrorList) string {
	const size = workflowsv1alpha1.MaxReadyMessageBytes
	return statuspatch.Bounded(validate.Joined(errs, size), size)
}
