// Package queue holds the Runs that wait for a Pod and says which of them to try next.
//
// Each Runtime has its own queue, in order of creation. Runs of one Runtime that get the same verdict from the same
// snapshot form a class: when the oldest of a class does not fit, the class is parked, and none of the others costs
// a cycle. An event that may help unparks the classes that wait for it; they are then tried from the oldest Run on,
// until one does not fit. So a freed slot costs one cycle for each Run that it serves and one for each class that it
// cannot serve, however long the backlog is.
//
//	         Add                  Pop                    placed: it stays out
//	(none) -------> in its class -------> with the caller ------------------->
//	   |               ^   ^                    |
//	   | AddAt         |   +---- Park ----------+  does not fit: back to its place, and the class waits for events
//	   +---> delayed --+ Due, then Add
//
// Runtimes take turns, one Run each, so that the backlog of one does not hold up another.
//
// Starvation: within a class, creation order is strict. Between the classes of a Runtime the oldest Run that fits goes
// first, so a Run that cannot be placed never blocks smaller ones behind it. A large Run could then wait as long as
// smaller ones keep every Pod from getting empty enough. The scheduler ends that by holding a Pod: no Run may take what
// the oldest Run that has waited too long needs there (see hold.go in package scheduler).
//
// A Queue is not safe for concurrent use.
package queue

import (
	"cmp"
	"container/list"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/scheduler/framework"
)

// Order is the place of a Run among those of its Runtime.
type Order struct {
	// Created is the creationTimestamp, in Unix seconds.
	Created int64
	// Version is the resourceVersion under which the Run was first seen: for a Run that nobody has written since, the
	// one that it was created under. It orders Runs of the same second.
	Version uint64
	// Name breaks what ties are left.
	Name string
}

// Before tells whether o goes first.
func (o Order) Before(p Order) bool {
	return cmp.Or(cmp.Compare(o.Created, p.Created), cmp.Compare(o.Version, p.Version), cmp.Compare(o.Name, p.Name)) < 0
}

// Queue is the waiting Runs. See the package's comment.
type Queue struct {
	items map[types.UID]*item
	pools map[types.NamespacedName]*pool
	// turns holds the Runtimes that have a class to try, as *pool, each once, first come first.
	turns   list.List
	delayed ordered[*item]
}

type item struct {
	run   *framework.RunInfo
	order Order
	// class is nil while the item is delayed, until due.
	class *class
	due   time.Time
	place int
}

// pool is the queue of one Runtime.
type pool struct {
	classes map[string]*class
	// active are the classes that are not parked, the one with the oldest Run first.
	active ordered[*class]
	// turn is the pool's place in turns, nil while active is empty.
	turn *list.Element
}

type class struct {
	name   string
	pool   *pool
	items  ordered[*item]
	parked bool
	wakeOn framework.Events
	place  int
}

// New makes an empty Queue.
func New() *Queue {
	return &Queue{
		items:   map[types.UID]*item{},
		pools:   map[types.NamespacedName]*pool{},
		delayed: newOrdered(func(a, b *item) bool { return a.due.Before(b.due) }, func(i *item) *int { return &i.place }),
	}
}

// Len is the number of Runs in the queue.
func (q *Queue) Len() int { return len(q.items) }

// Has tells whether the Run is in the queue.
func (q *Queue) Has(uid types.UID) bool {
	_, ok := q.items[uid]
	return ok
}

// HasAny tells whether a Run of the Runtime is in the queue and not delayed.
func (q *Queue) HasAny(runtime types.NamespacedName) bool {
	_, ok := q.pools[runtime]
	return ok
}

// Add puts a Run into its class. If the class is parked the Run is not tried before an event unparks it. A Run that is
// in the queue already is replaced.
func (q *Queue) Add(run *framework.RunInfo, order Order) {
	q.Remove(run.UID)
	i := &item{run: run, order: order}
	q.items[run.UID] = i
	q.insert(i)
}

// AddAt puts a Run into its class once due has come. A Run that is in the queue already is replaced.
func (q *Queue) AddAt(run *framework.RunInfo, order Order, due time.Time) {
	q.Remove(run.UID)
	i := &item{run: run, order: order, due: due}
	q.items[run.UID] = i
	q.delayed.push(i)
}

// Remove takes a Run out.
func (q *Queue) Remove(uid types.UID) {
	i, ok := q.items[uid]
	if !ok {
		return
	}
	delete(q.items, uid)
	if i.class == nil {
		q.delayed.remove(i)
		return
	}
	q.withdraw(i)
}

// NextDue tells when the next delayed Run is due.
func (q *Queue) NextDue() (due time.Time, ok bool) {
	if q.delayed.len() == 0 {
		return time.Time{}, false
	}
	return q.delayed.first().due, true
}

