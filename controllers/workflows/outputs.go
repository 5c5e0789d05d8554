package workflows

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/expression"
	"kruntimes.io/kruntimes/workflow/validate"
)

// Bounds of what expressions may grow to.
const (
	// maxScript and maxEnvValue are those of a Run's fields, maxInputValue that of what a call hands over. Unit: characters.
	maxScript, maxEnvValue = validate.MaxScriptLength, validate.MaxValueLength
	maxInputValue          = validate.MaxValueLength
	// maxChildBytes bounds all texts of one child together, far below what the API server takes. Unit: bytes.
	maxChildBytes = 768 << 10
)

// renderer evaluates the fields of one object and collects what is wrong with them.
type renderer struct {
	// left is how much all texts together may still grow to.
	left int
	errs []string
}

// render evaluates text, whose result may have maxBytes; field is its name in messages.
func (r *renderer) render(field, text string, maxBytes int, scope expression.Scope) string {
	template, errs := expression.Parse(text)
	if len(errs) > 0 {
		r.errs = append(r.errs, field+": "+errs.Error())
		return ""
	}
	value, err := template.EvaluateUpTo(scope, maxBytes)
	switch {
	case err != nil:
	case len(value) > maxBytes:
		err = fmt.Errorf("the text holds %d bytes, more than %d", len(value), maxBytes)
	case len(value) > r.left:
		err = fmt.Errorf("all texts together may hold %d bytes", maxChildBytes)
	}
	if err != nil {
		r.errs = append(r.errs, field+": "+err.Error())
		return ""
	}
	r.left -= len(value)
	return value
}

// text does the same for a text whose result may have maxLength characters.
func (r *renderer) text(field, text string, maxLength int, scope expression.Scope) string {
	value := r.render(field, text, maxLength*utf8.UTFMax, scope)
	if length := utf8.RuneCountInString(value); length > maxLength {
		r.errs = append(r.errs, fmt.Sprintf("%s: the text has %d characters, and may have %d", field, length, maxLength))
		return ""
	}
	return value
}

// err says what could not be evaluated, or nothing.
func (r *renderer) err() error {
	if len(r.errs) == 0 {
		return nil
	}
	return errors.New(workflowsv1alpha1.WordExpressionFailed + ": " + strings.Join(r.errs, "; "))
}

// renderOutputs evaluates declared outputs.
func renderOutputs(declared map[string]string, scope expression.Scope) (map[string]corev1alpha1.OutputValue, error) {
	if len(declared) == 0 {
		return nil, nil
	}
	r := renderer{left: maxChildBytes}
	values := make(map[string]corev1alpha1.OutputValue, len(declared))
	for _, name := range sortedKeys(declared) {
		values[name] = corev1alpha1.OutputValue(r.render("outputs."+name, declared[name], workflowsv1alpha1.MaxOutputValueBytes, scope))
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return values, nil
}

// jobOutputs evaluates the outputs of a job whose steps have all succeeded.
func jobOutputs(job workflowsv1alpha1.Job, js *workflowsv1alpha1.JobStatus, status *workflowsv1alpha1.WorkflowRunStatus) (map[string]corev1alpha1.OutputValue, error) {
	return renderOutputs(valuesOf(job.Outputs), expression.Scope{Steps: stepOutputs(js.Steps), Jobs: neededOutputs(job.Needs, status)})
}

// valuesOf are declared outputs without their descriptions.
func valuesOf(outputs map[string]workflowsv1alpha1.Output) map[string]string {
	values := make(map[string]string, len(outputs))
	for name, output := range outputs {
		values[name] = output.Value
	}
	return values
}

// workflowOutputs evaluates the outputs that a WorkflowRun's annotations declare.
func workflowOutputs(run *workflowsv1alpha1.WorkflowRun, status *workflowsv1alpha1.WorkflowRunStatus) (map[string]corev1alpha1.OutputValue, error) {
	declared := map[string]string{}
	for key, value := range run.Annotations {
		if name, ok := strings.CutPrefix(key, workflowsv1alpha1.AnnotationOutputPrefix); ok {
			declared[name] = value
		}
	}
	return renderOutputs(declared, expression.Scope{Jobs: neededOutputs(sortedKeys(status.Jobs), status)})
}

// stepOutputs are the outputs of the steps that have succeeded.
func stepOutputs(steps []workflowsv1alpha1.StepStatus) map[string]map[string]string {
	outputs := make(map[string]map[string]string, len(steps))
	for _, step := range steps {
		if step.Phase == corev1alpha1.RunSucceeded {
			outputs[step.Name] = texts(step.Outputs)
		}
	}
	return outputs
}

// neededOutputs are the outputs of jobs that have succeeded.
func neededOutputs(jobs []string, status *workflowsv1alpha1.WorkflowRunStatus) map[string]map[string]string {
	outputs := make(map[string]map[string]string, len(jobs))
	for _, name := range jobs {
		if js := status.Jobs[name]; js.Phase == workflowsv1alpha1.JobSucceeded {
			outputs[name] = texts(js.Outputs)
		}
	}
	return outputs
}

func texts(values map[string]corev1alpha1.OutputValue) map[string]string {
	out := make(map[string]string, len(values))
	for name, value := range values {
		out[name] = string(value)
	}
	return out
}
