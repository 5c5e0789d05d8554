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
		step := nextStep(&js)
		if step.RunName != "" {
			continue // It is under way.
		}
		if js.Phase == workflowsv1alpha1.JobPending && lacksArtifacts(o, name, &js, status) {
			status.Jobs[name], p.refused = js, true
			continue
		}
		switch standing := o.standing(name, &js); standing {
		case standsBereft:
			fail(o, &js, "step "+step.Name+" cannot be executed: "+o.loss(name))
			p.refused = true
		case standsBefore:
			if !p.holds(o, identity{job: name}, &js, "its workspace") {
				p.provision = append(p.provision, newWorkspace(o, name))
			}
		default:
			if !p.holds(o, identity{job: name, step: step.Name}, &js, "step "+step.Name) {
				p.add(o, status, name, &js)
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
func (p *plan) add(o observation, status *workflowsv1alpha1.WorkflowRunStatus, name string, js *workflowsv1alpha1.JobStatus) {
	step := nextStep(js)
	id := identity{job: name, step: step.Name}
	run, err := childRun(o.run, status, id)
	if err != nil {
		step.Message = statuspatch.Bounded(err.Error(), maxStepMessage)
		fail(o, js, "step "+step.Name+": "+err.Error())
		p.refused = true
		return
	}
	if o.standing(name, js) == standsIn {
		run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: o.workspaces[name].Name}
	}
	p.start = append(p.start, target{id: id, run: run})
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
	var err error
	if spec.ArtifactInputs, err = artifactInputs(step.Artifacts, status); err != nil {
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
