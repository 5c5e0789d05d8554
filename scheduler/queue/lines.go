package queue

import (
	"container/list"

	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/scheduler/framework"
)

// pool is the queue of one Runtime.
type pool struct {
	key     types.NamespacedName
	lines   map[string]*line
	classes map[string]*class
	// active are the classes that are not parked, the one with the oldest Run first.
	active ordered[*class]
	// turn is the pool's place in turns, nil while active is empty.
	turn *list.Element
	// rounds holds all lines, as *line, those first that Waiting has not come by for the longest time; round counts its rounds.
	rounds list.List
	round  uint64
	// waitlists are the parked classes that wait for units on any Pod, or of the Pod. None is empty. Open are those that are.
	waitlists map[types.UID]*waitlist
	open      map[*waitlist]struct{}
}

// line is Runs whose verdicts stay the same, in order of creation.
type line struct {
	name  string
	class *class
	items ordered[*item]
	place int
	// turn is the line's place in pool.rounds, round the last one in which Waiting has come by.
	turn  *list.Element
	round uint64
}

// class is lines whose verdicts are the same for now.
type class struct {
	name  string
	pool  *pool
	lines ordered[*line]
	place int
	// parked is true while the class waits. The rest is what it waits for then.
	parked bool
	wakeOn framework.Events
	waits  []*wait
	seeks  []sought
	// workspace is the one that the Runs of the class refer to; the zero value when there is none.
	workspace types.NamespacedName
}

// pool returns the queue of a Runtime.
func (q *Queue) pool(key types.NamespacedName) *pool {
	p, ok := q.pools[key]
	if !ok {
		p = &pool{
			key: key, lines: map[string]*line{}, classes: map[string]*class{},
			active:    newOrdered(olderHead, func(c *class) *int { return &c.place }),
			waitlists: map[types.UID]*waitlist{}, open: map[*waitlist]struct{}{},
		}
		q.pools[key] = p
	}
	return p
}

func (p *pool) class(name string) *class {
	c, ok := p.classes[name]
	if !ok {
		c = &class{name: name, pool: p, lines: newOrdered(olderLine, func(l *line) *int { return &l.place })}
		p.classes[name] = c
	}
	return c
}

// insert puts an item into a line. A new line is a class of its own name.
func (q *Queue) insert(i *item, name string) {
	p := q.pool(i.run.RuntimeKey())
	l, ok := p.lines[name]
	if !ok {
		l = &line{name: name, items: newOrdered(older, func(i *item) *int { return &i.place })}
		p.lines[name], l.turn = l, p.rounds.PushBack(l)
	}
	i.line = l
	l.items.push(i)
	if !ok {
		q.join(l, p.class(name))
		return
	}
	l.class.refresh(l)
}

// withdraw takes an item out of its line, and the line with it when it was the last.
func (q *Queue) withdraw(i *item) {
	l := i.line
	l.items.remove(i)
	if l.items.len() > 0 {
		l.class.refresh(l)
		return
	}
	p := l.class.pool
	q.leave(l)
	delete(p.lines, l.name)
	p.rounds.Remove(l.turn)
	if len(p.lines) == 0 {
		delete(q.pools, p.key)
	}
}

// waiter describes the class by its oldest Run.
func (c *class) waiter() Waiter {
	l := c.lines.first()
	i := l.items.first()
	return Waiter{Run: i.run, Order: i.order, Class: c.name, Line: l.name}
}

// refresh brings the places of a line and of its class in order after the line's oldest Run may have changed.
func (c *class) refresh(l *line) {
	c.lines.fix(l)
	c.moved()
}

// moved brings the place of a class in order after its oldest Run may have changed.
func (c *class) moved() {
	if c.parked {
		c.reorder()
		return
	}
	c.pool.active.fix(c)
}

// join puts a line into a class.
func (q *Queue) join(l *line, c *class) {
	l.class = c
	c.lines.push(l)
	if !c.parked && c.lines.len() == 1 {
		q.activate(c)
		return
	}
	c.moved()
}

// leave takes a line out of its class, and the class with it when it was the last.
func (q *Queue) leave(l *line) {
	c := l.class
	c.lines.remove(l)
	switch {
	case c.lines.len() == 0 && c.parked:
		q.forgetWaits(c)
		delete(c.pool.classes, c.name)
	case c.lines.len() == 0:
		q.deactivate(c)
		delete(c.pool.classes, c.name)
	default:
		c.moved()
	}
}

// park makes a class wait for what helps against a verdict.
func (q *Queue) park(c *class, run *framework.RunInfo, v Verdict) {
	p := c.pool
	if c.parked {
		q.forgetWaits(c)
	} else {
		q.deactivate(c)
	}
	c.parked, c.wakeOn = true, v.WakeOn
	q.closeBy(p, v)
	if v.WakeOn.Has(framework.CapacityFreed) {
		if v.FreedOn == nil {
			p.waitlist(anyPod).enter(c)
		}
		for _, pod := range v.FreedOn {
			p.waitlist(pod).enter(c)
		}
	}
	q.seekers.enter(c, run)
	if run.Workspace != nil {
		c.workspace = run.WorkspaceKey()
		if q.guests[c.workspace] == nil {
			q.guests[c.workspace] = map[*class]struct{}{}
		}
		q.guests[c.workspace][c] = struct{}{}
	}
}

func (q *Queue) unpark(c *class) {
	q.forgetWaits(c)
	q.activate(c)
}

// forgetWaits undoes park, except that the class is not active then.
func (q *Queue) forgetWaits(c *class) {
	q.seekers.withdraw(c)
	q.leaveWorkspace(c)
	q.withdrawWaits(c)
	c.parked, c.wakeOn = false, 0
}

// leaveWorkspace takes a class out of guests.
func (q *Queue) leaveWorkspace(c *class) {
	if guests, ok := q.guests[c.workspace]; ok {
		delete(guests, c)
		if len(guests) == 0 {
			delete(q.guests, c.workspace)
		}
	}
	c.workspace = types.NamespacedName{}
}

// activate puts a class among those to try.
func (q *Queue) activate(c *class) {
	c.pool.active.push(c)
	q.review(c.pool)
}

// deactivate undoes activate.
func (q *Queue) deactivate(c *class) {
	c.pool.active.remove(c)
	q.review(c.pool)
}

// review gives a Runtime a turn if it has a class to try. One that has none loses it at once: nobody may ever ask for it.
func (q *Queue) review(p *pool) {
	ready := p.active.len() > 0 || len(p.open) > 0
	switch {
	case ready && p.turn == nil:
		p.turn = q.turns.PushBack(p)
	case !ready && p.turn != nil:
		q.turns.Remove(p.turn)
		p.turn = nil
	}
}

func older(a, b *item) bool { return a.order.Before(b.order) }

// olderLine orders lines by their oldest Run. One that is being taken out may have none; it goes first.
func olderLine(a, b *line) bool {
	switch {
	case a.items.len() == 0:
		return b.items.len() > 0
	case b.items.len() == 0:
		return false
	}
	return older(a.items.first(), b.items.first())
}

// olderHead orders classes by their oldest line. One that is being taken out may have none; it goes first.
func olderHead(a, b *class) bool {
	switch {
	case a.lines.len() == 0:
		return b.lines.len() > 0
	case b.lines.len() == 0:
		return false
	}
	return olderLine(a.lines.first(), b.lines.first())
}
