package queue

import (
	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/scheduler/framework"
)

// waitlist is the parked classes of a Runtime that wait for units: on any Pod, or on one. There may be thousands, and room
// for a single Run. So they are not unparked when units become free: the list opens, and one class after the other, the
// oldest first, is unparked when its turn has come. The list closes when all were tried, or when one was rejected with
// the word that none of the others can fit.
type waitlist struct {
	pool *pool
	// pod is the Pod; empty for any.
	pod  types.UID
	open bool
	// waiting are those to try, now or when the list opens. Tried are those that were parked since it did.
	waiting ordered[*wait]
	tried   map[*wait]struct{}
}

// anyPod is the name of the list of those that may go to any Pod.
const anyPod types.UID = ""

// wait is a class in a waitlist.
type wait struct {
	class *class
	list  *waitlist
	place int
}

func (p *pool) waitlist(pod types.UID) *waitlist {
	l, ok := p.waitlists[pod]
	if !ok {
		l = &waitlist{
			pool: p, pod: pod, tried: map[*wait]struct{}{},
			waiting: newOrdered(func(a, b *wait) bool { return olderHead(a.class, b.class) }, func(w *wait) *int { return &w.place }),
		}
		p.waitlists[pod] = l
	}
	return l
}

// enter lists a class that was just tried, in vain.
func (l *waitlist) enter(c *class) {
	w := &wait{class: c, list: l}
	c.waits = append(c.waits, w)
	if l.open {
		l.tried[w] = struct{}{}
		return
	}
	l.waiting.push(w)
}

// withdraw takes a class out of all its lists.
func (q *Queue) withdrawWaits(c *class) {
	for _, w := range c.waits {
		l := w.list
		if _, tried := l.tried[w]; tried {
			delete(l.tried, w)
		} else {
			l.waiting.remove(w)
		}
		if l.waiting.len() == 0 {
			q.close(l)
		}
		if l.waiting.len() == 0 {
			delete(l.pool.waitlists, l.pod)
		}
	}
	c.waits = nil
}

// reorder brings the class's places in order after its oldest Run may have changed.
func (c *class) reorder() {
	for _, w := range c.waits {
		if _, tried := w.list.tried[w]; !tried {
			w.list.waiting.fix(w)
		}
	}
}

// open makes the classes of a list, if there are any, candidates for Pop.
func (q *Queue) open(p *pool, pod types.UID) bool {
	l, ok := p.waitlists[pod]
	if !ok {
		return false
	}
	l.retire()
	l.open = true
	p.open[l] = struct{}{}
	q.review(p)
	return true
}

// close ends what open began.
func (q *Queue) close(l *waitlist) {
	if !l.open {
		return
	}
	l.retire()
	l.open = false
	delete(l.pool.open, l)
	q.review(l.pool)
}

// retire makes those that were tried wait like the others.
func (l *waitlist) retire() {
	for w := range l.tried {
		l.waiting.push(w)
	}
	clear(l.tried)
}

// closeBy closes the lists of which a verdict tells that nobody there can fit.
func (q *Queue) closeBy(p *pool, v Verdict) {
	if v.Closed == framework.ClosedForAll {
		for l := range p.open {
			q.close(l)
		}
		return
	}
	if l, ok := p.waitlists[anyPod]; ok && v.Closed == framework.ClosedForMost {
		q.close(l)
	}
	for _, pod := range v.FullOn {
		if l, ok := p.waitlists[pod]; ok {
			q.close(l)
		}
	}
}

// next is the class to try: the oldest of those that are not parked or that an open list has; nil when there is none.
func (p *pool) next() *class {
	var oldest *class
	if p.active.len() > 0 {
		oldest = p.active.first()
	}
	for l := range p.open {
		if c := l.waiting.first().class; oldest == nil || olderHead(c, oldest) {
			oldest = c
		}
	}
	return oldest
}
