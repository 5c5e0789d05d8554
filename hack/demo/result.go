package main

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// result is what came of a WorkflowRun and of all that it calls, as a workflow says it.
type result struct {
	phases, outputs map[string]string
}

// gather adds what came of the WorkflowRun with the given name. path is the job that calls it, empty for the outermost.
func (d *demo) gather(ctx context.Context, name, path string, r *result) error {
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: name}, run); err != nil {
		return fmt.Errorf("reading workflow run %s: %w", name, err)
	}
	below := ""
	if path == "" {
		r.phases[""] = string(run.Status.Phase)
		r.keep("", run.Status.Outputs)
	} else {
		below = path + "/"
	}
	for job, js := range run.Status.Jobs {
		r.phases[below+job] = string(js.Phase)
		r.keep(below+job, js.Outputs)
		for i := range js.Steps {
			r.step(below+job+"/"+js.Steps[i].Name, &js.Steps[i])
		}
		if js.WorkflowRunName != "" {
			if err := d.gather(ctx, js.WorkflowRunName, below+job, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// step adds what came of a step and, where that calls an Action, of the steps there.
func (r *result) step(path string, step *workflowsv1alpha1.StepStatus) {
	r.phases[path] = string(step.Phase)
	for i := range step.ActionSteps {
		r.phases[path+"/"+step.ActionSteps[i].Name] = string(step.ActionSteps[i].Phase)
	}
	if len(step.ActionSteps) > 0 {
		r.keep(path, step.Outputs)
	}
}

func (r *result) keep(path string, outputs map[string]corev1alpha1.OutputValue) {
	for name, value := range outputs {
		r.outputs[path+"."+name] = string(value)
	}
}
