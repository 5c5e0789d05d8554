// Package template makes executable jobs of a definition: it gives the inputs their values and writes them into the jobs.
// It is pure, and the same for the controller, krt and the linter.
//
// Only inputs are replaced. What a text reads from steps and jobs stays as it is written, for it is known only while they
// run. Values are text and never read again: one that could be read as an expression is inserted as a literal, which
// evaluating the text undoes once.
package template

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/expression"
	"kruntimes.io/kruntimes/workflow/validate"
)

// Contract returns the annotations that freeze the outputs of a Workflow on a WorkflowRun that is made from it:
// workflowsv1alpha1.AnnotationOutputPrefix and the name of the output, with its expression. They are nil where there are
// no outputs.
func Contract(outputs map[string]workflowsv1alpha1.Output) map[string]string {
	if len(outputs) == 0 {
		return nil
	}
	annotations := make(map[string]string, len(outputs))
	for name, output := range outputs {
		annotations[workflowsv1alpha1.AnnotationOutputPrefix+name] = output.Value
	}
	return annotations
}

// WorkflowRun makes an inline WorkflowRun of the Workflow with the given name: its jobs with the inputs of with written
// into them, the outputs frozen, a label that says where it came from, and neither a name nor a namespace.
//
// The errors are those of binding, with paths below "with"; or those of rendering, with paths below spec.jobs; or what
// validate.WorkflowRun and validate.OutputContract say of the result. With any of them there is no WorkflowRun.
func WorkflowRun(name string, spec *workflowsv1alpha1.WorkflowSpec, with map[string]string) (*workflowsv1alpha1.WorkflowRun, field.ErrorList) {
	inputs, errs := Bind(field.NewPath("with"), fmt.Sprintf("Workflow %q", name), spec.Inputs, with)
	if len(errs) > 0 {
		return nil, errs
	}
	jobs, errs := Jobs(spec.Jobs, inputs)
	if len(errs) > 0 {
		return nil, errs
	}
	run := &workflowsv1alpha1.WorkflowRun{
		TypeMeta: metav1.TypeMeta{APIVersion: workflowsv1alpha1.GroupVersion.String(), Kind: "WorkflowRun"},
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{workflowsv1alpha1.LabelWorkflow: corev1alpha1.RuntimeLabelValue(name)},
			Annotations: Contract(spec.Outputs),
		},
		Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: jobs},
	}
	errs = append(validate.OutputContract(run.Annotations, jobs), validate.WorkflowRun(&run.Spec)...)
	if len(errs) > 0 {
		return nil, errs
	}
	return run, nil
}

// Jobs returns the jobs with the values of inputs in place of the references to them, in every text that may hold
// expressions. Everything else stays byte for byte as it is written; the jobs that were handed over are left alone.
//
// Errors come sorted by path, below spec.jobs, up to validate.MaxErrors: every expression that is none, every reference
// to an input that has no value, every text that would be longer than its field may be; and jobs that would be larger
// than a definition may be. With any of them there are no jobs.
func Jobs(jobs map[string]workflowsv1alpha1.Job, inputs map[string]string) (map[string]workflowsv1alpha1.Job, field.ErrorList) {
	r := renderer{inputs: expression.EscapeInputs(inputs)}
	path := field.NewPath("spec", "jobs")
	rendered := make(map[string]workflowsv1alpha1.Job, len(jobs))
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		job := jobs[name]
		copied := job.DeepCopy()
		r.job(path.Key(name), copied)
		rendered[name] = *copied
	}
	if r.size > workflowsv1alpha1.MaxDefinitionBytes {
		r.errors = append(r.errors, &field.Error{Type: field.ErrorTypeTooLong, Field: path.String(), BadValue: field.OmitValueType{},
			Detail: fmt.Sprintf("the jobs would have more bytes than the %d of a definition with all inputs in them: hand over shorter inputs, or split the Workflow",
				workflowsv1alpha1.MaxDefinitionBytes)})
	}
	if len(r.errors) > 0 {
		validate.Sort(r.errors)
		return nil, r.errors[:min(len(r.errors), validate.MaxErrors)]
	}
	return rendered, nil
}
