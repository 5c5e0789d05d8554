package scheduler

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/cache"
)

// unfinishedSelector leaves finished Runs at the API server: they use no memory here.
func unfinishedSelector() fields.Selector { return phasesExcept(corev1alpha1.RunPhase.IsTerminal) }

// activeSelector selects the Runs that have a Pod.
func activeSelector() fields.Selector {
	return phasesExcept(func(p corev1alpha1.RunPhase) bool { return !p.IsActive() })
}

func phasesExcept(excluded func(corev1alpha1.RunPhase) bool) fields.Selector {
	var terms []fields.Selector
	for _, phase := range corev1alpha1.RunPhases() {
		if excluded(phase) {
			terms = append(terms, fields.OneTermNotEqualSelector(corev1alpha1.FieldPhase, string(phase)))
		}
	}
	return fields.AndSelectors(terms...)
}

// newInformers makes the watches: unfinished Runs, Pods of Runtimes, Runtimes, Nodes and PersistentWorkspaces, each stripped to
// what is used. Workspaces are left out where their group is not enabled: an API server that does not know a kind makes this fail.
func newInformers(config *rest.Config, scheme *runtime.Scheme, workspaces bool) (ctrlcache.Cache, error) {
	watched := map[client.Object]ctrlcache.ByObject{
		&corev1alpha1.Run{}:     {Field: unfinishedSelector(), Transform: transform(stripRun)},
		&corev1.Pod{}:           {Label: corev1alpha1.RuntimePodSelector(), Transform: transform(stripPod)},
		&corev1alpha1.Runtime{}: {Transform: transform(stripRuntime)},
		&corev1.Node{}:          {Transform: transform(stripNode)},
	}
	if workspaces {
		watched[&workspacesv1alpha1.PersistentWorkspace{}] = ctrlcache.ByObject{Transform: transform(stripWorkspace)}
	}
	informers, err := ctrlcache.New(config, ctrlcache.Options{Scheme: scheme, ByObject: watched})
	if err != nil {
		return nil, fmt.Errorf("making the informers: %w", err)
	}
	return informers, nil
}

// feed hands everything that the informers see to the engine. Workspaces are watched only where their group is enabled. It
// returns who tells whether the engine has been shown all that was there at first.
func feed(
	ctx context.Context, informers ctrlcache.Cache, e *engine, workspaces bool,
) (shown []toolscache.InformerSynced, err error) {
	var errs []error
	note := func(synced toolscache.InformerSynced, err error) {
		shown, errs = append(shown, synced), append(errs, err)
	}
	if workspaces {
		note(handle(ctx, informers, &workspacesv1alpha1.PersistentWorkspace{},
			func(w *workspacesv1alpha1.PersistentWorkspace) { e.workspaceSeen(cache.WorkspaceOf(w)) },
			func(w *workspacesv1alpha1.PersistentWorkspace) {
				e.workspaceGone(types.NamespacedName{Namespace: w.Namespace, Name: w.Name})
			}))
	}
	note(handle(ctx, informers, &corev1alpha1.Run{}, e.runSeen, func(r *corev1alpha1.Run) { e.runGone(r.UID) }))
	note(handle(ctx, informers, &corev1.Pod{}, func(p *corev1.Pod) {
		if pod, ok := cache.PodOf(p); ok {
			e.podSeen(pod)
		}
	}, func(p *corev1.Pod) { e.podGone(p.UID) }))
	note(handle(ctx, informers, &corev1alpha1.Runtime{},
		func(r *corev1alpha1.Runtime) { e.runtimeSeen(cache.RuntimeOf(r)) },
		func(r *corev1alpha1.Runtime) {
			e.runtimeGone(types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
		}))
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	note(handle(ctx, informers, node, func(n *metav1.PartialObjectMetadata) { e.nodeSeen(n.Name) },
		func(n *metav1.PartialObjectMetadata) { e.nodeGone(n.Name) }))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return shown, nil
}

// handle calls seen for every version of an object, and gone when it is deleted or was replaced under its name. It returns
// who tells whether seen was called for every object that was there at first.
func handle[T client.Object](
	ctx context.Context, informers ctrlcache.Cache, kind T, seen, gone func(T),
) (toolscache.InformerSynced, error) {
	informer, err := informers.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if o, ok := obj.(T); ok {
				seen(o)
			}
		},
		UpdateFunc: func(before, after any) {
			old, okOld := before.(T)
			o, ok := after.(T)
			if !ok {
				return
			}
			if okOld && old.GetUID() != o.GetUID() {
				gone(old)
			}
			seen(o)
		},
		DeleteFunc: func(obj any) {
			if unseen, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = unseen.Obj
			}
			if o, ok := obj.(T); ok {
				gone(o)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("handling events of %T: %w", kind, err)
	}
	return registration.HasSynced, nil
}

