package workflows

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// afterCancel is when a WorkflowRun goes on beside Runs that it has asked to end, which may take long.
const afterCancel = 20 * time.Millisecond

// decision is the desired status, and the one action that leads there.
type decision struct {
	// status is what the WorkflowRun's status shall be, as far as no action has to succeed for it.
	status workflowsv1alpha1.WorkflowRunStatus
	// Exactly one kind of action is set, or none.
	// snapshot asks for what a WorkflowRun that has just been accepted begins with: its snapshot, and what provision holds.
	snapshot bool
	// provision are the workspaces to create, at most one per job, in the order of their jobs.
	provision []workspaceTarget
	// start are the children to create, at most one per job, in the order of their jobs.
	start []target
	// cancel are the children whose end is to be asked for.
	cancel []client.Object
	// remove are the workspaces to delete: those of ended jobs, and those that no job uses.
	remove []*workspacesv1alpha1.PersistentWorkspace
	// expire asks for the deletion of the WorkflowRun, whose time to live is over.
	expire bool
	// recheck is when to look again although nothing changes. 0: never.
	recheck time.Duration

	// left is by how much the status may still grow.
	left *budget
}

// target is a child to create: the Run of a step, or the WorkflowRun of a call.
type target struct {
	id identity
	// run is complete but for its name.
	run *corev1alpha1.Run
	// call is set in place of run where a job calls a Workflow.
	call *call
}

// calculate decides, from what was observed and from nothing else. It changes nothing of the observation.
//
//	empty ──Initialize──▶ Pending ──StartRunnableSteps──▶ Running ──▶ Succeeded | Failed
//	                         └──────────────Cancel──────────┴───────▶ Cancelled
func calculate(o observation) decision {
	d := decision{status: *o.run.Status.DeepCopy()}
	switch {
	case d.status.Phase.IsTerminal():
		expire(o, &d)
		if !d.expire { // Else the owner references see to it.
			d.remove = o.removable()
		}
		return d
	case !isInitialized(&d.status):
		initialize(o, &d)
		return d
	}
	d.status.ObservedGeneration = o.run.Generation
	d.left = newBudget(o.run)
	project(o, &d.status, d.left)
	if o.endsEarly() {
		cancel(o, &d)
		return d
	}
	if d.cancel = uncancelled(slices.Concat(o.unwanted(), bereft(o, &d.status))); len(d.cancel) > 0 {
		d.recheck = afterCancel
		return d
	}
	var p plan
	for p.refused = true; p.refused; {
		settle(o, &d.status)
		p = makePlan(o, &d.status)
	}
	finish(o, &d.status, d.left)
	d.act(&p, o.removable())
	return d
}

// act chooses what is done: workspaces come before the Runs that need them, and are deleted when nothing else is to do.
func (d *decision) act(p *plan, unused []*workspacesv1alpha1.PersistentWorkspace) {
	d.recheck = p.recheck
	switch {
	case len(p.provision) > 0:
		d.provision = p.provision
	case len(p.start) > 0:
		d.start = p.start
	default:
		d.remove = unused
	}
}

// finish ends the WorkflowRun when all its jobs have settled.
func finish(o observation, status *workflowsv1alpha1.WorkflowRunStatus, left *budget) {
	var failed []string
	for _, name := range sortedKeys(status.Jobs) {
		switch phase := status.Jobs[name].Phase; {
		case !phase.IsTerminal():
			return
		case phase == workflowsv1alpha1.JobFailed:
			failed = append(failed, name)
		}
	}
	if len(failed) > 0 {
		first := failed[0]
		message := fmt.Sprintf("job %s failed", first)
		if detail := status.Jobs[first].Message; detail != "" {
			message += ": " + detail
		}
		if len(failed) > 1 {
			message = fmt.Sprintf("%d jobs failed; %s", len(failed), message)
		}
		end(o, status, workflowsv1alpha1.WorkflowFailed, workflowsv1alpha1.ReasonJobsFailed, message)
		return
	}
	outputs, err := workflowOutputs(o.run, status)
	if err == nil {
		err = left.take(outputs)
	}
	if err != nil {
		end(o, status, workflowsv1alpha1.WorkflowFailed, workflowsv1alpha1.ReasonOutputsFailed, err.Error())
		return
	}
	status.Outputs = outputs
	end(o, status, workflowsv1alpha1.WorkflowSucceeded, workflowsv1alpha1.ReasonJobsSucceeded, "")
}

// end makes the WorkflowRun terminal. It ends no earlier than what is inside: the time of the decision may have been taken
// before its children were read, and their times come from other clocks.
func end(o observation, status *workflowsv1alpha1.WorkflowRunStatus, phase workflowsv1alpha1.WorkflowPhase, reason, message string) {
	status.Phase = phase
	status.Message = bounded(message)
	status.CompletionTime = micro(o.now)
	for _, js := range status.Jobs {
		status.CompletionTime = later(status.CompletionTime, js.CompletionTime)
		for i := range js.Steps {
			status.CompletionTime = later(status.CompletionTime, js.Steps[i].CompletionTime)
		}
	}
	truth := metav1.ConditionFalse
	if phase == workflowsv1alpha1.WorkflowSucceeded {
		truth = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, condition(o, workflowsv1alpha1.WorkflowRunConditionSucceeded, truth, reason, message))
}
