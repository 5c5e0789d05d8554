package core

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

const (
	// drainedKept is how long it is remembered that a Pod that is gone had drained. An assignment that was under way while
	// the Pod ended comes within seconds.
	drainedKept = 10 * time.Minute
	// drainedBound bounds how many Pods are remembered.
	drainedBound = 10000
)

// hasDrained tells whether a Pod has ended in order: runtimed, which nobody starts again in a Pod that is being deleted,
// returns without an error only when every Run that it ever started was reported. A Run that is still assigned to such a
// Pod was never started there.
func hasDrained(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp.IsZero() {
		return false
	}
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == corev1alpha1.ContainerRuntimed {
			return c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		}
	}
	return false
}

// drainedPods remembers Pods that have drained, since most are gone from the API a moment later. What it forgets, with
// the manager or with time, is judged as a loss.
type drainedPods struct {
	once sync.Once
	uids *utilcache.LRUExpireCache
}

func (d *drainedPods) init(c clock.PassiveClock) {
	d.once.Do(func() { d.uids = utilcache.NewLRUExpireCacheWithClock(drainedBound, c) })
}

// note remembers a Pod if it has drained.
func (d *drainedPods) note(pod *corev1.Pod, c clock.PassiveClock) {
	if hasDrained(pod) {
		d.init(c)
		d.uids.Add(pod.UID, true, drainedKept)
	}
}

// has tells whether the Pod of this UID is remembered.
func (d *drainedPods) has(uid types.UID, c clock.PassiveClock) bool {
	d.init(c)
	_, ok := d.uids.Get(uid)
	return ok
}
