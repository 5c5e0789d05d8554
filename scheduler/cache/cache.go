// Package cache keeps what the scheduler knows of Runtimes, their Pods, and the units that Runs take of each Pod, and
// hands out snapshots of one Runtime at a time.
//
// A Run takes units from the moment the scheduler has decided, before the API server knows. This is the life of a Run in the
// cache:
//
//	             Charge (decided, or shown on a Pod by the informer or a live read)
//	(nothing) ----------------------------------------------------------------------> charged --+
//	   ^                                                                               ^  |     |
//	   |                                            Charge (shown on another Pod) -----+--+     |
//	   +---- Release (the bind was refused for sure; finished, handed back, deleted) -----------+
//
// While the outcome of a bind is unknown the Run stays charged: its units are given to nobody else. What the API server
// shows corrects what was decided. A Cache starts without charges, so a new leader books only what the API server holds.
//
// All costs are those of the one Runtime, or Pod, or Run that a call names. A Cache is not safe for concurrent use; its
// one user holds a lock.
package cache

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/scheduler/framework"
)

// Pod is what the cache holds of a Pod.
type Pod struct {
	// Runtime is the Runtime that the Pod belongs to.
	Runtime types.NamespacedName
	Name    string
	UID     types.UID
	// Node is the name of its Node, empty when it has none.
	Node string
	// Ready, Terminating and NotReadyReason are as in framework.PodInfo.
	Ready, Terminating bool
	NotReadyReason     string
	// TakesUntil is, for a Pod that is terminating, how long it takes Runs whose workspace is bound to it.
	TakesUntil time.Time
}

// Change tells which waiting Runs a call may have helped: those of Runtime that wait for one of Events and, by their
// affinity, those that require near what has come or left.
type Change struct {
	Runtime types.NamespacedName
	Events  framework.Events
	// Pod is where units became free, empty when that was not on one Pod.
	Pod types.UID
	// Came, if any, is a Run that is on its Pod now with labels that were not there before. Left has been where it is no
	// more, or not with its labels.
	Came, Left *framework.RunInfo
	// Workspace, if any, is one that is not what it was: the Runs that refer to it may have been helped.
	Workspace types.NamespacedName
}

// Cache is the scheduler's memory. The zero value is not usable; see New.
type Cache struct {
	runtimes map[types.NamespacedName]*runtimeState
	pods     map[types.UID]*podState
	nodes    map[string]*nodeState
	charges  map[types.UID]*charge
	// neighbourhoods are the charges by namespace.
	neighbourhoods map[string]*neighbourhood
	workspaces     map[types.NamespacedName]*framework.WorkspaceInfo
	// holds tells which Runtime has a Pod that is held for a Run.
	holds map[types.UID]types.NamespacedName
	// generation counts every change, so that no two different snapshots ever carry the same number.
	generation *uint64
}

// runtimeState is a Runtime or the Pods that name one.
type runtimeState struct {
	// info is nil while there is no such Runtime.
	info *framework.RuntimeInfo
	// pods are the known ones, sorted by name, then UID.
	pods []*podState
	// hold is the one claim on a Pod of this Runtime.
	hold    *framework.Hold
	heldPod types.UID
	// generation is the cache's counter.
	generation *uint64
	// snapshot is what was handed out for the current generation, nil when there was none.
	snapshot *framework.Snapshot
}

// podState is a Pod, or the Runs that name one that is not known: not seen yet, or deleted before them.
type podState struct {
	pod  Pod
	home *runtimeState // nil while the Pod is not known
	node *nodeState    // nil while the Pod is not known or has none
	used framework.Resources
	runs int
	// guards are replaced, never changed.
	guards []*framework.Selector
	// info is what snapshots hold; nil when it has to be made anew.
	info *framework.PodInfo
}

// charge is what a Run takes.
type charge struct {
	pod types.UID
	run *framework.RunInfo
	// home and place are where the charge is listed by its namespace.
	home  *neighbourhood
	place int
}

