package scheduler

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
	"kruntimes.io/kruntimes/scheduler/queue"
)

// holdAfter is how long a Run waits, while younger ones are placed, before a Pod is held for it.
const holdAfter = 10 * time.Second

// Small Runs may pass a large one that does not fit; that keeps Pods busy. They must not pass it for ever. So when a Run
// has waited for holdAfter and a younger one of its Runtime was placed meanwhile, the Pod that comes closest to having
// room for it is held: what the Run needs there is given to nobody else, the Pod empties as its Runs end, and the Run
// gets it. One Run of a Runtime has a hold at a time, the oldest first, so Pods do not stand empty for a queue of large
// Runs. A backlog of equal Runs is served in order and needs no hold. Nor does a hold help against a rule between Runs: only
// a Pod that such rules leave to the Run, and that lacks nothing but room, is held.

// shortage is a waiting Run, and the Pods that lack nothing but room for it.
type shortage struct {
	run  *framework.RunInfo
	pods []*framework.PodInfo
}

// considerHold gives the oldest overtaken Run of a Runtime a hold, unless there is one that still serves.
func (e *engine) considerHold(key types.NamespacedName, short []shortage, now time.Time) {
	holder, _, serves := e.cache.Held(key)
	if serves {
		return
	}
	var oldest *trackedRun
	var pods []*framework.PodInfo
	for _, s := range short {
		t := e.runs[s.run.UID]
		overtaken := t.order.Before(e.youngestPlaced[key]) || s.run.UID == holder
		if overtaken && now.Sub(t.since) >= holdAfter && (oldest == nil || t.order.Before(oldest.order)) {
			oldest, pods = t, s.pods
		}
	}
	if oldest == nil {
		return
	}
	if pod := closest(pods, oldest.info); pod != nil {
		e.cache.Hold(oldest.info, pod.UID)
	}
}

// reviewHold ends a hold for a Run of the same line as info, which was rejected, if emptying the Pod does not help it.
func (e *engine) reviewHold(info *framework.RunInfo, d *framework.Diagnosis) {
	holder, pod, serves := e.cache.Held(info.RuntimeKey())
	t, ok := e.runs[holder]
	if !ok || t.line != d.Line {
		return
	}
	short := d.ShortOf(corev1alpha1.ReasonInsufficientCapacity)
	isHeld := func(p *framework.PodInfo) bool { return p.UID == pod }
	if len(short) == 0 || serves && !slices.ContainsFunc(short, isHeld) {
		e.changed(e.cache.Unhold(holder))
	}
}

// placed remembers how young Runs have been placed, and ends the Run's hold.
func (e *engine) placed(t *trackedRun) {
	key := t.info.RuntimeKey()
	if e.youngestPlaced[key].Before(t.order) {
		e.youngestPlaced[key] = t.order
	}
	e.changed(e.cache.Unhold(t.info.UID))
}

// closest returns the Pod that lacks the smallest share of what the Run requests; the first by name among equals.
func closest(pods []*framework.PodInfo, run *framework.RunInfo) *framework.PodInfo {
	var best *framework.PodInfo
	smallest := 0.0
	for _, pod := range pods {
		if !pod.Available() {
			continue
		}
		lack := 0.0
		for _, want := range run.Requests {
			if offered := pod.Capacity.Of(want.Name); offered > 0 {
				over := float64(pod.Used.Of(want.Name)) + float64(want.Milli) - float64(offered)
				lack = max(lack, over/float64(offered))
			}
		}
		if best == nil || lack < smallest {
			best, smallest = pod, lack
		}
	}
	return best
}

// youngest is the order of the youngest Run that was placed, per Runtime.
type youngest map[types.NamespacedName]queue.Order
