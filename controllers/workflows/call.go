package workflows

import (
	"errors"
	"fmt"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/calls"
	"kruntimes.io/kruntimes/workflow/expression"
	"kruntimes.io/kruntimes/workflow/graph"
	"kruntimes.io/kruntimes/workflow/template"
	"kruntimes.io/kruntimes/workflow/validate"
)

// call is a Workflow to make a child WorkflowRun of. The Workflow is read when that is done, and not before.
type call struct {
	workflow string
	with     map[string]string
}

// planCall evaluates what a job hands to the Workflow that it calls.
func (p *plan) planCall(o observation, status *workflowsv1alpha1.WorkflowRunStatus, name string, js *workflowsv1alpha1.JobStatus) {
	job := o.run.Spec.Jobs[name]
	with, err := renderWith(job.With, expression.Scope{Jobs: neededOutputs(job.Needs, status)})
	if err != nil {
		fail(o, js, err.Error())
		p.refused = true
		return
	}
	p.start = append(p.start, target{id: identity{job: name}, call: &call{workflow: job.Uses, with: with}})
}

// projectCall takes what became of a call's child as the state of its job.
//
//	child                                      job
//	Pending, Running                           Running
//	Succeeded, and its outputs can be had      Succeeded
//	Succeeded, and its outputs cannot be had   Failed
//	Failed, Cancelled, gone                    Failed
func projectCall(o observation, name string, js *workflowsv1alpha1.JobStatus, left *budget) {
	child := o.calls[name]
	if missing, isMissing := o.missing[identity{job: name}]; isMissing && child == nil {
		js.WorkflowRunName = missing
		fail(o, js, childIsGone("WorkflowRun", missing))
		return
	}
	if child == nil {
		return
	}
	js.WorkflowRunName = child.Name
	if js.StartTime == nil {
		js.StartTime = micro(o.now)
		if child.Status.StartTime != nil {
			js.StartTime = child.Status.StartTime
		}
	}
	switch child.Status.Phase {
	case workflowsv1alpha1.WorkflowSucceeded:
		concludeCall(o, js, child, left)
	case workflowsv1alpha1.WorkflowFailed, workflowsv1alpha1.WorkflowCancelled:
		fail(o, js, explainCall(child))
		js.CompletionTime = later(js.CompletionTime, child.Status.CompletionTime)
	default:
		js.Phase, js.Message = workflowsv1alpha1.JobRunning, ""
	}
}

// concludeCall takes over outputs and artifacts of a call's child that has succeeded.
func concludeCall(o observation, js *workflowsv1alpha1.JobStatus, child *workflowsv1alpha1.WorkflowRun, left *budget) {
	outputs, err := workflowOutputs(child, &child.Status)
	if err == nil {
		err = left.take(outputs)
	}
	if err == nil {
		err = keepCallArtifacts(js, child, left)
	}
	if err != nil {
		fail(o, js, fmt.Sprintf("WorkflowRun %s succeeded, but: %s", child.Name, err))
		return
	}
	succeed(o, js, outputs, child.Status.CompletionTime)
}

// keepCallArtifacts unites the artifacts of a child's jobs: of two under one name, the one of the job that comes later counts,
// in the order of their needs and then of their names.
func keepCallArtifacts(js *workflowsv1alpha1.JobStatus, child *workflowsv1alpha1.WorkflowRun, left *budget) error {
	needs := make(map[string][]string, len(child.Status.Jobs))
	for name, job := range child.Status.Jobs {
		needs[name] = job.Pre
	}
	order, err := graph.Order(needs)
	if err != nil { // never: it was accepted
		return fmt.Errorf("ordering its jobs: %w", err)
	}
	for _, name := range order {
		artifacts := child.Status.Jobs[name].Artifacts
		made := make([]corev1alpha1.ArtifactRef, 0, len(artifacts))
		for _, artifact := range sortedKeys(artifacts) {
			made = append(made, artifacts[artifact])
		}
		if err := keepArtifacts(js, made, left); err != nil {
			return err
		}
	}
	return nil
}

// explainCall puts into a sentence why a call's child did not succeed.
func explainCall(child *workflowsv1alpha1.WorkflowRun) string {
	if child.Status.Phase == workflowsv1alpha1.WorkflowCancelled {
		return fmt.Sprintf("WorkflowRun %s was cancelled", child.Name)
	}
	text := fmt.Sprintf("WorkflowRun %s failed", child.Name)
	if child.Status.Message != "" {
		text += ": " + child.Status.Message
	}
	return text
}

// materialize makes the WorkflowRun of a call, complete but for what its owner gives it. The error is an invalidCallError
// where the definitions are at fault.
func materialize(defs calls.Definitions, c *call) (*workflowsv1alpha1.WorkflowRun, error) {
	spec, err := defs.Workflow(c.workflow)
	if err != nil {
		return nil, fmt.Errorf("reading the Workflow that is called: %w", err)
	}
	if spec == nil {
		return nil, &invalidCallError{fmt.Sprintf("there is no Workflow %q in this namespace", c.workflow)}
	}
	what := fmt.Sprintf("Workflow %q", c.workflow)
	if errs := validate.Workflow(spec); len(errs) > 0 {
		return nil, &invalidCallError{what + " is invalid: " + allOf(errs)}
	}
	errs, err := calls.Workflow(defs, c.workflow, spec)
	if err != nil {
		return nil, fmt.Errorf("reading what %s calls: %w", what, err)
	}
	if len(errs) > 0 {
		return nil, &invalidCallError{what + ": " + allOf(errs)}
	}
	child, errs := template.WorkflowRun(c.workflow, spec, c.with)
	if len(errs) > 0 {
		return nil, &invalidCallError{allOf(errs)}
	}
	return child, nil
}

// callWorkflow tells whether any of the jobs calls a Workflow.
func callWorkflow(jobs map[string]workflowsv1alpha1.Job) bool {
	for _, job := range jobs {
		if job.Uses != "" {
			return true
		}
	}
	return false
}

// invalidCallError says why a Workflow cannot be called. Only another definition of it could change that.
type invalidCallError struct{ why string }

func (e *invalidCallError) Error() string { return workflowsv1alpha1.WordCallInvalid + ": " + e.why }

// isInvalidCall tells whether a call was refused because of what it calls.
func isInvalidCall(err error) bool {
	var invalid *invalidCallError
	return errors.As(err, &invalid)
}
