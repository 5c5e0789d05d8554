package workflows

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// start is when every simulated WorkflowRun begins.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world stands in for the API server: it holds one WorkflowRun and its Runs, and carries actions out as apply does.
type world struct {
	t        testing.TB
	run      *workflowsv1alpha1.WorkflowRun
	children map[identity]*corev1alpha1.Run
	// calls are its child WorkflowRuns, by job.
	calls map[string]*workflowsv1alpha1.WorkflowRun
	// actions are those that steps call.
	actions map[string]*workflowsv1alpha1.ActionSpec
	// deleted are the recorded children that somebody deleted by hand.
	deleted map[identity]bool
	held    map[identity]hold
	now     time.Time
	// created counts how often the Run of a step was created.
	created map[identity]int
	// refusals are the steps whose Run the API server refuses for good.
	refusals map[identity]string
	// leaves are the names of the artifacts that the Run of a step reports, whatever its end is.
	leaves map[identity][]string

	// jobWorkspaces is the configuration; nil for none.
	jobWorkspaces *JobWorkspaces
	// workspaces are there, by name; a deleted one is gone at once.
	workspaces map[string]*workspacesv1alpha1.PersistentWorkspace
	// refusedWorkspaces are the jobs whose workspace the API server refuses for good.
	refusedWorkspaces map[string]string
	uids              int
}

func newWorld(tb testing.TB, jobs map[string]workflowsv1alpha1.Job) *world {
	tb.Helper()
	return &world{
		t: tb, now: start, children: map[identity]*corev1alpha1.Run{}, calls: map[string]*workflowsv1alpha1.WorkflowRun{}, deleted: map[identity]bool{}, created: map[identity]int{},
		held: map[identity]hold{}, refusals: map[identity]string{},
		workspaces: map[string]*workspacesv1alpha1.PersistentWorkspace{}, refusedWorkspaces: map[string]string{},
		run: &workflowsv1alpha1.WorkflowRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "flow", UID: "0f8fad5b-d9cb-469f-a165-70867728950e", Generation: 1},
			Spec:       workflowsv1alpha1.WorkflowRunSpec{Jobs: jobs},
			Status:     workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowPending},
		},
	}
}

func (w *world) observe() observation {
	o := observation{
		run: w.run, now: w.now, held: w.held, children: map[identity]*corev1alpha1.Run{}, missing: map[identity]string{},
		calls: map[string]*workflowsv1alpha1.WorkflowRun{}, actions: w.actions,
	}
	for job, child := range w.calls {
		if !w.deleted[identity{job: job}] {
			o.calls[job] = child
		}
	}
	for id, child := range w.children {
		if !w.deleted[id] {
			o.children[id] = child
		}
	}
	for id, name := range recorded(&w.run.Status) {
		if w.deleted[id] {
			o.missing[id] = name
		}
	}
	o.jobWorkspaces = w.jobWorkspaces
	if o.jobWorkspaces != nil && isInitialized(&w.run.Status) {
		o.uses = usesOf(o.children)
		o.assign(slices.Collect(maps.Values(w.workspaces)))
	}
	return o
}

// reconcile takes one step, and reports whether the status changed or something was created or cancelled. With crash the
// controller dies after its action and before its status is stored.
func (w *world) reconcile(crash bool) bool {
	w.t.Helper()
	o := w.observe()
	d := calculate(o)
	kinds := 0
	for _, is := range []bool{d.snapshot || len(d.provision) > 0, len(d.start) > 0, len(d.cancel) > 0, len(d.remove) > 0, d.expire} {
		if is {
			kinds++
		}
	}
	if kinds > 1 {
		w.t.Fatalf("more than one action: %+v", d)
	}
	if d.snapshot {
		d.status.SnapshotName = snapshotNames(w.run)[0]
	}
	acted := w.furnish(o, &d)
	seen := map[string]bool{}
	for _, target := range d.start {
		if seen[target.id.job] {
			w.t.Fatalf("two targets for job %s", target.id.job)
		}
		seen[target.id.job] = true
		if why, ok := w.refusals[target.id]; ok {
			refuse(o, &d.status, target.id, workflowsv1alpha1.WordChildRefused+": "+why)
			continue
		}
		acted = true
		record(o, &d.status, target.id, w.create(target))
	}
	if len(d.start) > 0 {
		settle(o, &d.status)
		finish(o, &d.status, d.left)
	}
	for _, child := range d.cancel {
		acted = true
		switch child := child.(type) {
		case *corev1alpha1.Run:
			child.Spec.CancelRequested = true
		case *workflowsv1alpha1.WorkflowRun:
			child.Spec.CancelRequested = true
		}
	}
	if crash {
		return true
	}
	changed := !equality.Semantic.DeepEqual(w.run.Status, d.status)
	w.run = w.run.DeepCopy()
	w.run.Status = d.status
	return acted || changed
}

// furnish creates and deletes workspaces, as provision and remove do.
func (w *world) furnish(o observation, d *decision) (acted bool) {
	w.t.Helper()
	for _, target := range d.provision {
		if why, ok := w.refusedWorkspaces[target.job]; ok {
			refuseWorkspace(o, &d.status, target.job, why)
			continue
		}
		acted = true
		w.provide(target)
	}
	if len(d.provision) > 0 {
		settle(o, &d.status)
		finish(o, &d.status, d.left)
	}
	for _, gone := range d.remove {
		acted = true
		for id, child := range w.children {
			ref := child.Spec.Workspace
			isInUse := ref != nil && ref.Name == gone.Name && !child.Status.Phase.IsTerminal() && !w.deleted[id]
			if isInUse && !child.Spec.CancelRequested {
				w.t.Fatalf("workspace %s is deleted, and %v is executed in it", gone.Name, id)
			}
		}
		delete(w.workspaces, gone.Name)
	}
	return acted
}