// New makes an empty Cache.
func New() *Cache {
	return &Cache{
		runtimes: map[types.NamespacedName]*runtimeState{},
		pods:     map[types.UID]*podState{},
		nodes:    map[string]*nodeState{},
		charges:  map[types.UID]*charge{},
		holds:    map[types.UID]types.NamespacedName{},

		neighbourhoods: map[string]*neighbourhood{},
		workspaces:     map[types.NamespacedName]*framework.WorkspaceInfo{},

		generation: new(uint64),
	}
}

// SetRuntime stores a Runtime that was created or changed.
func (c *Cache) SetRuntime(info *framework.RuntimeInfo) Change {
	r := c.runtime(info.Key())
	if r.info != nil && sameRuntime(r.info, info) {
		return Change{}
	}
	r.info = info
	r.touchAll()
	return Change{Runtime: info.Key(), Events: framework.RuntimeChanged}
}

// RemoveRuntime forgets a Runtime. Its Pods stay until they are removed.
func (c *Cache) RemoveRuntime(key types.NamespacedName) Change {
	r, ok := c.runtimes[key]
	if !ok || r.info == nil {
		return Change{}
	}
	r.info = nil
	r.touchAll()
	c.collect(key, r)
	return Change{Runtime: key, Events: framework.RuntimeChanged}
}

// SetPod stores a Pod that was created or changed.
func (c *Cache) SetPod(pod Pod) Change {
	p := c.pod(pod.UID)
	if p.home != nil {
		if p.pod == pod {
			return Change{}
		}
		if p.pod.Runtime != pod.Runtime || p.pod.Name != pod.Name {
			c.leave(p)
		}
	}
	wasAvailable := p.home != nil && p.available()
	p.pod = pod
	c.onNode(p, pod.Node)
	if p.home == nil {
		p.home = c.runtime(pod.Runtime)
		at, _ := slices.BinarySearchFunc(p.home.pods, p, byName)
		p.home.pods = slices.Insert(p.home.pods, at, p)
	}
	p.touch()
	if p.available() && !wasAvailable {
		return Change{Runtime: pod.Runtime, Events: framework.PodAvailable}
	}
	return Change{Runtime: pod.Runtime}
}

// RemovePod forgets a Pod. What Runs take of it is remembered until they are released, in case it was only out of sight.
func (c *Cache) RemovePod(uid types.UID) Change {
	p, ok := c.pods[uid]
	if !ok || p.home == nil {
		return Change{}
	}
	c.leave(p)
	if p.runs == 0 {
		delete(c.pods, uid)
	}
	return Change{Runtime: p.pod.Runtime}
}

// leave takes a Pod out of its Runtime.
func (c *Cache) leave(p *podState) {
	r := p.home
	p.touch()
	if at, found := slices.BinarySearchFunc(r.pods, p, byName); found {
		r.pods = slices.Delete(r.pods, at, at+1)
	}
	p.home = nil
	c.onNode(p, "")
	c.collect(p.pod.Runtime, r)
}

// Charge books what run takes of a Pod, from the moment that was decided. It may confirm or correct an earlier charge.
func (c *Cache) Charge(run *framework.RunInfo, pod types.UID) Change {
	var change Change
	if old, ok := c.charges[run.UID]; ok {
		if old.pod == pod {
			return c.relabel(old, run)
		}
		change = c.Release(run.UID)
	}
	p := c.pod(pod)
	p.used = p.used.Plus(run.Requests)
	p.runs++
	p.guard(run)
	p.touch()
	ch := &charge{pod: pod, run: run}
	c.charges[run.UID] = ch
	c.join(ch)
	change.Came = run
	return change
}

// relabel takes in a newer version of a Run that stays where it is. Nothing but its labels can have changed.
func (c *Cache) relabel(ch *charge, run *framework.RunInfo) Change {
	if ch.run == run || maps.Equal(ch.run.Labels, run.Labels) {
		return Change{}
	}
	change := Change{Left: ch.run, Came: run}
	c.part(ch)
	ch.run = run
	c.join(ch)
	if p := c.pods[ch.pod]; p.home != nil {
		// No room became free, but those that wait for it include those that the old labels kept away.
		change.Runtime, change.Events, change.Pod = p.pod.Runtime, framework.CapacityFreed, ch.pod
	}
	return change
}

