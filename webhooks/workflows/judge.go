package workflows

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/validate"
)

// Kinds that are judged.
const (
	kindWorkflow    = "Workflow"
	kindAction      = "Action"
	kindWorkflowRun = "WorkflowRun"
)

// verdict is a decision about one object. The zero value admits it.
type verdict struct {
	// name of the object. What gets a name from generateName has it by now.
	name string
	// errs are all that is wrong with it.
	errs field.ErrorList
}

// judge decides on what is asked for. An error says that the request cannot be read.
func judge(request *admissionv1.AdmissionRequest) (verdict, error) {
	switch request.Kind.Kind {
	case kindWorkflow:
		return judgeChange(request, func(w *workflowsv1alpha1.Workflow) *workflowsv1alpha1.WorkflowSpec { return &w.Spec }, validate.Workflow)
	case kindAction:
		return judgeChange(request, func(a *workflowsv1alpha1.Action) *workflowsv1alpha1.ActionSpec { return &a.Spec }, validate.Action)
	case kindWorkflowRun:
		return judgeWorkflowRun(request)
	default:
		return verdict{}, nil
	}
}

// judgeChange decides on a definition: at create, and where its spec is changed. Whatever else is changed, no stored object is
// held up, nor one that is being deleted.
func judgeChange[T, S any, P interface {
	*T
	metav1.Object
}](request *admissionv1.AdmissionRequest, specOf func(*T) *S, check func(*S) field.ErrorList) (verdict, error) {
	object := P(new(T))
	if err := utiljson.Unmarshal(request.Object.Raw, object); err != nil {
		return verdict{}, fmt.Errorf("decoding the %s: %w", request.Kind.Kind, err)
	}
	if request.Operation == admissionv1.Update {
		before := P(new(T))
		if err := utiljson.Unmarshal(request.OldObject.Raw, before); err != nil {
			return verdict{}, fmt.Errorf("decoding the %s that is changed: %w", request.Kind.Kind, err)
		}
		if object.GetDeletionTimestamp() != nil || equality.Semantic.DeepEqual(specOf(before), specOf(object)) {
			return verdict{name: object.GetName()}, nil
		}
	}
	return verdict{name: object.GetName(), errs: check(specOf(object))}, nil
}

// judgeWorkflowRun decides on a WorkflowRun at create. Its jobs and the outputs that it declares never change afterwards. Those
// of calls are admitted: the controller has checked what it renders, and a policy lets nobody else set their label. The API
// server asks about them only where its configuration cannot say so.
func judgeWorkflowRun(request *admissionv1.AdmissionRequest) (verdict, error) {
	if request.Operation != admissionv1.Create {
		return verdict{}, nil
	}
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := utiljson.Unmarshal(request.Object.Raw, run); err != nil {
		return verdict{}, fmt.Errorf("decoding the WorkflowRun: %w", err)
	}
	if _, isChild := run.Labels[workflowsv1alpha1.LabelWorkflowRunUID]; isChild {
		return verdict{name: run.Name}, nil
	}
	errs := validate.WorkflowRun(&run.Spec)
	return verdict{name: run.Name, errs: append(errs, validate.OutputContract(run.Annotations, run.Spec.Jobs)...)}, nil
}
