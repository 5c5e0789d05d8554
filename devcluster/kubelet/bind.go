package kubelet

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// binders is how many Pods are bound at the same time.
const binders = 4

// binder takes the place of kube-scheduler: with one Node there is nothing to choose.
type binder struct {
	kubelet *Kubelet
	queue   workqueue.TypedRateLimitingInterface[target]
}

type target struct {
	types.NamespacedName
	uid types.UID
}

func newBinder(k *Kubelet) *binder {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[target](100*time.Millisecond, 5*time.Second)
	return &binder{kubelet: k, queue: workqueue.NewTypedRateLimitingQueue(limiter)}
}

// add queues a Pod that has no Node and waits for one.
func (b *binder) add(pod *corev1.Pod) {
	ours := pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName
	if ours && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 {
		b.queue.Add(target{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, uid: pod.UID})
	}
}

func (b *binder) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range binders {
		workers.Go(func() {
			for b.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	b.queue.ShutDown()
	workers.Wait()
}

func (b *binder) next(ctx context.Context) bool {
	t, over := b.queue.Get()
	if over {
		return false
	}
	defer b.queue.Done(t)
	err := b.kubelet.client.CoreV1().Pods(t.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name, UID: t.uid},
		Target:     corev1.ObjectReference{Kind: "Node", Name: b.kubelet.config.NodeName},
	}, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err), ctx.Err() != nil: // bound, gone or replaced
		b.queue.Forget(t)
	default:
		b.kubelet.log.Error(err, "Could not bind Pod", "pod", t.NamespacedName)
		b.queue.AddRateLimited(t)
	}
	return true
}