// Due takes out the delayed Runs whose time has come.
func (q *Queue) Due(now time.Time) []*framework.RunInfo {
	var due []*framework.RunInfo
	for q.delayed.len() > 0 && !q.delayed.first().due.After(now) {
		i := q.delayed.first()
		q.delayed.remove(i)
		delete(q.items, i.run.UID)
		due = append(due, i.run)
	}
	return due
}

// Pop takes out the Run to try next: of the Runtime whose turn it is, the oldest in a class that is not parked.
func (q *Queue) Pop() (run *framework.RunInfo, order Order, ok bool) {
	turn := q.turns.Front()
	if turn == nil {
		return nil, Order{}, false
	}
	p, ok := turn.Value.(*pool)
	if !ok {
		return nil, Order{}, false // never: enqueue puts pools in only
	}
	q.turns.MoveToBack(turn)
	i := p.active.first().items.first()
	delete(q.items, i.run.UID)
	q.withdraw(i)
	return i.run, i.order, true
}

// Park puts a Run that Pop has returned back to its place, and makes its class wait for one of the events.
func (q *Queue) Park(run *framework.RunInfo, order Order, wakeOn framework.Events) {
	q.Add(run, order)
	c := q.items[run.UID].class
	if !c.parked {
		q.deactivate(c)
		c.parked = true
	}
	c.wakeOn = wakeOn
}

// Wake unparks the classes of a Runtime that wait for one of the events. It tells whether there was one.
func (q *Queue) Wake(runtime types.NamespacedName, events framework.Events) bool {
	p, ok := q.pools[runtime]
	if !ok || events == 0 {
		return false
	}
	woken := false
	for _, c := range p.classes {
		if c.parked && c.wakeOn.Has(events) {
			q.unpark(c)
			woken = true
		}
	}
	return woken
}

// Retry unparks the class of a Run, whatever it waits for.
func (q *Queue) Retry(run types.UID) {
	if i, ok := q.items[run]; ok && i.class != nil && i.class.parked {
		q.unpark(i.class)
	}
}

// WakeAll unparks everything: the safety net under the events.
func (q *Queue) WakeAll() {
	for _, p := range q.pools {
		for _, c := range p.classes {
			if c.parked {
				q.unpark(c)
			}
		}
	}
}

// Waiting returns the oldest Run of each parked class of a Runtime, in no particular order.
func (q *Queue) Waiting(runtime types.NamespacedName) []*framework.RunInfo {
	p, ok := q.pools[runtime]
	if !ok {
		return nil
	}
	var heads []*framework.RunInfo
	for _, c := range p.classes {
		if c.parked {
			heads = append(heads, c.items.first().run)
		}
	}
	return heads
}

// insert puts an item into its class.
func (q *Queue) insert(i *item) {
	key := i.run.RuntimeKey()
	p, ok := q.pools[key]
	if !ok {
		p = &pool{classes: map[string]*class{}, active: newOrdered(olderHead, func(c *class) *int { return &c.place })}
		q.pools[key] = p
	}
	c, ok := p.classes[i.run.Class]
	if !ok {
		c = &class{name: i.run.Class, pool: p, items: newOrdered(older, func(i *item) *int { return &i.place })}
		p.classes[c.name] = c
	}
	i.class = c
	c.items.push(i)
	switch {
	case c.parked:
	case c.items.len() == 1:
		q.activate(c)
	default:
		p.active.fix(c)
	}
}

// withdraw takes an item out of its class, and the class with it when it was the last.
func (q *Queue) withdraw(i *item) {
	c := i.class
	c.items.remove(i)
	if c.items.len() > 0 {
		if !c.parked {
			c.pool.active.fix(c)
		}
		return
	}
	// The heap still compares the class with others on its way out, so it must not look at the missing head.
	if !c.parked {
		q.deactivate(c)
	}
	delete(c.pool.classes, c.name)
	if len(c.pool.classes) == 0 {
		delete(q.pools, i.run.RuntimeKey())
	}
}

func (q *Queue) unpark(c *class) {
	c.parked, c.wakeOn = false, 0
	q.activate(c)
}

// activate puts a class among those to try, and gives its Runtime a turn if it has none yet.
func (q *Queue) activate(c *class) {
	p := c.pool
	p.active.push(c)
	if p.turn == nil {
		p.turn = q.turns.PushBack(p)
	}
}

// deactivate undoes activate. A Runtime without a class to try loses its turn at once: nobody may ever ask for it.
func (q *Queue) deactivate(c *class) {
	p := c.pool
	p.active.remove(c)
	if p.active.len() == 0 {
		q.turns.Remove(p.turn)
		p.turn = nil
	}
}

func older(a, b *item) bool { return a.order.Before(b.order) }

// olderHead orders classes by their oldest Run. A class that is being taken out may have none; it goes first.
func olderHead(a, b *class) bool {
	switch {
	case a.items.len() == 0:
		return b.items.len() > 0
	case b.items.len() == 0:
		return false
	}
	return older(a.items.first(), b.items.first())
}
