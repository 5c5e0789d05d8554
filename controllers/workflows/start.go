package workflows

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
	"kruntimes.io/kruntimes/workflow/expression"
)

// plan is what a WorkflowRun can go on with.
type plan struct {
	// start are the next Runs: of every job that can go on, the first step of a Pending one and the step after a succeeded one.
	start []target
	// provision are the workspaces that have to be there before first steps.
	provision []workspaceTarget
	// recheck is when what is held back is due, 0 when nothing is.
	recheck time.Duration
	// refused tells that a job has failed because an artifact is missing, its Run cannot be made from its step, or its
	// workspace is lost: jobs that need it have to settle before the plan holds.
	refused bool
}

// makePlan looks at all jobs.
func makePlan(o observation, status *workflowsv1alpha1.WorkflowRunStatus) plan {
	var p plan
	for _, name := range sortedKeys(status.Jobs) {
		js := status.Jobs[name]
		if js.Phase != workflowsv1alpha1.JobPending && js.Phase != workflowsv1alpha1.JobRunning {
			continue
		}
		if o.run.Spec.Jobs[name].Uses != "" {
			if js.WorkflowRunName == "" && !p.holds(o, identity{job: name}, &js, "the WorkflowRun of its call") {
				p.planCall(o, status, name, &js)
			}
			status.Jobs[name] = js
			continue
		}
		next, _ := nextLeaf(name, &js)
		if *next.runName != "" {
			continue // It is under way.
		}
		if js.Phase == workflowsv1alpha1.JobPending && lacksArtifacts(o, name, &js, status) {
			status.Jobs[name], p.refused = js, true
			continue
		}
		switch standing := o.standing(name, &js); standing {
		case standsBereft:
			fail(o, &js, next.what()+" cannot be executed: "+o.loss(name))
			p.refused = true
		case standsBefore:
			if !p.holds(o, identity{job: name}, &js, "its workspace") {
				p.provision = append(p.provision, newWorkspace(o, name))
			}
		default:
			if !p.holds(o, next.id, &js, next.what()) {
				p.add(o, status, next, &js)
			}
		}
		status.Jobs[name] = js
	}
	return p
}

// holds tells whether what a job needs next is held back, which its message says then.
func (p *plan) holds(o observation, id identity, js *workflowsv1alpha1.JobStatus, what string) bool {
	h := o.held[id]
	if !o.now.Before(h.until) {
		return false
	}
	js.Message = statuspatch.Bounded(what+" cannot be created yet: "+h.reason, maxJobMessage)
	if wait := h.until.Sub(o.now); p.recheck == 0 || wait < p.recheck {
		p.recheck = wait
	}
	return true
}

// add plans the Run of a job's next step. One that cannot be made fails the job.
func (p *plan) add(o observation, status *workflowsv1alpha1.WorkflowRunStatus, next leaf, js *workflowsv1alpha1.JobStatus) {
	run, err := childRun(o, status, next.id)
	if err != nil {
		*next.message = statuspatch.Bounded(err.Error(), maxStepMessage)
		fail(o, js, next.what()+": "+err.Error())
		p.refused = true
		return
	}
	if o.standing(next.id.job, js) == standsIn {
		run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: o.workspaces[next.id.job].Name}
	}
	p.start = append(p.start, target{id: next.id, run: run})
}

// record adds a created child to the status.
func record(o observation, status *workflowsv1alpha1.WorkflowRunStatus, id identity, name string) {
	js := status.Jobs[id.job]
	if l, ok := leafOf(&js, id); ok {
		*l.runName, *l.phase, *l.startTime = name, corev1alpha1.RunPending, micro(o.now)
	}
	for i := range js.Steps {
		if step := &js.Steps[i]; step.Name == id.step && step.StartTime == nil {
			step.StartTime = micro(o.now)
		}
	}
	if id.isCall() {
		js.WorkflowRunName, js.StartTime = name, micro(o.now)
	}
	js.Phase, js.Message = workflowsv1alpha1.JobRunning, ""
	startJob(&js)
	status.Jobs[id.job] = js
	status.Phase = workflowsv1alpha1.WorkflowRunning
}

