package workflows

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/validate"
)

// isInitialized tells whether a WorkflowRun was accepted or refused.
func isInitialized(status *workflowsv1alpha1.WorkflowRunStatus) bool {
	return meta.FindStatusCondition(status.Conditions, workflowsv1alpha1.WorkflowRunConditionAccepted) != nil
}

// initialize accepts or refuses a new WorkflowRun and lays out its jobs. Accepted is never written again. A WorkflowRun
// that is cancelled by then ends at once.
func initialize(o observation, d *decision) {
	status := &d.status
	status.ObservedGeneration = o.run.Generation
	status.StartTime = micro(o.now)
	errs := validate.WorkflowRun(&o.run.Spec)
	errs = append(errs, validate.OutputContract(o.run.Annotations, o.run.Spec.Jobs)...)
	if len(errs) > 0 {
		reject(o, status, refusal(errs, workflowsv1alpha1.ReasonInvalidJobs), allOf(errs))
		return
	}
	if len(o.unresolved) > 0 {
		reject(o, status, refusal(o.unresolved, workflowsv1alpha1.ReasonInvalidReference), allOf(o.unresolved))
		return
	}
	if h := o.held[identity{}]; o.now.Before(h.until) && !o.endsEarly() {
		status.StartTime = nil
		status.Message = bounded("it cannot be initialised yet: " + h.reason)
		d.recheck = h.until.Sub(o.now)
		return
	}
	status.Phase, status.Message = workflowsv1alpha1.WorkflowPending, ""
	status.Jobs = make(map[string]workflowsv1alpha1.JobStatus, len(o.run.Spec.Jobs))
	for name, job := range o.run.Spec.Jobs {
		js := workflowsv1alpha1.JobStatus{Phase: workflowsv1alpha1.JobPending, Pre: slices.Sorted(slices.Values(job.Needs))}
		if len(js.Pre) > 0 {
			js.Phase = workflowsv1alpha1.JobWaiting
		}
		for i := range job.Steps {
			js.Steps = append(js.Steps, o.layOut(&job.Steps[i]))
		}
		status.Jobs[name] = js
	}
	meta.SetStatusCondition(&status.Conditions, condition(o, workflowsv1alpha1.WorkflowRunConditionAccepted, metav1.ConditionTrue, workflowsv1alpha1.ReasonAccepted, ""))
	meta.SetStatusCondition(&status.Conditions, condition(o, workflowsv1alpha1.WorkflowRunConditionSucceeded, metav1.ConditionUnknown, workflowsv1alpha1.ReasonRunning, ""))
	if o.endsEarly() { // Nothing was started, and nothing will be.
		end(o, status, workflowsv1alpha1.WorkflowCancelled, workflowsv1alpha1.ReasonCancelled, cancelMessage(o))
		return
	}
	d.snapshot, d.left = true, newBudget(o.run)
	d.provision = firstWorkspaces(o)
}

// layOut makes the status of a step that was not started.
func (o *observation) layOut(step *workflowsv1alpha1.Step) workflowsv1alpha1.StepStatus {
	status := workflowsv1alpha1.StepStatus{Name: step.Name, Phase: corev1alpha1.RunPending}
	if action := o.actions[step.Uses]; action != nil {
		for i := range action.Steps {
			status.ActionSteps = append(status.ActionSteps,
				workflowsv1alpha1.ActionStepStatus{Name: action.Steps[i].Name, Phase: corev1alpha1.RunPending})
		}
	}
	return status
}

// firstWorkspaces are those of all jobs, save the ones that are held back: they are made before the first Run of their job.
func firstWorkspaces(o observation) []workspaceTarget {
	var targets []workspaceTarget
	for _, name := range sortedKeys(o.run.Spec.Jobs) {
		isHeld := o.now.Before(o.held[identity{job: name}].until)
		if !isHeld && o.standing(name, &workflowsv1alpha1.JobStatus{}) == standsBefore {
			targets = append(targets, newWorkspace(o, name))
		}
	}
	return targets
}

// reject ends a WorkflowRun that cannot be executed.
func reject(o observation, status *workflowsv1alpha1.WorkflowRunStatus, reason, message string) {
	status.Jobs = nil
	meta.SetStatusCondition(&status.Conditions, condition(o, workflowsv1alpha1.WorkflowRunConditionAccepted, metav1.ConditionFalse, reason, message))
	end(o, status, workflowsv1alpha1.WorkflowFailed, workflowsv1alpha1.ReasonNotAccepted, "not accepted: "+message)
}

// allOf puts errors into one message, as many as a message holds.
func allOf(errs field.ErrorList) string {
	return validate.Joined(errs, workflowsv1alpha1.MaxMessageLength)
}

// refusal chooses the reason of a refused WorkflowRun: TooLarge where something is over a bound, else the other one.
func refusal(errs field.ErrorList, other string) string {
	for _, err := range errs {
		if err.Type == field.ErrorTypeTooLong || err.Type == field.ErrorTypeTooMany {
			return workflowsv1alpha1.ReasonTooLarge
		}
	}
	return other
}

// condition makes a condition for the observed generation.
func condition(o observation, kind string, truth metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: truth, Reason: reason, Message: bounded(message),
		ObservedGeneration: o.run.Generation, LastTransitionTime: metav1.NewTime(o.now),
	}
}