func transform[T any](strip func(*T) *T) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if o, ok := obj.(*T); ok {
			return strip(o), nil
		}
		return obj, nil
	}
}

// stripMeta keeps the identity of an object.
func stripMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, Labels: m.Labels,
	}
}

// stripRun drops the script, the environment and everything else that placement does not depend on. What stays of the
// status includes every field that the scheduler writes, so that patches made from it are right.
func stripRun(run *corev1alpha1.Run) *corev1alpha1.Run {
	s := &run.Status
	return &corev1alpha1.Run{
		ObjectMeta: stripMeta(&run.ObjectMeta),
		Spec: corev1alpha1.RunSpec{
			Runtime: run.Spec.Runtime, Workspace: run.Spec.Workspace, Affinity: run.Spec.Affinity,
			Resources: run.Spec.Resources, CancelRequested: run.Spec.CancelRequested, RetryPolicy: run.Spec.RetryPolicy,
		},
		Status: corev1alpha1.RunStatus{
			Phase: s.Phase, ObservedGeneration: s.ObservedGeneration, AssignedPod: s.AssignedPod,
			AssignedPodUID: s.AssignedPodUID, Attempt: s.Attempt, NextAttemptTime: s.NextAttemptTime,
			ScheduledTime: s.ScheduledTime, Conditions: s.Conditions,
		},
	}
}

// stripPod keeps what tells whether a Pod is ready, and if not, why.
func stripPod(pod *corev1.Pod) *corev1.Pod {
	m := stripMeta(&pod.ObjectMeta)
	m.Labels = map[string]string{
		corev1alpha1.LabelRuntime:   pod.Labels[corev1alpha1.LabelRuntime],
		corev1alpha1.LabelManagedBy: pod.Labels[corev1alpha1.LabelManagedBy],
	}
	m.DeletionGracePeriodSeconds = pod.DeletionGracePeriodSeconds
	if name, ok := pod.Annotations[corev1alpha1.AnnotationRuntime]; ok {
		m.Annotations = map[string]string{corev1alpha1.AnnotationRuntime: name}
	}
	return &corev1.Pod{ObjectMeta: m, Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}, Status: corev1.PodStatus{
		Phase: pod.Status.Phase, Reason: pod.Status.Reason, Conditions: pod.Status.Conditions,
		InitContainerStatuses: stripStatuses(pod.Status.InitContainerStatuses),
		ContainerStatuses:     stripStatuses(pod.Status.ContainerStatuses),
	}}
}

func stripStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range statuses {
		if w := statuses[i].State.Waiting; w != nil {
			kept = append(kept, corev1.ContainerStatus{State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: w.Reason},
			}})
		}
	}
	return kept
}

// stripWorkspace keeps what tells where a workspace is, and whether it can be used.
func stripWorkspace(w *workspacesv1alpha1.PersistentWorkspace) *workspacesv1alpha1.PersistentWorkspace {
	return &workspacesv1alpha1.PersistentWorkspace{
		ObjectMeta: stripMeta(&w.ObjectMeta),
		Spec:       workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: w.Spec.Runtime},
		Status: workspacesv1alpha1.PersistentWorkspaceStatus{
			Phase: w.Status.Phase, BoundPod: w.Status.BoundPod, BoundPodUID: w.Status.BoundPodUID,
		},
	}
}

// stripNode keeps the name.
func stripNode(node *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	m := stripMeta(&node.ObjectMeta)
	m.Labels = nil
	return &metav1.PartialObjectMetadata{TypeMeta: node.TypeMeta, ObjectMeta: m}
}

// stripRuntime drops the Pod template.
func stripRuntime(runtime *corev1alpha1.Runtime) *corev1alpha1.Runtime {
	return &corev1alpha1.Runtime{
		ObjectMeta: stripMeta(&runtime.ObjectMeta),
		Spec:       corev1alpha1.RuntimeSpec{Replicas: runtime.Spec.Replicas, Capacity: runtime.Spec.Capacity},
		Status:     corev1alpha1.RuntimeStatus{Conditions: runtime.Status.Conditions},
	}
}
