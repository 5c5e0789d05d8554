package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/workflow/expression"
)

// JobWorkspaces says which jobs get a workspace of their own, and what it is like. Calls of Workflows get none: the child
// WorkflowRun makes those of its jobs.
type JobWorkspaces struct {
	// OnlySeveralRuns leaves out jobs of one Run, which have nobody to share files with.
	OnlySeveralRuns bool
	// Spec is that of every workspace, save its Runtime, which is the job's.
	Spec workspacesv1alpha1.PersistentWorkspaceSpec
}

// wants tells whether a job gets a workspace.
func (w *JobWorkspaces) wants(job *workflowsv1alpha1.Job) bool {
	if w == nil || job.Uses != "" {
		return false
	}
	return !w.OnlySeveralRuns || len(job.Steps) > 1 || slices.ContainsFunc(job.Steps, callsAction)
}

// standing is how a job stands to its workspace.
type standing int

const (
	// standsAlone: it has none and gets none.
	standsAlone standing = iota
	// standsBefore: it gets one, which has to be made before its first Run.
	standsBefore
	// standsIn: it has one.
	standsIn
	// standsBereft: its Runs were executed in one that cannot be used any more.
	standsBereft
)

// workspaceTarget is a workspace to create.
type workspaceTarget struct {
	job string
	// workspace is complete but for its name.
	workspace *workspacesv1alpha1.PersistentWorkspace
	// replaced is the workspace that can be used no more and that this one is made for; empty when it is the first.
	replaced types.UID
}

// identity is that of the workspace of a job. It names no step, as that of no Run does.
func (t workspaceTarget) identity() identity { return identity{job: t.job} }

// standing looks at the Runs of a job and at its workspace. A job that has a Run goes on as that Run began: what its
// earlier steps wrote is nowhere else. One without any takes a workspace that is as it should be, or a new one.
func (o *observation) standing(name string, js *workflowsv1alpha1.JobStatus) standing {
	if o.jobWorkspaces == nil {
		return standsAlone
	}
	job, workspace := o.run.Spec.Jobs[name], o.workspaces[name]
	used, hasRun := o.uses[name]
	if !hasRun && !hasRuns(js) {
		switch {
		case workspace != nil && o.isFit(workspace):
			return standsIn
		case o.jobWorkspaces.wants(&job) && runtimeOf(&job) != "":
			return standsBefore
		default:
			return standsAlone
		}
	}
	switch {
	case hasRun && used == "":
		return standsAlone
	case workspace != nil && o.isOurs(workspace):
		return standsIn
	case workspace == nil && !hasRun && !o.jobWorkspaces.wants(&job):
		return standsAlone // Its earlier Runs have been deleted since, and with this configuration they had none.
	default:
		return standsBereft
	}
}

// loss says why a job cannot go on whose workspace cannot be used any more.
func (o *observation) loss(job string) string {
	why, spec := "was lost, because its Pod is gone", o.run.Spec.Jobs[job]
	if runtime := runtimeOf(&spec); o.deletedRuntimes.Has(runtime) {
		why = fmt.Sprintf("was lost, because its Runtime %q was deleted", runtime)
	}
	switch w := o.workspaces[job]; {
	case w == nil || w.IsReleased() && w.Status.Phase != workspacesv1alpha1.WorkspaceLost:
		why = "was deleted while the job ran"
	case !isSpent(w) && !metav1.IsControlledBy(w, o.run):
		why = "was taken from the WorkflowRun while the job ran"
	}
	return workflowsv1alpha1.WordWorkspaceLost + ": the workspace of the job " + why + ": the files of its steps are gone"
}

// mayHaveLost tells whether loss may be asked for a job: it stands without its workspace, or a Run of it ended badly.
func (o *observation) mayHaveLost(job string, js *workflowsv1alpha1.JobStatus) bool {
	for l := range leavesOf(job, js) {
		child := o.children[l.id]
		if child != nil && child.Spec.Workspace != nil && child.Status.Phase.IsTerminal() && child.Status.Phase != corev1alpha1.RunSucceeded {
			return true
		}
	}
	return o.standing(job, js) == standsBereft
}

// waitsForWorkspace is what is said of a job, and of its step, whose Run cannot be placed because of the workspace.
const waitsForWorkspace = "waiting for local workspace capacity"

// isAboutWorkspace tells whether a Run waits because of its workspace.
func isAboutWorkspace(reason string) bool {
	return slices.Contains([]string{
		corev1alpha1.ReasonWorkspaceNotFound, corev1alpha1.ReasonWorkspacePending, corev1alpha1.ReasonWorkspaceReleased,
		corev1alpha1.ReasonWorkspaceLost, corev1alpha1.ReasonWorkspaceMismatch, corev1alpha1.ReasonWorkspacePodUnavailable,
	}, reason)
}

// waits says what a running job waits for, where that is its workspace. That the one Pod which holds it is busy is told with
// whatever else is stored; it is not worth a write of its own.
func (o *observation) waits(name string, js *workflowsv1alpha1.JobStatus) string {
	if !o.endsEarly() && o.standing(name, js) == standsBereft {
		return o.loss(name)
	}
	next, _ := nextLeaf(name, js)
	child := o.children[next.id]
	if child == nil || child.Spec.Workspace == nil || child.Status.Phase.OrPending() != corev1alpha1.RunPending {
		return ""
	}
	scheduled := meta.FindStatusCondition(child.Status.Conditions, corev1alpha1.RunConditionScheduled)
	isWaiting := scheduled != nil && scheduled.Status == metav1.ConditionFalse
	if isWaiting && (isAboutWorkspace(scheduled.Reason) || scheduled.Reason == corev1alpha1.ReasonInsufficientCapacity) {
		return waitsForWorkspace
	}
	return ""
}

