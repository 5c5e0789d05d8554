package workflows

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// leaf is what one Run executes: a step with a script, or one step of the Action that a step calls. It points into the
// status of its job.
type leaf struct {
	id             identity
	phase          *corev1alpha1.RunPhase
	runName        *string
	outputs        *map[string]corev1alpha1.OutputValue
	message        *string
	startTime      **metav1.MicroTime
	completionTime **metav1.MicroTime
}

// what names a leaf in messages.
func (l leaf) what() string {
	if l.id.actionStep != "" {
		return "step " + l.id.step + ", step " + l.id.actionStep + " of its Action"
	}
	return "step " + l.id.step
}

// leavesOf goes through the leaves of a job in the order of execution: none for a call of a Workflow.
func leavesOf(job string, js *workflowsv1alpha1.JobStatus) iter.Seq[leaf] {
	return func(yield func(leaf) bool) {
		for i := range js.Steps {
			for l := range leavesOfStep(job, &js.Steps[i]) {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// leavesOfStep goes through those of one step.
func leavesOfStep(job string, step *workflowsv1alpha1.StepStatus) iter.Seq[leaf] {
	return func(yield func(leaf) bool) {
		if len(step.ActionSteps) == 0 {
			yield(leaf{
				id: identity{job: job, step: step.Name}, phase: &step.Phase, runName: &step.RunName, outputs: &step.Outputs,
				message: &step.Message, startTime: &step.StartTime, completionTime: &step.CompletionTime,
			})
			return
		}
		for i := range step.ActionSteps {
			s := &step.ActionSteps[i]
			goesOn := yield(leaf{
				id: identity{job: job, step: step.Name, actionStep: s.Name}, phase: &s.Phase, runName: &s.RunName, outputs: &s.Outputs,
				message: &s.Message, startTime: &s.StartTime, completionTime: &s.CompletionTime,
			})
			if !goesOn {
				return
			}
		}
	}
}

// leafOf finds the leaf of an identity; false where the job has none.
func leafOf(js *workflowsv1alpha1.JobStatus, id identity) (leaf, bool) {
	for i := range js.Steps {
		if js.Steps[i].Name != id.step {
			continue
		}
		for l := range leavesOfStep(id.job, &js.Steps[i]) {
			if l.id == id {
				return l, true
			}
		}
	}
	return leaf{}, false
}

// nextLeaf is the first leaf that has not succeeded, or the last one. A call of a Workflow has none.
func nextLeaf(job string, js *workflowsv1alpha1.JobStatus) (next leaf, ok bool) {
	for l := range leavesOf(job, js) {
		next, ok = l, true
		if *l.phase != corev1alpha1.RunSucceeded {
			break
		}
	}
	return next, ok
}

// hasRuns tells whether a Run of the job is recorded.
func hasRuns(js *workflowsv1alpha1.JobStatus) bool {
	for l := range leavesOf("", js) {
		if *l.runName != "" {
			return true
		}
	}
	return false
}
