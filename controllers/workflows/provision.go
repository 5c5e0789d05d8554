package workflows

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// loadWorkspaces finds the workspaces of a WorkflowRun in the index or, where one is not in it that must be there, by asking
// the API server: the cache may lag behind, and a workspace that is gone fails its job.
func (r *WorkflowRunReconciler) loadWorkspaces(ctx context.Context, o *observation) error {
	if r.Workspaces == nil {
		return nil
	}
	o.uses = usesOf(o.children)
	var list workspacesv1alpha1.PersistentWorkspaceList
	err := r.Client.List(ctx, &list, client.InNamespace(o.run.Namespace), client.MatchingFields{indexOwner: string(o.run.UID)},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the workspaces of the WorkflowRun: %w", err)
	}
	if lacks := r.memory.lacks(o.run, namesOf(&list)) || o.lacks(namesOf(&list)); lacks && !o.endsEarly() {
		list = workspacesv1alpha1.PersistentWorkspaceList{}
		err := r.Live.List(ctx, &list, client.InNamespace(o.run.Namespace),
			client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(o.run.UID)})
		if err != nil {
			return fmt.Errorf("listing the workspaces of the WorkflowRun from the API server: %w", err)
		}
		r.memory.looked(o.run)
	}
	all := make([]*workspacesv1alpha1.PersistentWorkspace, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	o.assign(all)
	return r.loadDeletedRuntimes(ctx, o)
}

// loadDeletedRuntimes finds out whether jobs lost their workspace because their Runtime was deleted. It asks the API server, as
// the cache may hear of the Runtime after its Pods. That is rare: a job loses its workspace once.
func (r *WorkflowRunReconciler) loadDeletedRuntimes(ctx context.Context, o *observation) error {
	o.deletedRuntimes = sets.New[string]()
	for name, js := range o.run.Status.Jobs {
		if js.Phase.IsTerminal() || !o.mayHaveLost(name, &js) {
			continue
		}
		job, runtime := o.run.Spec.Jobs[name], &corev1alpha1.Runtime{}
		key := client.ObjectKey{Namespace: o.run.Namespace, Name: runtimeOf(&job)}
		err := r.Live.Get(ctx, key, runtime)
		switch {
		case apierrors.IsNotFound(err), err == nil && runtime.DeletionTimestamp != nil:
			o.deletedRuntimes.Insert(key.Name)
		case err != nil:
			return fmt.Errorf("reading Runtime %s: %w", key.Name, err)
		}
	}
	return nil
}

// lacks tells whether a job that has not ended uses a workspace that is not among the names.
func (o *observation) lacks(names sets.Set[string]) bool {
	for job, used := range o.uses {
		if used != "" && !names.Has(used) && !o.run.Status.Jobs[job].Phase.IsTerminal() {
			return true
		}
	}
	return false
}

func namesOf(list *workspacesv1alpha1.PersistentWorkspaceList) sets.Set[string] {
	names := sets.New[string]()
	for i := range list.Items {
		names.Insert(list.Items[i].Name)
	}
	return names
}

// provision creates the workspaces of jobs. One that is refused for good fails its job; one that is refused for now is held
// back, so that the next reconciliation goes on with the others.
//
// Under a quota, jobs that have to wait for others must not take what those need: theirs are created only when no other was
// held back, and else right before their first Run, as for all jobs later on.
func (r *WorkflowRunReconciler) provision(ctx context.Context, o *observation, d *decision) error {
	var first, later []workspaceTarget
	for _, t := range d.provision {
		if d.snapshot && len(o.run.Spec.Jobs[t.job].Needs) > 0 {
			later = append(later, t)
		} else {
			first = append(first, t)
		}
	}
	err := r.createWorkspaces(ctx, o, d, first)
	if err == nil {
		err = r.createWorkspaces(ctx, o, d, later)
	} else {
		for _, t := range later {
			r.memory.postpone(o.run, t.identity(), "those of jobs that it needs come first", o.now)
		}
	}
	settle(*o, &d.status)
	finish(*o, &d.status, d.left)
	return err
}

// createWorkspaces creates workspaces side by side. An error means that some are held back.
func (r *WorkflowRunReconciler) createWorkspaces(ctx context.Context, o *observation, d *decision, targets []workspaceTarget) error {
	names, errs := make([]string, len(targets)), make([]error, len(targets))
	workqueue.ParallelizeUntil(ctx, atOnce, len(targets), func(i int) {
		names[i], errs[i] = r.createWorkspace(ctx, o.run, targets[i])
	})
	var passing []error
	for i, t := range targets {
		switch err := errs[i]; {
		case names[i] != "":
			r.memory.provisioned(o.run, t.identity(), names[i])
		case err == nil: // ctx has ended before its turn.
			passing = append(passing, ctx.Err())
		case isFinal(err):
			refuseWorkspace(*o, &d.status, t.job, reasonOf(err))
		default:
			r.memory.postpone(o.run, t.identity(), reasonOf(err), o.now)
			passing = append(passing, fmt.Errorf("creating the workspace of job %s: %w", t.job, err))
		}
	}
	return errors.Join(passing...)
}

// refuseWorkspace fails the job of a workspace that the API server refuses for good.
func refuseWorkspace(o observation, status *workflowsv1alpha1.WorkflowRunStatus, job, why string) {
	js := status.Jobs[job]
	fail(o, &js, workflowsv1alpha1.WordWorkspaceRefused+": the workspace of the job cannot be created: "+why)
	status.Jobs[job] = js
}

// createWorkspace creates the workspace of a job and returns its name.
func (r *WorkflowRunReconciler) createWorkspace(ctx context.Context, owner *workflowsv1alpha1.WorkflowRun, t workspaceTarget) (string, error) {
	build := func(name string) client.Object {
		w := t.workspace.DeepCopy()
		w.Name = name
		return w
	}
	name, err := r.createUnderFreeName(ctx, workspaceNames(owner, t.job, t.replaced), build, func(holder client.Object) bool {
		w, ok := holder.(*workspacesv1alpha1.PersistentWorkspace)
		return ok && w.Labels[workflowsv1alpha1.LabelWorkflowRunUID] == string(owner.UID) && jobOf(w) == t.job &&
			metav1.IsControlledBy(w, owner) && w.Spec.Runtime == t.workspace.Spec.Runtime && !isSpent(w)
	})
	if err == nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Created PersistentWorkspace", "persistentWorkspace", name, "job", t.job)
	}
	return name, err
}

// remove asks for the deletion of workspaces. Their directories go with them, once no Run is executed there.
func (r *WorkflowRunReconciler) remove(ctx context.Context, workspaces []*workspacesv1alpha1.PersistentWorkspace) error {
	errs := make([]error, len(workspaces))
	workqueue.ParallelizeUntil(ctx, atOnce, len(workspaces), func(i int) {
		w := workspaces[i]
		target := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
		err := r.Client.Delete(ctx, target, client.Preconditions{UID: &w.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // It is gone, and what has its name now is another one.
		case err != nil:
			errs[i] = fmt.Errorf("deleting PersistentWorkspace %s: %w", w.Name, err)
		default:
			ctrl.LoggerFrom(ctx).V(1).Info("Deleted PersistentWorkspace", "persistentWorkspace", w.Name, "job", jobOf(w))
		}
	})
	return errors.Join(append(errs, ctx.Err())...)
}
