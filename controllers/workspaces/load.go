package workspaces

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// load reads all that a decision about a workspace rests on. It returns no observation when the workspace is gone.
func (r *PersistentWorkspaceReconciler) load(ctx context.Context, key types.NamespacedName) (*observation, error) {
	w := &workspacesv1alpha1.PersistentWorkspace{}
	if err := r.Client.Get(ctx, key, w, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		r.uses.forget(key)
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the PersistentWorkspace: %w", err)
	}
	o := &observation{workspace: w, now: r.Clock.Now()}
	isLost := w.Status.Phase == workspacesv1alpha1.WorkspaceLost
	switch {
	case w.Status.BoundPod == "":
		if isDeleting(w) {
			return o, nil
		}
		return o, r.loadCandidates(ctx, o)
	case !isLost:
		if err := r.loadPod(ctx, o); err != nil {
			return nil, err
		}
	}
	if w.IsReleased() && !isDeleting(w) {
		return o, nil
	}
	return o, r.loadUse(ctx, o)
}

// loadCandidates finds the Runtime of an unbound workspace and its ready Pods whose Node is there.
func (r *PersistentWorkspaceReconciler) loadCandidates(ctx context.Context, o *observation) error {
	w := o.workspace
	runtime := &corev1alpha1.Runtime{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Spec.Runtime}, runtime, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Runtime %s: %w", w.Spec.Runtime, err)
	}
	o.runtime = runtime
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(w.Namespace), client.MatchingFields{indexRuntimePod: w.Spec.Runtime},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the Pods of Runtime %s: %w", w.Spec.Runtime, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !isCandidate(pod) {
			continue
		}
		there, err := hasNode(ctx, r.Client, pod) // The cache may lag behind; it tells when a Node has come.
		if err != nil {
			return err
		}
		if there {
			o.candidates = append(o.candidates, pod)
		}
	}
	return nil
}

// loadPod finds what has the name of the bound Pod. The cache may lag behind, and holds only Pods that carry our labels:
// that a Pod is gone is believed of the API server alone.
func (r *PersistentWorkspaceReconciler) loadPod(ctx context.Context, o *observation) error {
	key := types.NamespacedName{Namespace: o.workspace.Namespace, Name: o.workspace.Status.BoundPod}
	for _, reader := range []client.Reader{r.Client, r.Live} {
		pod := &corev1.Pod{}
		err := reader.Get(ctx, key, pod)
		switch {
		case apierrors.IsNotFound(err):
			o.pod = nil
			continue
		case err != nil:
			return fmt.Errorf("reading Pod %s: %w", key.Name, err)
		}
		if o.pod = pod; holds(pod, o.workspace) {
			o.unwatched = reader == r.Live
			return nil
		}
	}
	return nil
}

// loadUse finds out whether Runs use the workspace and, if not, when the last of them ended.
func (r *PersistentWorkspaceReconciler) loadUse(ctx context.Context, o *observation) error {
	w := o.workspace
	var active, ended corev1alpha1.RunList
	if err := r.Client.List(ctx, &active, client.InNamespace(w.Namespace), client.MatchingFields{indexUse: activeUse(w.Name)},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the active Runs of the workspace: %w", err)
	}
	o.active = slices.ContainsFunc(active.Items, func(run corev1alpha1.Run) bool {
		return !isDeleting(w) || run.IsAssignedTo(w.Status.BoundPod, w.Status.BoundPodUID)
	})
	if o.active {
		return nil
	}
	if err := r.Client.List(ctx, &ended, client.InNamespace(w.Namespace), client.MatchingFields{indexUse: endedUse(w.Name)},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the finished Runs of the workspace: %w", err)
	}
	o.lastUse = latest(r.uses.last(client.ObjectKeyFromObject(w)), lastEnd(ended.Items))
	return nil
}

// lastEnd is when the last of some finished Runs ended; zero when there is none.
func lastEnd(runs []corev1alpha1.Run) time.Time {
	var last time.Time
	for i := range runs {
		last = latest(last, endOf(&runs[i]))
	}
	return last
}

// endOf is when a finished Run ended.
func endOf(run *corev1alpha1.Run) time.Time {
	if run.Status.CompletionTime == nil {
		return run.CreationTimestamp.Time
	}
	return run.Status.CompletionTime.Time
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