// Release gives back what a Run takes. It is idempotent.
func (c *Cache) Release(run types.UID) Change {
	old, ok := c.charges[run]
	if !ok {
		return Change{}
	}
	delete(c.charges, run)
	c.part(old)
	p := c.pods[old.pod]
	p.runs--
	if p.runs == 0 {
		p.used = nil
	} else {
		p.used = p.used.Minus(old.run.Requests)
	}
	p.unguard(old.run)
	p.touch()
	left := Change{Left: old.run}
	if p.home == nil {
		if p.runs == 0 {
			delete(c.pods, old.pod)
		}
		return left
	}
	left.Runtime, left.Events, left.Pod = p.pod.Runtime, framework.CapacityFreed, old.pod
	return left
}

// PodStays tells whether the Pod is known and not about to go.
func (c *Cache) PodStays(uid types.UID) bool {
	p, ok := c.pods[uid]
	return ok && p.home != nil && !p.pod.Terminating && !p.nodeIsGone()
}

// PodTakes tells whether the Pod is known, about to go, and takes Runs until then whose workspace is bound to it.
func (c *Cache) PodTakes(uid types.UID, now time.Time) bool {
	p, ok := c.pods[uid]
	return ok && p.home != nil && p.pod.Terminating && now.Before(p.pod.TakesUntil) && !p.nodeIsGone()
}

// Snapshot returns what is known of a Runtime now. The result never changes; it is the same until something does.
func (c *Cache) Snapshot(key types.NamespacedName) *framework.Snapshot {
	r, ok := c.runtimes[key]
	if !ok {
		return &framework.Snapshot{}
	}
	if r.snapshot != nil {
		return r.snapshot
	}
	s := &framework.Snapshot{Generation: *r.generation, Runtime: r.info}
	if len(r.pods) > 0 {
		s.Pods = make([]*framework.PodInfo, len(r.pods))
	}
	for i, p := range r.pods {
		if p.info == nil {
			p.info = p.inform(r)
		}
		s.Pods[i] = p.info
		s.Guarded = s.Guarded || len(p.guards) > 0 || p.info.Held != nil && len(p.info.Held.Guards) > 0
	}
	r.snapshot = s
	return s
}

func (c *Cache) runtime(key types.NamespacedName) *runtimeState {
	r, ok := c.runtimes[key]
	if !ok {
		r = &runtimeState{generation: c.generation}
		c.runtimes[key] = r
	}
	return r
}

func (c *Cache) pod(uid types.UID) *podState {
	p, ok := c.pods[uid]
	if !ok {
		p = &podState{pod: Pod{UID: uid}}
		c.pods[uid] = p
	}
	return p
}

// collect drops a Runtime of which nothing is left.
func (c *Cache) collect(key types.NamespacedName, r *runtimeState) {
	if r.info == nil && len(r.pods) == 0 && r.hold == nil {
		delete(c.runtimes, key)
	}
}

func (r *runtimeState) touch() {
	*r.generation++
	r.snapshot = nil
}

func (r *runtimeState) touchAll() {
	r.touch()
	for _, p := range r.pods {
		p.info = nil
	}
}

func (p *podState) touch() {
	p.info = nil
	if p.home != nil {
		p.home.touch()
	}
}

func (p *podState) inform(r *runtimeState) *framework.PodInfo {
	info := &framework.PodInfo{
		Name: p.pod.Name, UID: p.pod.UID, Ready: p.pod.Ready, Terminating: p.pod.Terminating, NodeGone: p.nodeIsGone(),
		NotReadyReason: p.pod.NotReadyReason, Used: p.used, Runs: p.runs, Guards: p.guards,
	}
	if r.info != nil {
		info.Capacity = r.info.Capacity
	}
	if r.heldPod == p.pod.UID {
		info.Held = r.hold
	}
	return info
}

func byName(a, b *podState) int {
	return cmp.Or(cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
}

func sameRuntime(a, b *framework.RuntimeInfo) bool {
	return a.Replicas == b.Replicas && a.Deleting == b.Deleting && a.Trouble == b.Trouble && slices.Equal(a.Capacity, b.Capacity)
}
