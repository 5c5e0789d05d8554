package workflows

import (
	"fmt"
	"slices"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// settle moves the jobs that were never started: Skipped when a needed job failed or was skipped, Pending when all have
// succeeded, Waiting otherwise. It repeats until nothing changes, which takes at most one round per job.
func settle(o observation, status *workflowsv1alpha1.WorkflowRunStatus) {
	for changed := true; changed; {
		changed = false
		for _, name := range sortedKeys(status.Jobs) {
			js := status.Jobs[name]
			if js.Phase != workflowsv1alpha1.JobPending && js.Phase != workflowsv1alpha1.JobWaiting {
				continue
			}
			before := js.Phase
			js.Phase = readiness(&js, status)
			if js.Phase == before {
				continue
			}
			if js.Phase == workflowsv1alpha1.JobSkipped {
				js.Message = blocker(&js, status)
				js.CompletionTime = micro(o.now)
			}
			status.Jobs[name] = js
			changed = true
		}
	}
}

// readiness is the phase of a job that was never started.
func readiness(js *workflowsv1alpha1.JobStatus, status *workflowsv1alpha1.WorkflowRunStatus) workflowsv1alpha1.JobPhase {
	phase := workflowsv1alpha1.JobPending
	for _, pre := range js.Pre {
		switch status.Jobs[pre].Phase {
		case workflowsv1alpha1.JobSucceeded:
		case workflowsv1alpha1.JobFailed, workflowsv1alpha1.JobSkipped:
			return workflowsv1alpha1.JobSkipped
		default:
			phase = workflowsv1alpha1.JobWaiting
		}
	}
	return phase
}

// blocker names the needed job that keeps a job from starting: one that failed, else one that was skipped.
func blocker(js *workflowsv1alpha1.JobStatus, status *workflowsv1alpha1.WorkflowRunStatus) string {
	for _, pre := range js.Pre {
		if status.Jobs[pre].Phase == workflowsv1alpha1.JobFailed {
			return fmt.Sprintf("needs job %s, which failed", pre)
		}
	}
	for _, pre := range js.Pre {
		if status.Jobs[pre].Phase == workflowsv1alpha1.JobSkipped {
			return fmt.Sprintf("needs job %s, which was skipped", pre)
		}
	}
	return ""
}

// cancel asks for the end of all active children and, once they have ended, ends the WorkflowRun. Jobs that were never
// started stay as they are; one that stands between two steps cannot go on and fails.
func cancel(o observation, d *decision) {
	all := slices.Clone(o.surplus)
	for _, id := range sortedIdentities(o.children) {
		all = append(all, o.children[id])
	}
	d.cancel = uncancelled(all)
	if slices.ContainsFunc(all, isActive) {
		return
	}
	for name, js := range d.status.Jobs {
		if js.Phase != workflowsv1alpha1.JobRunning {
			continue
		}
		fail(o, &js, "cancelled before step "+nextStep(&js).Name)
		d.status.Jobs[name] = js
	}
	end(o, &d.status, workflowsv1alpha1.WorkflowCancelled, workflowsv1alpha1.ReasonCancelled, cancelMessage(o))
}

// cancelMessage says what ended a WorkflowRun early.
func cancelMessage(o observation) string {
	if o.run.Spec.CancelRequested {
		return "cancelled on request (spec.cancelRequested)"
	}
	return "cancelled because it is being deleted"
}

// isActive tells whether a child has not ended.
func isActive(child *corev1alpha1.Run) bool { return !child.Status.Phase.IsTerminal() }

// uncancelled are the children that have not ended and that nobody has asked to.
func uncancelled(children []*corev1alpha1.Run) []*corev1alpha1.Run {
	var out []*corev1alpha1.Run
	for _, child := range children {
		if isActive(child) && !child.Spec.CancelRequested {
			out = append(out, child)
		}
	}
	return out
}

// nextStep is the first step that has not ended.
func nextStep(js *workflowsv1alpha1.JobStatus) *workflowsv1alpha1.StepStatus {
	for i := range js.Steps {
		if js.Steps[i].Phase != corev1alpha1.RunSucceeded {
			return &js.Steps[i]
		}
	}
	return &js.Steps[len(js.Steps)-1]
}
