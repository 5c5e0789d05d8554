package cache

import (
	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/scheduler/framework"
)

// Hold keeps a Pod of run's Runtime from other Runs that would be in run's way there, until Unhold: what it requests is
// given to nobody else, and nobody comes whom rules between Runs keep apart from it. A Runtime has one hold at a time;
// another one replaces it.
func (c *Cache) Hold(run *framework.RunInfo, pod types.UID) {
	key := run.RuntimeKey()
	r := c.runtime(key)
	if r.hold != nil {
		delete(c.holds, r.hold.Run)
	}
	r.hold, r.heldPod = &framework.Hold{
		Run: run.UID, Requests: run.Requests, Labels: run.Labels, Guards: run.Terms().Guards(),
	}, pod
	c.holds[run.UID] = key
	r.touchAll()
}

// Held returns the Run for which a Pod of the Runtime is held, and the Pod, if that takes Runs.
func (c *Cache) Held(key types.NamespacedName) (run, pod types.UID, ok bool) {
	r, found := c.runtimes[key]
	if !found || r.hold == nil {
		return "", "", false
	}
	p, found := c.pods[r.heldPod]
	return r.hold.Run, r.heldPod, found && p.home == r && p.available()
}

// Unhold ends the hold of a Run, if it has one.
func (c *Cache) Unhold(run types.UID) Change {
	key, ok := c.holds[run]
	if !ok {
		return Change{}
	}
	delete(c.holds, run)
	r := c.runtimes[key]
	pod := r.heldPod
	r.hold, r.heldPod = nil, ""
	r.touchAll()
	c.collect(key, r)
	return Change{Runtime: key, Events: framework.CapacityFreed, Pod: pod}
}
