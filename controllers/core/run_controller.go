package core

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// RunReconciler ends or hands back Runs that nobody else can, and deletes finished Runs after their time to live. It writes the
// status of a Run only while the Run has no Pod or after its Pod is gone: in between, runtimed of that Pod does.
type RunReconciler struct {
	// Client reads from the cache that CacheByObject describes, and writes.
	Client client.Client
	// Live reads from the API server. A Pod is asked for there before a Run is ended for its loss.
	Live client.Reader
	// Clock tells the time of completion and of expiry.
	Clock clock.PassiveClock

	ends podEnds
}

// SetupWithManager registers the controller.
func (r *RunReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("run-lifecycle").
		For(&corev1alpha1.Run{}, builder.WithPredicates(runChanges())).
		Watches(&corev1.Pod{}, r.podEvents(), builder.WithPredicates(podEndings())).
		WatchesMetadata(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.runsOfNode), builder.WithPredicates(deletions())).
		Complete(r)
}

// runChanges lets the few changes of a Run through after which this controller may have something to do.
func runChanges() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return concerns(e.Object) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1alpha1.Run)
			after, ok2 := e.ObjectNew.(*corev1alpha1.Run)
			if !ok1 || !ok2 || !concerns(after) {
				return false
			}
			// A new phase of a Run that stays on its Pod changes nothing here.
			return before.Generation != after.Generation || !after.Status.Phase.IsActive() ||
				before.Status.AssignedPodUID != after.Status.AssignedPodUID
		},
	}
}

// concerns tells whether a Run is in a state in which this controller may have to act.
func concerns(o client.Object) bool {
	run, ok := o.(*corev1alpha1.Run)
	if !ok {
		return false
	}
	switch phase := run.Status.Phase; {
	case phase.IsTerminal():
		return run.Spec.TTLSecondsAfterFinished != nil && run.DeletionTimestamp.IsZero()
	case phase.IsActive():
		return true
	default:
		return endAsked(run) != ""
	}
}

// podEndings lets through what may mean that a Pod executes nothing any more.
func podEndings() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true }, // A successor under the same name.
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1.Pod)
			after, ok2 := e.ObjectNew.(*corev1.Pod)
			return ok1 && ok2 && (before.UID != after.UID || before.Status.Phase != after.Status.Phase ||
				!before.DeletionTimestamp.Equal(after.DeletionTimestamp) || hasDrained(before) != hasDrained(after))
		},
	}
}

// podEvents notes how Pods end, and has the Runs that are assigned to them looked at.
func (r *RunReconciler) podEvents() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	note := func(o client.Object, tell func(*corev1.Pod, clock.PassiveClock)) {
		if pod, ok := o.(*corev1.Pod); ok {
			tell(pod, r.Clock)
		}
	}
	runs := handler.EnqueueRequestsFromMapFunc(r.runsOfPod)
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			note(e.Object, r.ends.note)
			runs.Create(ctx, e, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				note(e.ObjectOld, r.ends.gone)
			}
			note(e.ObjectNew, r.ends.note)
			runs.Update(ctx, e, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			note(e.Object, r.ends.gone)
			runs.Delete(ctx, e, q)
		},
	}
}

// runsOfPod finds the active Runs that are assigned to a Pod of this name, through the index.
// A Pod's end comes once: an error cannot be waited out here, and nothing but an index that nobody registered, or the end
// of ctx, makes one.
func (r *RunReconciler) runsOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	var runs corev1alpha1.RunList
	err := r.Client.List(ctx, &runs, client.InNamespace(pod.GetNamespace()), client.MatchingFields{indexRunPod: pod.GetName()},
		client.UnsafeDisableDeepCopy)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		panic(fmt.Sprintf("listing the Runs of Pod %s: %v", pod.GetName(), err)) // a bug, seen by every test of the controller
	}
	requests := make([]reconcile.Request, 0, len(runs.Items))
	for i := range runs.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&runs.Items[i])})
	}
	return requests
}

