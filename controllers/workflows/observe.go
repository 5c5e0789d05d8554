package workflows

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// observation is all that a decision rests on.
type observation struct {
	// run is the WorkflowRun as it is stored.
	run *workflowsv1alpha1.WorkflowRun
	// children are its Runs by identity: all that the index holds, and those of recorded steps that a live read found.
	children map[identity]*corev1alpha1.Run
	// calls are its child WorkflowRuns by job, found in the same way. One that has ended is whole, as it is stored.
	calls map[string]*workflowsv1alpha1.WorkflowRun
	// surplus and surplusCalls are further ones of an identity, which only a fault of the control plane can make.
	surplus      []*corev1alpha1.Run
	surplusCalls []*workflowsv1alpha1.WorkflowRun
	// actions are those that steps call, by name: as they were frozen or, before that, as they are now.
	actions map[string]*workflowsv1alpha1.ActionSpec
	// isAwaited tells that a WorkflowRun which has ended is the child of a call whose caller has not taken its end over.
	isAwaited bool
	// unresolved says what is wrong with those calls. It is of interest at initialisation only.
	unresolved field.ErrorList
	// missing are the names of created children that a live read did not find.
	missing map[identity]string
	// jobWorkspaces says which jobs get a workspace; nil: none.
	jobWorkspaces *JobWorkspaces
	// uses names the workspace of every job that has a Run, as the Run does; empty where it has none.
	uses map[string]string
	// workspaces are those of jobs that have not ended, by job.
	workspaces map[string]*workspacesv1alpha1.PersistentWorkspace
	// unused are its other workspaces: of jobs that have ended, replaced, or made twice by a fault of the control plane.
	unused []*workspacesv1alpha1.PersistentWorkspace
	// deletedRuntimes are those, among the Runtimes of jobs that may have lost their workspace, which are deleted.
	deletedRuntimes sets.Set[string]
	// held are the children and workspaces whose creation was refused for a passing reason, and is not due again yet.
	held map[identity]hold
	// now is the time of the decision.
	now time.Time
}

// endsEarly tells whether a WorkflowRun starts no more children: it is to be cancelled or deleted.
func (o *observation) endsEarly() bool {
	return o.run.Spec.CancelRequested || !o.run.DeletionTimestamp.IsZero()
}

// hold says until when the creation of a child waits, and why.
type hold struct {
	until  time.Time
	reason string
}

// recorded returns the children that the status names and whose end it does not hold yet, with their names: those of
// calls of Workflows have no step.
func recorded(status *workflowsv1alpha1.WorkflowRunStatus) map[identity]string {
	names := map[identity]string{}
	for job, js := range status.Jobs {
		if js.Phase.IsTerminal() {
			continue
		}
		if js.WorkflowRunName != "" {
			names[identity{job: job}] = js.WorkflowRunName
		}
		for l := range leavesOf(job, &js) {
			if *l.runName != "" && !l.phase.IsTerminal() {
				names[l.id] = *l.runName
			}
		}
	}
	return names
}

// hasEnded tells whether the end of a child is recorded, or that of its job.
func hasEnded(status *workflowsv1alpha1.WorkflowRunStatus, id identity) bool {
	js, isJob := status.Jobs[id.job]
	if id.isCall() {
		return !isJob || js.Phase.IsTerminal()
	}
	l, ok := leafOf(&js, id)
	return !ok || l.phase.IsTerminal() || js.Phase.IsTerminal()
}

// prefer chooses between two children of one identity: the one that the status names, else the older one.
func prefer[T client.Object](a, b T, recordedName string) (chosen, other T) {
	createdA, createdB := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	switch {
	case a.GetName() == recordedName:
		return a, b
	case b.GetName() == recordedName, createdB.Before(&createdA):
		return b, a
	case createdA.Equal(&createdB) && b.GetName() < a.GetName():
		return b, a
	default:
		return a, b
	}
}
