package workflows

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// project copies what became of the children into their steps, and ends the jobs whose steps have ended. What the status
// already holds as ended is never looked at again: a child may be deleted after its end.
func project(o observation, status *workflowsv1alpha1.WorkflowRunStatus, left *budget) {
	for _, name := range sortedKeys(status.Jobs) {
		js := status.Jobs[name]
		if js.Phase.IsTerminal() {
			continue
		}
		if o.run.Spec.Jobs[name].Uses != "" {
			projectCall(o, name, &js, left)
		} else if projectJob(o, name, &js, status, left); !js.Phase.IsTerminal() {
			aggregate(o, name, &js, status, left)
		}
		status.Jobs[name] = js
		if js.Phase.HasStarted() && status.Phase == workflowsv1alpha1.WorkflowPending {
			status.Phase = workflowsv1alpha1.WorkflowRunning
		}
	}
}

// projectJob copies what became of the children of a job. Outputs and artifacts that are over a bound are left out, and
// fail it.
func projectJob(o observation, name string, js *workflowsv1alpha1.JobStatus, status *workflowsv1alpha1.WorkflowRunStatus, left *budget) {
	for i := range js.Steps {
		step := &js.Steps[i]
		if step.Phase.IsTerminal() {
			continue
		}
		for l := range leavesOfStep(name, step) {
			if l.phase.IsTerminal() {
				continue
			}
			projectLeaf(o, l)
			err := left.take(*l.outputs)
			if err != nil {
				*l.outputs = nil
			} else if *l.phase == corev1alpha1.RunSucceeded {
				err = keepArtifacts(js, o.children[l.id].Status.Artifacts, left)
			}
			if err != nil {
				*l.message = statuspatch.Bounded(err.Error(), maxStepMessage)
				startJob(js)
				fail(o, js, fmt.Sprintf("%s: %s", l.what(), err))
			}
		}
		if len(step.ActionSteps) > 0 && !js.Phase.IsTerminal() {
			conclude(o, name, step, status, left)
		}
	}
}

// projectLeaf copies what became of a child into its step.
func projectLeaf(o observation, l leaf) {
	child := o.children[l.id]
	missing, isMissing := o.missing[l.id]
	switch {
	case child != nil:
		*l.runName = child.Name
		*l.phase = child.Status.Phase.OrPending()
		if child.Status.StartTime != nil {
			*l.startTime = child.Status.StartTime
		}
		if *l.startTime == nil { // It was created by a predecessor that did not live to record it.
			*l.startTime = micro(o.now)
		}
		*l.message = statuspatch.Bounded(waitsFor(child), maxStepMessage)
		if l.phase.IsTerminal() {
			*l.completionTime = child.Status.CompletionTime
			if *l.phase == corev1alpha1.RunSucceeded { // Nobody can read the outputs of another.
				*l.outputs = child.Status.Outputs
			}
			*l.message = statuspatch.Bounded(explain(child), maxStepMessage)
		}
	case isMissing:
		*l.runName, *l.phase, *l.completionTime = missing, corev1alpha1.RunFailed, micro(o.now)
		*l.message = childIsGone("Run", missing)
	}
}

// childIsGone says that a recorded child is not there any more.
func childIsGone(kind, name string) string {
	return fmt.Sprintf("%s: %s %s is gone; it is not made again, for it may have been executed", workflowsv1alpha1.WordChildDeleted, kind, name)
}

// waitsFor says why a Run that has no Pod waits, where that is worth a word: that all Pods are busy is not, and passes.
func waitsFor(run *corev1alpha1.Run) string {
	if run.Status.Phase.OrPending() != corev1alpha1.RunPending {
		return ""
	}
	scheduled := meta.FindStatusCondition(run.Status.Conditions, corev1alpha1.RunConditionScheduled)
	switch {
	case scheduled == nil, scheduled.Status != metav1.ConditionFalse, scheduled.Reason == corev1alpha1.ReasonInsufficientCapacity:
		return ""
	case isAboutWorkspace(scheduled.Reason):
		return waitsForWorkspace // Where a job's workspace is concerns operators, who find it on the workspace.
	default:
		return "waits: " + scheduled.Reason + ": " + scheduled.Message
	}
}

// explain puts into a sentence why a Run did not succeed.
func explain(run *corev1alpha1.Run) string {
	if run.Status.Phase == corev1alpha1.RunSucceeded {
		return ""
	}
	text := string(run.Status.Reason)
	if text == "" {
		text = string(run.Status.Phase)
	}
	if run.Status.Message == text {
		return text
	}
	if run.Status.Message != "" { // It names the exit code, where there is one.
		return text + ": " + run.Status.Message
	}
	if code := run.Status.ExitCode; code != nil && *code != 0 {
		text += ", exit code " + strconv.Itoa(int(*code))
	}
	return text
}

// aggregate ends a job whose steps have ended: all succeeded, or one did not.
func aggregate(o observation, name string, js *workflowsv1alpha1.JobStatus, status *workflowsv1alpha1.WorkflowRunStatus, left *budget) {
	succeeded := 0
	for i := range js.Steps {
		step := &js.Steps[i]
		switch {
		case step.Phase == corev1alpha1.RunSucceeded:
			succeeded++
		case step.Phase.IsTerminal():
			startJob(js)
			fail(o, js, o.blame(name, js)+fmt.Sprintf("step %s: %s", step.Name, step.Message))
			if step.CompletionTime != nil {
				js.CompletionTime = step.CompletionTime
			}
			return
		}
	}
	if !hasRuns(js) {
		return
	}
	startJob(js)
	if succeeded < len(js.Steps) {
		js.Phase, js.Message = workflowsv1alpha1.JobRunning, o.waits(name, js)
		return
	}
	outputs, err := jobOutputs(o.run.Spec.Jobs[name], js, status)
	if err == nil {
		err = left.take(outputs)
	}
	if err != nil {
		fail(o, js, err.Error())
		return
	}
	succeed(o, js, outputs, js.Steps[len(js.Steps)-1].CompletionTime)
}

// succeed ends a job well.
func succeed(o observation, js *workflowsv1alpha1.JobStatus, outputs map[string]corev1alpha1.OutputValue, at *metav1.MicroTime) {
	js.Phase, js.Message, js.Outputs = workflowsv1alpha1.JobSucceeded, "", outputs
	js.CompletionTime = at
	if js.CompletionTime == nil {
		js.CompletionTime = micro(o.now)
	}
}

// startJob gives a job the time of its first step.
func startJob(js *workflowsv1alpha1.JobStatus) {
	if js.StartTime == nil && len(js.Steps) > 0 {
		js.StartTime = js.Steps[0].StartTime
	}
}

// fail ends a job, none of whose Runs is active any more.
func fail(o observation, js *workflowsv1alpha1.JobStatus, message string) {
	for i := range js.Steps {
		breakOff(o, &js.Steps[i])
	}
	js.Phase = workflowsv1alpha1.JobFailed
	js.Message = statuspatch.Bounded(message, maxJobMessage)
	js.CompletionTime = micro(o.now)
	for i := range js.Steps {
		js.CompletionTime = later(js.CompletionTime, js.Steps[i].CompletionTime)
	}
}
