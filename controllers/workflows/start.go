package workflows

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
	"kruntimes.io/kruntimes/workflow/expression"
)

// plan returns the next Run of every job that can go on: the first step of a Pending job, and the step after a succeeded
// one. A job whose Run cannot be made from its step fails, which refused tells: jobs that need it have to settle before
// the plan holds. recheck is when a Run that is held back is due, 0 when none is.
func plan(o observation, status *workflowsv1alpha1.WorkflowRunStatus) (targets []target, recheck time.Duration, refused bool) {
	for _, name := range sortedKeys(status.Jobs) {
		js := status.Jobs[name]
		if js.Phase != workflowsv1alpha1.JobPending && js.Phase != workflowsv1alpha1.JobRunning {
			continue
		}
		step := nextStep(&js)
		if step.RunName != "" {
			continue // It is under way.
		}
		id := identity{job: name, step: step.Name}
		if h := o.held[id]; o.now.Before(h.until) {
			js.Message = statuspatch.Bounded("step "+step.Name+" cannot be created yet: "+h.reason, maxJobMessage)
			if wait := h.until.Sub(o.now); recheck == 0 || wait < recheck {
				recheck = wait
			}
		} else if run, err := childRun(o.run, status, id); err != nil {
			step.Message = statuspatch.Bounded(err.Error(), maxStepMessage)
			fail(o, &js, "step "+step.Name+": "+err.Error())
			refused = true
		} else {
			targets = append(targets, target{id: id, run: run})
		}
		status.Jobs[name] = js
	}
	return targets, recheck, refused
}

// record adds a created child to the status.
func record(o observation, status *workflowsv1alpha1.WorkflowRunStatus, id identity, name string) {
	js := status.Jobs[id.job]
	for i := range js.Steps {
		if step := &js.Steps[i]; step.Name == id.step {
			step.RunName = name
			step.Phase = corev1alpha1.RunPending
			step.StartTime = micro(o.now)
		}
	}
	js.Phase, js.Message = workflowsv1alpha1.JobRunning, ""
	startJob(&js)
	status.Jobs[id.job] = js
	status.Phase = workflowsv1alpha1.WorkflowRunning
}

// refuse fails the job of a child that the API server refuses for good.
func refuse(o observation, status *workflowsv1alpha1.WorkflowRunStatus, id identity, why string) {
	js := status.Jobs[id.job]
	message := workflowsv1alpha1.WordChildRefused + ": " + why
	for i := range js.Steps {
		if step := &js.Steps[i]; step.Name == id.step {
			step.Message = statuspatch.Bounded(message, maxStepMessage)
		}
	}
	fail(o, &js, "step "+id.step+": "+message)
	status.Jobs[id.job] = js
}

// childRun makes the Run of a step, complete but for its name.
func childRun(owner *workflowsv1alpha1.WorkflowRun, status *workflowsv1alpha1.WorkflowRunStatus, id identity) (*corev1alpha1.Run, error) {
	job := owner.Spec.Jobs[id.job]
	at := slices.IndexFunc(job.Steps, func(s workflowsv1alpha1.Step) bool { return s.Name == id.step })
	step := job.Steps[at]
	scope := expression.Scope{Steps: stepOutputs(status.Jobs[id.job].Steps), Jobs: neededOutputs(job.Needs, status)}
	r := renderer{left: maxChildBytes}
	spec := corev1alpha1.RunSpec{
		Runtime: r.render("runs-on", job.RunsOn, maxName, scope),
		Source:  &corev1alpha1.RunSource{Inline: r.render("run", step.Run, maxScript, scope)},
		Timeout: step.Timeout,
	}
	env := maps.Clone(job.Env)
	if env == nil {
		env = map[string]workflowsv1alpha1.EnvValue{}
	}
	maps.Copy(env, step.Env)
	for _, name := range sortedKeys(env) {
		spec.Env = append(spec.Env, corev1alpha1.EnvVar{Name: name, Value: r.render("env."+name, string(env[name]), maxEnvValue, scope)})
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return &corev1alpha1.Run{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.Namespace,
			Labels:    childLabels(owner, id),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(owner, workflowsv1alpha1.GroupVersion.WithKind("WorkflowRun")),
			},
		},
		Spec: spec,
	}, nil
}

// childLabels identify a child.
func childLabels(owner *workflowsv1alpha1.WorkflowRun, id identity) map[string]string {
	labels := ownerLabels(owner)
	labels[workflowsv1alpha1.LabelJob] = id.job
	labels[workflowsv1alpha1.LabelStep] = id.step
	if id.actionStep != "" {
		labels[workflowsv1alpha1.LabelActionStep] = id.actionStep
	}
	if workflow, ok := owner.Labels[workflowsv1alpha1.LabelWorkflow]; ok {
		labels[workflowsv1alpha1.LabelWorkflow] = workflow
	}
	return labels
}

// ownerLabels are on everything that is made for a WorkflowRun.
func ownerLabels(owner *workflowsv1alpha1.WorkflowRun) map[string]string {
	return map[string]string{
		corev1alpha1.LabelManagedBy:           corev1alpha1.ManagedBy,
		workflowsv1alpha1.LabelWorkflowRun:    corev1alpha1.RuntimeLabelValue(owner.Name),
		workflowsv1alpha1.LabelWorkflowRunUID: string(owner.UID),
	}
}