// refuse fails the job of a child that cannot be made, which why says.
func refuse(o observation, status *workflowsv1alpha1.WorkflowRunStatus, id identity, why string) {
	js := status.Jobs[id.job]
	message := why
	if l, ok := leafOf(&js, id); ok {
		*l.message = statuspatch.Bounded(why, maxStepMessage)
		message = l.what() + ": " + why
	}
	fail(o, &js, message)
	status.Jobs[id.job] = js
}

// childRun makes the Run of a step, complete but for its name.
func childRun(o observation, status *workflowsv1alpha1.WorkflowRunStatus, id identity) (*corev1alpha1.Run, error) {
	job := o.run.Spec.Jobs[id.job]
	ofJob := jobScope(&job, status, id.job)
	step, scope, err := o.script(&job, status, id)
	if err != nil {
		return nil, err
	}
	r := renderer{left: maxChildBytes}
	spec := corev1alpha1.RunSpec{
		Runtime: r.render("runs-on", job.RunsOn, maxName, ofJob),
		Source:  &corev1alpha1.RunSource{Inline: r.text("run", step.Run, maxScript, scope)},
		Timeout: step.Timeout,
	}
	env := map[string]string{}
	for _, name := range sortedKeys(job.Env) {
		if _, isOverridden := step.Env[name]; !isOverridden {
			env[name] = r.text("env."+name, string(job.Env[name]), maxEnvValue, ofJob)
		}
	}
	for _, name := range sortedKeys(step.Env) {
		env[name] = r.text("env."+name, string(step.Env[name]), maxEnvValue, scope)
	}
	for _, name := range sortedKeys(env) {
		spec.Env = append(spec.Env, corev1alpha1.EnvVar{Name: name, Value: env[name]})
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	if spec.ArtifactInputs, err = artifactInputs(o, id.job, step.Artifacts, status, expression.Scope{Inputs: scope.Inputs}); err != nil {
		return nil, err
	}
	return &corev1alpha1.Run{ObjectMeta: childMeta(o.run, id), Spec: spec}, nil
}

// script returns the step that a Run executes, and what its texts see: a step of the job, or one of the Action that a step
// of the job calls.
func (o *observation) script(job *workflowsv1alpha1.Job, status *workflowsv1alpha1.WorkflowRunStatus, id identity) (*workflowsv1alpha1.Step, expression.Scope, error) {
	step, scope := stepOf(job, id.step), jobScope(job, status, id.job)
	if id.actionStep == "" {
		return step, scope, nil
	}
	action, err := o.actionOf(step)
	if err != nil {
		return nil, scope, err
	}
	inputs, err := actionInputs(step, action, scope)
	if err != nil {
		return nil, scope, err
	}
	steps := status.Jobs[id.job].Steps
	called := steps[slices.IndexFunc(steps, func(s workflowsv1alpha1.StepStatus) bool { return s.Name == id.step })]
	at := slices.IndexFunc(action.Steps, func(s workflowsv1alpha1.Step) bool { return s.Name == id.actionStep })
	if at < 0 {
		return nil, scope, fmt.Errorf("the frozen Action %q has no step %s: somebody has changed it", step.Uses, id.actionStep)
	}
	return &action.Steps[at], expression.Scope{Inputs: inputs, Steps: actionStepOutputs(called.ActionSteps)}, nil
}

// childMeta is the metadata of a child, but for its name.
func childMeta(owner *workflowsv1alpha1.WorkflowRun, id identity) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: owner.Namespace,
		Labels:    childLabels(owner, id),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(owner, workflowsv1alpha1.GroupVersion.WithKind("WorkflowRun")),
		},
	}
}

// childLabels identify a child. That of a whole job has no step.
func childLabels(owner *workflowsv1alpha1.WorkflowRun, id identity) map[string]string {
	labels := ownerLabels(owner)
	labels[workflowsv1alpha1.LabelJob] = id.job
	if id.step != "" {
		labels[workflowsv1alpha1.LabelStep] = id.step
	}
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