// blame says that a step ended because the workspace of its job was lost, in front of how it ended. One that ended by
// itself beforehand did not. The word of the Pod's end may arrive before that of the workspace's.
func (o *observation) blame(name string, js *workflowsv1alpha1.JobStatus) string {
	ended, _ := nextLeaf(name, js)
	child := o.children[ended.id]
	if child == nil || child.Spec.Workspace == nil || o.endsEarly() {
		return ""
	}
	isLost := o.standing(name, js) == standsBereft
	switch child.Status.Reason {
	case corev1alpha1.RunReasonRuntimePodLost:
		isLost = true
	case corev1alpha1.RunReasonCancelled, corev1alpha1.RunReasonPodTerminated, corev1alpha1.RunReasonServerLost,
		corev1alpha1.RunReasonWorkspaceUnavailable:
	default:
		return ""
	}
	if !isLost {
		return ""
	}
	return o.loss(name) + "; "
}

// isSpent tells whether no Run can be executed in a workspace any more.
func isSpent(w *workspacesv1alpha1.PersistentWorkspace) bool {
	return w.IsReleased() || w.Status.Phase == workspacesv1alpha1.WorkspaceLost
}

// isOurs tells whether the Runs of a job can go on in a workspace. Admission lets none into one that somebody has taken from
// the WorkflowRun.
func (o *observation) isOurs(w *workspacesv1alpha1.PersistentWorkspace) bool {
	return !isSpent(w) && metav1.IsControlledBy(w, o.run)
}

// isFit tells whether the first Run of a job can begin in a workspace: nobody has changed to whom it belongs.
func (o *observation) isFit(w *workspacesv1alpha1.PersistentWorkspace) bool {
	job := o.run.Spec.Jobs[jobOf(w)]
	return o.isOurs(w) && w.Spec.Runtime == runtimeOf(&job)
}

// jobOf is the job that a workspace was made for.
func jobOf(w *workspacesv1alpha1.PersistentWorkspace) string {
	return w.Labels[workflowsv1alpha1.LabelJob]
}

// runtimeOf is the Runtime of a job; empty where it cannot be evaluated, which fails the job's first step.
func runtimeOf(job *workflowsv1alpha1.Job) string {
	r := renderer{left: maxChildBytes}
	return r.render("runs-on", job.RunsOn, maxName, expression.Scope{})
}

// usesOf tells in which workspace the Runs of each job are executed: none where the name is empty, and jobs without Runs
// are not in it.
func usesOf(children map[identity]*corev1alpha1.Run) map[string]string {
	uses := map[string]string{}
	for _, id := range sortedIdentities(children) {
		if _, isKnown := uses[id.job]; isKnown {
			continue
		}
		uses[id.job] = ""
		if ref := children[id].Spec.Workspace; ref != nil {
			uses[id.job] = ref.Name
		}
	}
	return uses
}

// assign gives each job that has not ended its workspace: the one in which its Runs are executed or, while it has none, one
// that is fit, else the youngest. The others of all are unused, and so are all at the end of the WorkflowRun.
func (o *observation) assign(all []*workspacesv1alpha1.PersistentWorkspace) {
	all = slices.SortedFunc(slices.Values(all), func(a, b *workspacesv1alpha1.PersistentWorkspace) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	if o.run.Status.Phase.IsTerminal() {
		o.unused = all
		return
	}
	o.workspaces = map[string]*workspacesv1alpha1.PersistentWorkspace{}
	for _, w := range all {
		job := jobOf(w)
		js, isJob := o.run.Status.Jobs[job]
		used, hasRun := o.uses[job]
		chosen := o.workspaces[job]
		switch {
		case !isJob, js.Phase.IsTerminal(), hasRun && used != w.Name:
			o.unused = append(o.unused, w)
		case chosen == nil:
			o.workspaces[job] = w
		case !o.isFit(chosen):
			o.workspaces[job] = w
			o.unused = append(o.unused, chosen)
		default:
			o.unused = append(o.unused, w)
		}
	}
}

// removable are the unused workspaces whose deletion nobody has asked for.
func (o *observation) removable() []*workspacesv1alpha1.PersistentWorkspace {
	isDeleting := func(w *workspacesv1alpha1.PersistentWorkspace) bool { return w.DeletionTimestamp != nil }
	return slices.DeleteFunc(slices.Clone(o.unused), isDeleting)
}

// bereft are the active Runs of jobs whose workspace cannot be used any more.
func bereft(o observation, status *workflowsv1alpha1.WorkflowRunStatus) []client.Object {
	var runs []client.Object
	for _, id := range sortedIdentities(o.children) {
		js, isJob := status.Jobs[id.job]
		if isJob && !js.Phase.IsTerminal() && isActive(o.children[id]) && o.standing(id.job, &js) == standsBereft {
			runs = append(runs, o.children[id])
		}
	}
	return runs
}

// newWorkspace makes the target for the workspace of a job.
func newWorkspace(o observation, name string) workspaceTarget {
	job := o.run.Spec.Jobs[name]
	spec := o.jobWorkspaces.Spec.DeepCopy()
	spec.Runtime = runtimeOf(&job)
	t := workspaceTarget{job: name, workspace: &workspacesv1alpha1.PersistentWorkspace{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.run.Namespace,
			Labels:    childLabels(o.run, identity{job: name}),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(o.run, workflowsv1alpha1.GroupVersion.WithKind("WorkflowRun")),
			},
			Finalizers: []string{workspacesv1alpha1.Finalizer},
		},
		Spec: *spec,
	}}
	if old := o.workspaces[name]; old != nil {
		t.replaced = old.UID
	}
	return t
}