// provide creates a workspace under the first name that is free, or that is held by the wanted one.
func (w *world) provide(target workspaceTarget) {
	w.t.Helper()
	for _, name := range workspaceNames(w.run, target.job, target.replaced) {
		holder := w.workspaces[name]
		switch {
		case holder == nil:
			w.uids++
			made := target.workspace.DeepCopy()
			made.Name, made.UID, made.CreationTimestamp = name, types.UID(fmt.Sprintf("workspace-%d", w.uids)), metav1.NewTime(w.now)
			made.Status.Phase = workspacesv1alpha1.WorkspacePending
			w.workspaces[name] = made
			return
		case jobOf(holder) == target.job && !isSpent(holder):
			return
		}
	}
	w.t.Fatalf("no name is free for the workspace of job %s", target.job)
}

// lose makes a workspace lost, as it is when its Pod is gone.
func (w *world) lose(name string) {
	w.t.Helper()
	lost := w.workspaces[name]
	if lost == nil {
		w.t.Fatalf("there is no workspace %s", name)
	}
	lost = lost.DeepCopy()
	lost.Status.Phase = workspacesv1alpha1.WorkspaceLost
	w.workspaces[name] = lost
}

// create makes a child, or finds that it is there already, and returns its name.
func (w *world) create(target target) string {
	name := childNames(w.run, target.id)[0]
	if w.children[target.id] != nil || w.calls[target.id.job] != nil {
		return name
	}
	w.created[target.id]++
	meta := childMeta(w.run, target.id)
	meta.Name, meta.UID, meta.CreationTimestamp = name, types.UID(name), metav1.NewTime(w.now)
	if target.call != nil {
		w.calls[target.id.job] = &workflowsv1alpha1.WorkflowRun{
			ObjectMeta: meta, Status: workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowPending}}
		return name
	}
	child := target.run.DeepCopy()
	child.ObjectMeta, child.Status.Phase = meta, corev1alpha1.RunPending
	w.children[target.id] = child
	return name
}

// pathOf names a child in the addresses of its artifacts.
func pathOf(id identity) string { return path.Join(id.job, id.step, id.actionStep) }

// endCall finishes the child of a call.
func (w *world) endCall(job string, phase workflowsv1alpha1.WorkflowPhase, change func(*workflowsv1alpha1.WorkflowRun)) {
	w.t.Helper()
	child := w.calls[job]
	if child == nil {
		w.t.Fatalf("there is no WorkflowRun for job %s", job)
	}
	child = child.DeepCopy()
	w.now = w.now.Add(time.Second)
	child.Status.Phase, child.Status.CompletionTime = phase, micro(w.now)
	artifacts := map[string]corev1alpha1.ArtifactRef{}
	for _, made := range refs(pathOf(identity{job: job}), w.leaves[identity{job: job}]...) {
		artifacts[made.Name] = made
	}
	child.Status.Jobs = map[string]workflowsv1alpha1.JobStatus{"j": {Artifacts: artifacts}}
	if change != nil {
		change(child)
	}
	w.calls[job] = child
}

// quiet reconciles until nothing changes.
func (w *world) quiet() {
	w.t.Helper()
	for range 10_000 {
		if !w.reconcile(false) {
			return
		}
	}
	w.t.Fatal("the controller never comes to rest")
}

// end finishes the Run of a step.
func (w *world) end(job, step string, phase corev1alpha1.RunPhase, outputs map[string]corev1alpha1.OutputValue) {
	w.t.Helper()
	w.endLeaf(identity{job: job, step: step}, phase, outputs)
}

// endLeaf does the same for a step, or a step of an Action.
func (w *world) endLeaf(id identity, phase corev1alpha1.RunPhase, outputs map[string]corev1alpha1.OutputValue) {
	w.t.Helper()
	child := w.children[id]
	if child == nil {
		w.t.Fatalf("there is no Run for %+v", id)
	}
	child = child.DeepCopy()
	w.now = w.now.Add(time.Second)
	child.Status.Phase, child.Status.Outputs, child.Status.Artifacts = phase, outputs, refs(pathOf(id), w.leaves[id]...)
	child.Status.StartTime, child.Status.CompletionTime = micro(w.now.Add(-time.Second)), micro(w.now)
	switch phase {
	case corev1alpha1.RunFailed:
		child.Status.Reason, child.Status.ExitCode = corev1alpha1.RunReasonScriptFailed, ptr.To[int32](3)
	case corev1alpha1.RunTimeout:
		child.Status.Reason = corev1alpha1.RunReasonTimeout
	case corev1alpha1.RunCancelled:
		child.Status.Reason = corev1alpha1.RunReasonCancelled
	}
	w.children[id] = child
}

// active lists the children that have not ended, in order.
func (w *world) active() []identity {
	all := map[identity]client.Object{}
	for id, child := range w.children {
		all[id] = child
	}
	for job, child := range w.calls {
		all[identity{job: job}] = child
	}
	return slices.DeleteFunc(sortedIdentities(all), func(id identity) bool { return w.deleted[id] || !isActive(all[id]) })
}

// phases summarises the WorkflowRun and its jobs.
func (w *world) phases() map[string]string {
	phases := map[string]string{"": string(w.run.Status.Phase)}
	for name, js := range w.run.Status.Jobs {
		phases[name] = string(js.Phase)
	}
	return phases
}

// steps makes steps that run "true".
func steps(names ...string) []workflowsv1alpha1.Step {
	var out []workflowsv1alpha1.Step
	for _, name := range names {
		out = append(out, workflowsv1alpha1.Step{Name: name, Run: "true"})
	}
	return out
}
