package workflows

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
	"kruntimes.io/kruntimes/workflow/expression"
	"kruntimes.io/kruntimes/workflow/template"
)

// An Action runs inside the job that calls it: each of its steps is a Run of that job, and it sees nothing of the job but
// the inputs that it is given.

// callsAction tells whether a step calls an Action.
func callsAction(s workflowsv1alpha1.Step) bool { return s.Uses != "" }

// callActions tells whether any step of the jobs does.
func callActions(jobs map[string]workflowsv1alpha1.Job) bool {
	for _, job := range jobs {
		if slices.ContainsFunc(job.Steps, callsAction) {
			return true
		}
	}
	return false
}

// actionOf returns the frozen Action that a step calls.
func (o *observation) actionOf(step *workflowsv1alpha1.Step) (*workflowsv1alpha1.ActionSpec, error) {
	action := o.actions[step.Uses]
	if action == nil {
		return nil, fmt.Errorf("%s: the ControllerRevision that holds Action %q is gone", workflowsv1alpha1.WordChildDeleted, step.Uses)
	}
	return action, nil
}

// actionInputs evaluates what a step hands to the Action that it calls. scope is that of the step.
func actionInputs(step *workflowsv1alpha1.Step, action *workflowsv1alpha1.ActionSpec, scope expression.Scope) (map[string]string, error) {
	with, err := renderWith(step.With, scope)
	if err != nil {
		return nil, err
	}
	inputs, errs := template.Bind(field.NewPath("with"), fmt.Sprintf("Action %q", step.Uses), action.Inputs, with)
	if len(errs) > 0 { // never: they were checked at initialisation
		return nil, fmt.Errorf("%s: %s", workflowsv1alpha1.WordCallInvalid, allOf(errs))
	}
	return inputs, nil
}

// renderWith evaluates what a call hands over.
func renderWith(with map[string]workflowsv1alpha1.InputValue, scope expression.Scope) (map[string]string, error) {
	r := renderer{left: maxChildBytes}
	values := make(map[string]string, len(with))
	for _, name := range sortedKeys(with) {
		values[name] = r.text("with."+name, string(with[name]), maxInputValue, scope)
	}
	return values, r.err()
}

// conclude takes the steps of an Action together into the step that calls it.
func conclude(o observation, job string, step *workflowsv1alpha1.StepStatus, status *workflowsv1alpha1.WorkflowRunStatus, left *budget) {
	var last leaf
	for l := range leavesOfStep(job, step) {
		if *l.runName == "" && !l.phase.IsTerminal() {
			if step.StartTime != nil { // Between two of its steps.
				step.Phase, step.Message = corev1alpha1.RunRunning, ""
			}
			return
		}
		if last = l; step.StartTime == nil {
			step.StartTime = *l.startTime
		}
		if *l.phase == corev1alpha1.RunSucceeded {
			continue
		}
		step.Phase, step.CompletionTime, step.Message = *l.phase, *l.completionTime, ""
		quote(step, l)
		return
	}
	outputs, err := actionOutputs(o, job, step, status)
	if err == nil {
		err = left.take(outputs)
	}
	step.Phase, step.Outputs, step.Message, step.CompletionTime = corev1alpha1.RunSucceeded, outputs, "", *last.completionTime
	if err != nil {
		step.Phase, step.Outputs, step.Message = corev1alpha1.RunFailed, nil, statuspatch.Bounded(err.Error(), maxStepMessage)
	}
}

// quote has a call of an Action say what one of its steps says, where that is anything.
func quote(step *workflowsv1alpha1.StepStatus, l leaf) {
	if *l.message != "" {
		step.Message = statuspatch.Bounded("step "+l.id.actionStep+": "+*l.message, maxStepMessage)
	}
}

// breakOff ends a call of an Action that cannot go on: its job has failed.
func breakOff(o observation, step *workflowsv1alpha1.StepStatus) {
	if len(step.ActionSteps) == 0 || step.Phase.IsTerminal() {
		return
	}
	for l := range leavesOfStep("", step) {
		quote(step, l)
	}
	if step.StartTime == nil { // Nothing of it was executed.
		return
	}
	step.Phase, step.CompletionTime = corev1alpha1.RunFailed, micro(o.now)
	if o.endsEarly() {
		step.Phase = corev1alpha1.RunCancelled
	}
	for l := range leavesOfStep("", step) {
		step.CompletionTime = later(step.CompletionTime, *l.completionTime)
	}
}

// actionOutputs evaluates the outputs of an Action whose steps have all succeeded.
func actionOutputs(o observation, job string, step *workflowsv1alpha1.StepStatus, status *workflowsv1alpha1.WorkflowRunStatus) (map[string]corev1alpha1.OutputValue, error) {
	spec := o.run.Spec.Jobs[job]
	call := stepOf(&spec, step.Name)
	action, err := o.actionOf(call)
	if err != nil {
		return nil, err
	}
	inputs, err := actionInputs(call, action, jobScope(&spec, status, job))
	if err != nil {
		return nil, err
	}
	return renderOutputs(valuesOf(action.Outputs), expression.Scope{Inputs: inputs, Steps: actionStepOutputs(step.ActionSteps)})
}

// actionStepOutputs are the outputs of the steps of an Action that have succeeded.
func actionStepOutputs(steps []workflowsv1alpha1.ActionStepStatus) map[string]map[string]string {
	outputs := make(map[string]map[string]string, len(steps))
	for i := range steps {
		if steps[i].Phase == corev1alpha1.RunSucceeded {
			outputs[steps[i].Name] = texts(steps[i].Outputs)
		}
	}
	return outputs
}

// jobScope is what the steps of a job see now.
func jobScope(job *workflowsv1alpha1.Job, status *workflowsv1alpha1.WorkflowRunStatus, name string) expression.Scope {
	return expression.Scope{Steps: stepOutputs(status.Jobs[name].Steps), Jobs: neededOutputs(job.Needs, status)}
}

// stepOf finds a step of a job by its name.
func stepOf(job *workflowsv1alpha1.Job, name string) *workflowsv1alpha1.Step {
	at := slices.IndexFunc(job.Steps, func(s workflowsv1alpha1.Step) bool { return s.Name == name })
	return &job.Steps[at]
}
