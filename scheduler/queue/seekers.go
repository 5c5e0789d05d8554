package queue

import (
	"kruntimes.io/kruntimes/scheduler/framework"
)

// seekers are the parked classes that wait for a Run to come near or to leave, by namespace and, in there, by a label
// that such a Run must have. So an event costs the classes that may want it, not all that want something.
type seekers map[string]map[framework.Anchor]map[*class]struct{}

// anywhere is the anchor of those whose selector names no label that a Run must have.
var anywhere = framework.Anchor{}

// sought is one term of a class in seekers.
type sought struct {
	namespace string
	term      *framework.Term
	anchors   []framework.Anchor
}

// enter lists a class that was parked with a verdict on run.
func (s seekers) enter(c *class, run *framework.RunInfo) {
	if !c.wakeOn.Has(framework.NeighbourCame | framework.NeighbourLeft) {
		return
	}
	terms := run.Terms()
	if terms == nil {
		return
	}
	byAnchor, ok := s[run.Namespace]
	if !ok {
		byAnchor = map[framework.Anchor]map[*class]struct{}{}
		s[run.Namespace] = byAnchor
	}
	for i := range terms.Terms {
		t := &terms.Terms[i]
		if t.Kind != framework.Near {
			continue
		}
		anchors := rarest(byAnchor, t.Selector)
		for _, a := range anchors {
			if byAnchor[a] == nil {
				byAnchor[a] = map[*class]struct{}{}
			}
			byAnchor[a][c] = struct{}{}
		}
		c.seeks = append(c.seeks, sought{namespace: run.Namespace, term: t, anchors: anchors})
	}
}

// rarest returns the choice of a selector under which the fewest are listed.
func rarest(byAnchor map[framework.Anchor]map[*class]struct{}, s *framework.Selector) []framework.Anchor {
	best, least := []framework.Anchor{anywhere}, 0
	for i, choice := range s.Choices() {
		listed := 0
		for _, a := range choice {
			listed += len(byAnchor[a])
		}
		if i == 0 || listed < least {
			best, least = choice, listed
		}
	}
	return best
}

// withdraw takes a class out.
func (s seekers) withdraw(c *class) {
	for _, w := range c.seeks {
		byAnchor := s[w.namespace]
		for _, a := range w.anchors {
			delete(byAnchor[a], c)
			if len(byAnchor[a]) == 0 {
				delete(byAnchor, a)
			}
		}
		if len(byAnchor) == 0 {
			delete(s, w.namespace)
		}
	}
	c.seeks = nil
}

// WakeForCome unparks the classes that require a Run near which came to a Pod of their Runtime. It tells whether there
// was one.
func (q *Queue) WakeForCome(run *framework.RunInfo) bool {
	return q.wakeSeekers(run, func(c *class, _ *framework.Term) bool {
		return c.wakeOn.Has(framework.NeighbourCame) && c.pool.key.Name == run.Runtime
	})
}

// WakeForLeft unparks the classes that require a Run near which has left, and that are of its kind themselves. It tells
// whether there was one.
func (q *Queue) WakeForLeft(run *framework.RunInfo) bool {
	return q.wakeSeekers(run, func(c *class, t *framework.Term) bool {
		return c.wakeOn.Has(framework.NeighbourLeft) && t.Self
	})
}

func (q *Queue) wakeSeekers(run *framework.RunInfo, helps func(*class, *framework.Term) bool) bool {
	byAnchor, ok := q.seekers[run.Namespace]
	if !ok {
		return false
	}
	var woken []*class
	for _, a := range append(framework.AnchorsOf(run.Labels), anywhere) {
		for c := range byAnchor[a] {
			for _, w := range c.seeks {
				if w.term.Selector.Matches(run.Labels) && helps(c, w.term) {
					woken = append(woken, c)
					break
				}
			}
		}
	}
	for _, c := range woken {
		if c.parked { // it may be listed under several anchors
			q.unpark(c)
		}
	}
	return len(woken) > 0
}
