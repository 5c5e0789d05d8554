package core

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// A ReplicaSet that is scaled down deletes the Pods with the lowest corev1.PodDeletionCost first. Before the Runtime
// controller lowers the replicas of a Deployment it gives those Pods whose end costs least a lower one than all others
// have. Nothing is written at any other time, and nothing is taken back: the next scale-down goes below what is there.

// maxMarking is how many Pods are marked at a time.
const maxMarking = 16

// mark is the deletion cost that a Pod gets.
type mark struct {
	pod  types.NamespacedName
	uid  types.UID
	cost int32
}

// scalesDown tells whether the Deployment of a Runtime is about to lose some of its Pods, but not all.
func scalesDown(runtime *corev1alpha1.Runtime, seen *runtimeState) bool {
	desired := runtime.DesiredReplicas()
	return seen.deployment != nil && seen.deployment.Spec.Replicas != nil && 0 < desired && desired < *seen.deployment.Spec.Replicas
}

// podLoad is what keeps a Pod from being idle. The fewer of each, the less is lost with it.
type podLoad struct {
	// workspaces are bound to the Pod, and lost with it.
	workspaces int
	// runs are active on the Pod, which waits for them as long as it may.
	runs int
}

func (l podLoad) compare(other podLoad) int {
	return cmp.Or(cmp.Compare(l.workspaces, other.workspaces), cmp.Compare(l.runs, other.runs))
}

// calculateMarks chooses the Pods that a scale-down is to take: those with the least load, and of these the newest, as a
// ReplicaSet does. It returns what has to be written for that.
//
//  1. Pods that are going already, or have ended, do not count.
//  2. Pods that are not ready go first whatever they cost, so that only the ready ones beyond the replicas are chosen.
//  3. Where all ready Pods have the same load, it does not matter which of them go.
func calculateMarks(runtime *corev1alpha1.Runtime, seen *runtimeState) []mark {
	ready := readyPods(seen.pods)
	takes := len(ready) - int(runtime.DesiredReplicas())
	if takes <= 0 || takes == len(ready) {
		return nil
	}
	load := func(pod *corev1.Pod) podLoad { return seen.loadByPod[pod.Name] }
	slices.SortFunc(ready, func(a, b *corev1.Pod) int {
		return cmp.Or(load(a).compare(load(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if load(ready[0]) == load(ready[len(ready)-1]) {
		return nil
	}
	lowest := int32(math.MaxInt32)
	for _, stays := range ready[takes:] {
		lowest = min(lowest, deletionCost(stays))
	}
	cost := max(lowest, math.MinInt32+1) - 1
	var marks []mark
	for _, goes := range ready[:takes] {
		if deletionCost(goes) > cost {
			marks = append(marks, mark{pod: client.ObjectKeyFromObject(goes), uid: goes.UID, cost: cost})
		}
	}
	return marks
}

// readyPods are the Pods that take Runs.
func readyPods(pods []corev1.Pod) []*corev1.Pod {
	var ready []*corev1.Pod
	for i := range pods {
		if pod := &pods[i]; pod.DeletionTimestamp.IsZero() && corev1alpha1.PodIsReady(pod) {
			ready = append(ready, pod)
		}
	}
	return ready
}

// deletionCost is what a ReplicaSet reads: 0 where nothing, or nonsense, is written.
func deletionCost(pod *corev1.Pod) int32 {
	cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

// weigh returns the load of each ready Pod, by the Pod's name. It looks at nothing of Runs but how many there are.
func (r *RuntimeReconciler) weigh(ctx context.Context, pods []corev1.Pod) (map[string]podLoad, error) {
	loadByPod := map[string]podLoad{}
	for _, pod := range readyPods(pods) {
		var load podLoad
		var runs corev1alpha1.RunList
		err := r.Client.List(ctx, &runs, client.InNamespace(pod.Namespace), client.MatchingFields{indexRunPod: pod.Name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("counting the Runs of Pod %s: %w", pod.Name, err)
		}
		for i := range runs.Items {
			if runs.Items[i].Status.AssignedPodUID == string(pod.UID) {
				load.runs++
			}
		}
		if r.BoundWorkspaces != nil {
			if load.workspaces, err = r.BoundWorkspaces(ctx, pod); err != nil {
				return nil, fmt.Errorf("counting the workspaces of Pod %s: %w", pod.Name, err)
			}
		}
		loadByPod[pod.Name] = load
	}
	return loadByPod, nil
}

// mark writes the marks. What can never be written, or has no Pod any more, is passed over: which Pods go is a
// preference, and a scale-down does not fail for it.
func (r *RuntimeReconciler) mark(ctx context.Context, marks []mark) error {
	var group errgroup.Group
	group.SetLimit(maxMarking)
	errs := make([]error, len(marks))
	for i, m := range marks {
		group.Go(func() error {
			errs[i] = r.markOne(ctx, m)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs, all of them
	return errors.Join(errs...)
}

func (r *RuntimeReconciler) markOne(ctx context.Context, m mark) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.uid, "annotations": map[string]string{corev1.PodDeletionCost: strconv.Itoa(int(m.cost))},
	}})
	if err != nil {
		return fmt.Errorf("encoding the mark of Pod %s: %w", m.pod.Name, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.pod.Namespace, Name: m.pod.Name}}
	err = r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	switch {
	case err == nil:
		ctrl.LoggerFrom(ctx).Info("Marked Pod to go first", "pod", m.pod.Name, "cost", m.cost)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is gone, or was replaced under its name
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		ctrl.LoggerFrom(ctx).Error(err, "Could not mark Pod to go first", "pod", m.pod.Name)
		return nil
	default:
		return fmt.Errorf("marking Pod %s to go first: %w", m.pod.Name, err)
	}
}