// Reconcile looks at one Run: what is due is done, what is due later is looked at again then.
func (r *RunReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	run := &corev1alpha1.Run{}
	if err := r.Client.Get(ctx, request.NamespacedName, run); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !concerns(run) {
		return reconcile.Result{}, nil
	}
	pod, err := r.podOf(ctx, run)
	if err != nil {
		return reconcile.Result{}, err
	}
	var end podEnd
	if pod == nil && run.Status.Phase.IsActive() {
		end = r.ends.of(types.UID(run.Status.AssignedPodUID), r.Clock)
	}
	if pod != nil {
		there, err := r.hasNode(ctx, pod)
		if err != nil {
			return reconcile.Result{}, err
		}
		if !there {
			pod = nil
		}
	}
	v := judge(run, pod, end, r.Clock.Now())
	switch v.action {
	case actionEnd:
		err = r.end(ctx, run, v)
	case actionHandBack:
		err = r.handBack(ctx, run, v)
	case actionDelete:
		err = r.delete(ctx, run)
	case actionNone:
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{RequeueAfter: v.recheck}, client.IgnoreNotFound(err)
}

// podOf returns the Pod that an active Run is assigned to, or nil when it is gone. The cache may lag behind: before it
// is believed that a Pod is gone, the API server is asked.
func (r *RunReconciler) podOf(ctx context.Context, run *corev1alpha1.Run) (*corev1.Pod, error) {
	if !run.Status.Phase.IsActive() {
		return nil, nil
	}
	key := types.NamespacedName{Namespace: run.Namespace, Name: run.Status.AssignedPod}
	for _, reader := range []client.Reader{r.Client, r.Live} {
		pod := &corev1.Pod{}
		err := reader.Get(ctx, key, pod)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Pod %s: %w", key.Name, err)
		}
		if err != nil {
			continue
		}
		if isHere(run, pod, r.Clock.Now()) {
			return pod, nil
		}
		if reader == r.Live && string(pod.UID) == run.Status.AssignedPodUID {
			r.ends.gone(pod, r.Clock) // It has ended, and nothing more is to be heard of it.
			continue
		}
		r.ends.note(pod, r.Clock)
	}
	return nil, nil
}

// end writes a terminal phase.
func (r *RunReconciler) end(ctx context.Context, run *corev1alpha1.Run, v verdict) error {
	after := run.DeepCopy()
	finish(&after.Status, run.Generation, v, r.Clock.Now())
	if err := r.patch(ctx, run, after); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Ended Run", "phase", v.phase, "reason", v.reason, "pod", run.Status.AssignedPod)
	return nil
}

// handBack gives the Run back to the scheduler for its next attempt.
func (r *RunReconciler) handBack(ctx context.Context, run *corev1alpha1.Run, v verdict) error {
	end := corev1alpha1.AttemptEnd{Reason: v.reason, Message: v.message, Time: r.Clock.Now()}
	after, ok := run.HandedBack(end)
	if v.unstarted {
		after, ok = run.HandedBackUnstarted(end)
	}
	if !ok {
		return nil // never: the verdict rests on the same rule
	}
	if err := r.patch(ctx, run, after); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Handed Run back", "reason", v.reason, "pod", run.Status.AssignedPod,
		"nextAttempt", after.Status.Attempt)
	return nil
}

// patch stores the status of after over that of run.
func (r *RunReconciler) patch(ctx context.Context, run, after *corev1alpha1.Run) error {
	patch, err := statuspatch.ForRun(corev1alpha1.WriterLifecycle, run, after)
	if err != nil {
		return fmt.Errorf("building the patch: %w", err)
	}
	if err := r.Client.Status().Patch(ctx, after, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}
	return nil
}

// delete deletes exactly the Run that was looked at: not a successor, and not one whose time to live was changed since.
func (r *RunReconciler) delete(ctx context.Context, run *corev1alpha1.Run) error {
	err := r.Client.Delete(ctx, run, client.Preconditions{UID: &run.UID, ResourceVersion: &run.ResourceVersion},
		client.PropagationPolicy("Background"))
	if err != nil {
		return fmt.Errorf("deleting the expired Run: %w", err)
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Deleted expired Run")
	return nil
}
