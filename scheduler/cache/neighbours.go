package cache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/scheduler/framework"
)

// neighbourhood is the charges of one namespace. Labels are indexed once a Run with an affinity has asked: namespaces in
// which none is used pay for a list only.
type neighbourhood struct {
	name    string
	charges []*charge
	// index is nil until it is needed. A set never is empty.
	index map[framework.Anchor]map[*charge]struct{}
}

// join enters a charge.
func (c *Cache) join(ch *charge) {
	n, ok := c.neighbourhoods[ch.run.Namespace]
	if !ok {
		n = &neighbourhood{name: ch.run.Namespace}
		c.neighbourhoods[n.name] = n
	}
	ch.home, ch.place = n, len(n.charges)
	n.charges = append(n.charges, ch)
	if n.index != nil {
		n.enter(ch)
	}
}

// part takes a charge out.
func (c *Cache) part(ch *charge) {
	n := ch.home
	if n.index != nil {
		n.withdraw(ch)
	}
	last := len(n.charges) - 1
	n.charges[ch.place] = n.charges[last]
	n.charges[ch.place].place = ch.place
	n.charges[last] = nil
	n.charges = n.charges[:last]
	if last == 0 {
		delete(c.neighbourhoods, n.name)
	}
}

func (n *neighbourhood) enter(ch *charge) {
	for _, a := range framework.AnchorsOf(ch.run.Labels) {
		set, ok := n.index[a]
		if !ok {
			set = map[*charge]struct{}{}
			n.index[a] = set
		}
		set[ch] = struct{}{}
	}
}

func (n *neighbourhood) withdraw(ch *charge) {
	for _, a := range framework.AnchorsOf(ch.run.Labels) {
		delete(n.index[a], ch)
		if len(n.index[a]) == 0 {
			delete(n.index, a)
		}
	}
}

// SnapshotFor returns what is known now of the Runtime of a Run and, if that has an affinity, of the Runs that its
// terms select. It costs what Snapshot does, and for each term the active Runs of the namespace that have the label of the
// selector that fewest of them have; or all of them, when the selector names only what a Run must not have.
func (c *Cache) SnapshotFor(run *framework.RunInfo, now time.Time) *framework.Snapshot {
	s := c.Snapshot(run.RuntimeKey())
	if run.Workspace != nil {
		s = c.withWorkspace(s, run.WorkspaceKey(), now)
	}
	terms := run.Terms()
	if terms == nil || len(terms.Terms) == 0 {
		return s
	}
	with := *s
	with.Neighbours = make([]framework.Neighbours, len(terms.Terms))
	n, ok := c.neighbourhoods[run.Namespace]
	if !ok {
		return &with
	}
	if n.index == nil {
		n.index = map[framework.Anchor]map[*charge]struct{}{}
		for _, ch := range n.charges {
			n.enter(ch)
		}
	}
	for i := range terms.Terms {
		with.Neighbours[i] = n.selected(terms.Terms[i].Selector, run.UID)
	}
	return &with
}

// selected counts the Runs that a selector selects, except one.
func (n *neighbourhood) selected(s *framework.Selector, except types.UID) framework.Neighbours {
	var found framework.Neighbours
	count := func(ch *charge) {
		if ch.run.UID == except || !s.Matches(ch.run.Labels) {
			return
		}
		if found.On == nil {
			found.On = map[types.UID]int{}
		}
		found.Runs++
		found.On[ch.pod]++
	}
	choice := n.narrowest(s)
	if choice == nil {
		for _, ch := range n.charges {
			count(ch)
		}
		return found
	}
	for _, a := range choice {
		for ch := range n.index[a] {
			count(ch)
		}
	}
	return found
}

// narrowest returns the choice of a selector that leaves the fewest Runs to look at, nil when there is none.
func (n *neighbourhood) narrowest(s *framework.Selector) []framework.Anchor {
	var best []framework.Anchor
	least := 0
	for _, choice := range s.Choices() {
		runs := 0
		for _, a := range choice {
			runs += len(n.index[a])
		}
		if best == nil || runs < least {
			best, least = choice, runs
		}
	}
	return best
}

// guard adds the guards of a Run to those of its Pod. Snapshots keep the old ones.
func (p *podState) guard(run *framework.RunInfo) {
	added := run.Terms().Guards()
	if len(added) == 0 {
		return
	}
	guards := make([]*framework.Selector, 0, len(p.guards)+len(added))
	p.guards = append(append(guards, p.guards...), added...)
}

// unguard takes the guards of a Run away.
func (p *podState) unguard(run *framework.RunInfo) {
	removed := run.Terms().Guards()
	if len(removed) == 0 {
		return
	}
	times := map[string]int{}
	for _, g := range removed {
		times[g.String()]++
	}
	var guards []*framework.Selector
	for _, g := range p.guards {
		if times[g.String()] > 0 {
			times[g.String()]--
			continue
		}
		guards = append(guards, g)
	}
	p.guards = guards
}
