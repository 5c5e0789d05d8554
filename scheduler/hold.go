package scheduler

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/scheduler/framework"
	"kruntimes.io/kruntimes/scheduler/queue"
)

// holdAfter is how long a Run waits, while younger ones are placed, before a Pod is held for it, and how long a Pod is
// held for it before another one is tried.
const holdAfter = 10 * time.Second

// Small Runs may pass a large one that does not fit, and Runs that may be together pass one that must be apart from them;
// that keeps Pods busy. They must not pass it for ever. So when a Run has waited for holdAfter and a younger one of its
// Runtime was placed meanwhile, the Pod that comes closest to having room for it is held: nobody comes any more who would
// be in its way there, the Pod empties as its Runs end, and the Run gets it. A Pod that does not empty in time, because
// a long Run is there, gives way to the next; when all have been tried, each gets twice the time. So the Run is placed
// as soon as any Pod can be emptied at all.
//
// One Run of a Runtime has a hold at a time, the oldest first, so Pods do not stand empty for a queue of large Runs. A
// backlog of equal Runs is served in order and needs no hold. Nor does a hold help a Run that requires others near it which
// do not come: only a Pod that lacks nothing but the end of Runs that are there is held.

// crowding is a waiting Run, and the Pods that would take it if Runs there ended.
type crowding struct {
	run  *framework.RunInfo
	pods []*framework.PodInfo
}

// holds is what a Run remembers of the Pods that were held for it while it waited.
type holds struct {
	// until is when the present one gives way to another.
	until time.Time
	// patience is how long each is held; 0 before the first.
	patience time.Duration
	// tried are those that were held in this round.
	tried map[types.UID]struct{}
}

// considerHold gives the oldest overtaken Run of a Runtime a hold, unless there is one that still serves.
func (e *engine) considerHold(key types.NamespacedName, crowded []crowding, now time.Time) {
	holder, pod, serves := e.cache.Held(key)
	isHolder := func(c crowding) bool { return c.run.UID == holder }
	if serves && (now.Before(e.runs[holder].holds.until) || !slices.ContainsFunc(crowded, isHolder)) {
		return
	}
	var oldest *trackedRun
	var pods []*framework.PodInfo
	for _, c := range crowded {
		t := e.runs[c.run.UID]
		overtaken := t.order.Before(e.youngestPlaced[key]) || isHolder(c)
		if overtaken && now.Sub(t.since) >= holdAfter && (oldest == nil || t.order.Before(oldest.order)) {
			oldest, pods = t, c.pods
		}
	}
	if oldest == nil {
		return
	}
	next := oldest.holds.choose(pods, oldest.info, now)
	if next == nil || serves && oldest.info.UID == holder && next.UID == pod {
		return
	}
	e.changed(e.cache.Unhold(holder)) // what was kept there is free for others
	e.cache.Hold(oldest.info, next.UID)
}

// choose picks the next Pod to be held for a Run, nil when none can be.
func (h *holds) choose(pods []*framework.PodInfo, run *framework.RunInfo, now time.Time) *framework.PodInfo {
	untried := slices.DeleteFunc(slices.Clone(pods), func(p *framework.PodInfo) bool {
		_, was := h.tried[p.UID]
		return was
	})
	pod := closest(untried, run)
	if pod == nil {
		if pod = closest(pods, run); pod == nil {
			return nil
		}
		h.tried = nil
	}
	if h.tried == nil {
		h.tried, h.patience = map[types.UID]struct{}{}, max(holdAfter, 2*h.patience)
	}
	h.tried[pod.UID] = struct{}{}
	h.until = now.Add(h.patience)
	return pod
}

// reviewHold looks at the hold of a Runtime after a Run of it was rejected. If emptying the held Pod does not help the
// Runs that wait in the same class as the one it is held for, the hold ends. If the rejected Run goes before that one, it
// takes the hold over: else each of them would wait for the other.
func (e *engine) reviewHold(info *framework.RunInfo, d *framework.Diagnosis) {
	holder, pod, serves := e.cache.Held(info.RuntimeKey())
	if class, ok := e.queue.ClassOf(holder); !ok || class != d.Class {
		return
	}
	crowded := d.Crowded()
	isHeld := func(p *framework.PodInfo) bool { return p.UID == pod }
	if len(crowded) == 0 || serves && !slices.ContainsFunc(crowded, isHeld) {
		e.changed(e.cache.Unhold(holder))
		return
	}
	if t, was := e.runs[info.UID], e.runs[holder]; serves && holder != info.UID && t.order.Before(was.order) {
		t.holds = was.holds
		e.changed(e.cache.Unhold(holder)) // the class tries again
		e.cache.Hold(info, pod)
	}
}

// placed remembers how young Runs have been placed, and ends the Run's hold.
func (e *engine) placed(t *trackedRun) {
	key := t.info.RuntimeKey()
	if e.youngestPlaced[key].Before(t.order) {
		e.youngestPlaced[key] = t.order
	}
	t.holds = holds{}
	e.changed(e.cache.Unhold(t.info.UID))
}

// closest returns the Pod that lacks the smallest share of what the Run requests, among equals the one with the fewest
// Runs, then the first by name.
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
		if best == nil || cmp.Or(cmp.Compare(lack, smallest), cmp.Compare(pod.Runs, best.Runs)) < 0 {
			best, smallest = pod, lack
		}
	}
	return best
}

// youngest is the order of the youngest Run that was placed, per Runtime.
type youngest map[types.NamespacedName]queue.Order
