package workflows

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

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
	all := o.offspring()
	d.cancel = uncancelled(all)
	if slices.ContainsFunc(all, isActive) {
		return
	}
	for name, js := range d.status.Jobs {
		if js.Phase != workflowsv1alpha1.JobRunning {
			continue
		}
		message := "cancelled"
		if next, ok := nextLeaf(name, &js); ok {
			message = "cancelled before " + next.what()
		}
		fail(o, &js, message)
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

// offspring are all children that are there, in order.
func (o *observation) offspring() []client.Object {
	all := o.unwanted()
	for _, id := range sortedIdentities(o.children) {
		all = append(all, o.children[id])
	}
	for _, job := range sortedKeys(o.calls) {
		all = append(all, o.calls[job])
	}
	return all
}

// unwanted are the children that there are too many of.
func (o *observation) unwanted() []client.Object {
	var all []client.Object
	for _, run := range o.surplus {
		all = append(all, run)
	}
	for _, call := range o.surplusCalls {
		all = append(all, call)
	}
	return all
}

// isActive tells whether a child has not ended.
func isActive(child client.Object) bool {
	switch child := child.(type) {
	case *corev1alpha1.Run:
		return !child.Status.Phase.IsTerminal()
	case *workflowsv1alpha1.WorkflowRun:
		return !child.Status.Phase.IsTerminal()
	}
	return false
}

// isCancelled tells whether somebody has asked for the end of a child.
func isCancelled(child client.Object) bool {
	switch child := child.(type) {
	case *corev1alpha1.Run:
		return child.Spec.CancelRequested
	case *workflowsv1alpha1.WorkflowRun:
		return child.Spec.CancelRequested
	}
	return false
}

// uncancelled are the children that have not ended and that nobody has asked to.
func uncancelled(children []client.Object) []client.Object {
	return slices.DeleteFunc(slices.Clone(children), func(child client.Object) bool { return !isActive(child) || isCancelled(child) })
}
