// Package queue holds the Runs that wait for a Pod and says which of them to try next.
//
// Each Runtime has its own queue, in order of creation. Runs of one Runtime that get the same verdict from the same
// snapshot form a class: when the oldest of a class does not fit, the class is parked, and none of the others costs
// a cycle. Runs whose verdicts stay the same for ever are a line; a class is made of lines, in order of their oldest
// Runs. While no rule about other Runs takes a Pod away from them, lines share the class of those without such rules,
// so that a thousand affinities that any Pod would meet cost one cycle for each freed slot, not a thousand. An event that
// may help makes the classes that wait for it candidates; they are then tried from the oldest Run on, each until one does
// not fit. Of the classes that wait for units, none is tried any more once it is known that no Run at all fits. So a
// freed slot costs one cycle for each Run that it serves, one to see that it is taken, and one for each class that it is too
// small for, however long the backlog is.
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
	turns list.List
	// seekers are the parked classes that wait for Runs that they require near.
	seekers seekers
	// guests are the parked classes whose Runs refer to a workspace.
	guests  map[types.NamespacedName]map[*class]struct{}
	delayed ordered[*item]
}

type item struct {
	run   *framework.RunInfo
	order Order
	// line is nil while the item is delayed, until due.
	line  *line
	due   time.Time
	place int
}

// Verdict is why a Run that was popped does not fit; see framework.Diagnosis.
type Verdict struct {
	Class, Line string
	WakeOn      framework.Events
	FreedOn     []types.UID
	Closed      framework.Closed
	FullOn      []types.UID
}

// Waiter is a parked class: its oldest Run, with that one's line, and the names of some of its lines.
type Waiter struct {
	Run   *framework.RunInfo
	Order Order
	Class string
	Line  string
	Lines []string
}

// maxLines bounds how many lines Waiting comes by.
const maxLines = 512

// New makes an empty Queue.
func New() *Queue {
	return &Queue{
		items:   map[types.UID]*item{},
		pools:   map[types.NamespacedName]*pool{},
		seekers: seekers{},
		guests:  map[types.NamespacedName]map[*class]struct{}{},
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
	q.insert(i, run.Class)
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
	if i.line == nil {
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

// Pop takes out the Run to try next: of the Runtime whose turn it is, the oldest in a class that is not parked, or waits for
// units that have become free.
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
	c := p.next()
	if c.parked {
		q.unpark(c)
	}
	i := c.lines.first().items.first()
	delete(q.items, i.run.UID)
	q.withdraw(i)
	return i.run, i.order, true
}

// Park puts a Run that Pop has returned back to its place, in the line of the verdict, and makes the class of the verdict,
// to which that line then belongs, wait for one of the events.
func (q *Queue) Park(run *framework.RunInfo, order Order, v Verdict) {
	q.Remove(run.UID)
	i := &item{run: run, order: order}
	q.items[run.UID] = i
	q.insert(i, v.Line)
	if l := i.line; l.class.name != v.Class {
		p := l.class.pool
		q.leave(l)
		q.join(l, p.class(v.Class))
	}
	q.park(i.line.class, run, v)
}

// Wake makes the classes of a Runtime that wait for one of the events candidates for Pop; pod, if any, is where units became
// free. It tells whether there was one.
func (q *Queue) Wake(runtime types.NamespacedName, events framework.Events, pod types.UID) bool {
	p, ok := q.pools[runtime]
	if !ok || events == 0 {
		return false
	}
	woken := false
	if events.Has(framework.CapacityFreed) {
		woken = q.open(p, anyPod)
		if pod != anyPod {
			woken = q.open(p, pod) || woken
		}
	}
	others := events &^ framework.CapacityFreed
	if events.Has(framework.CapacityFreed) && pod == "" {
		others = events
	}
	if others == 0 {
		return woken
	}
	for _, c := range p.classes {
		if c.parked && c.wakeOn.Has(others) {
			q.unpark(c)
			woken = true
		}
	}
	return woken
}

// WakeForWorkspace unparks the classes whose Runs refer to a workspace. It returns their Runtimes.
func (q *Queue) WakeForWorkspace(workspace types.NamespacedName) []types.NamespacedName {
	var woken []types.NamespacedName
	for c := range q.guests[workspace] {
		woken = append(woken, c.pool.key)
		q.unpark(c)
	}
	return woken
}

// Retry unparks the class of a Run, whatever it waits for.
func (q *Queue) Retry(run types.UID) {
	if i, ok := q.items[run]; ok && i.line != nil && i.line.class.parked {
		q.unpark(i.line.class)
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

// Waiting goes round the lines of a Runtime and returns the parked classes that it comes by, at most limit, each with those
// of its lines. A call that begins a new round wants to see all of them again; others go on with the round that was begun.
// It tells whether there are more.
func (q *Queue) Waiting(runtime types.NamespacedName, begin bool, limit int) (waiters []Waiter, more bool) {
	p, ok := q.pools[runtime]
	if !ok {
		return nil, false
	}
	if begin {
		p.round++
	}
	at := map[*class]int{}
	for range maxLines {
		front := p.rounds.Front()
		l, ok := front.Value.(*line)
		if !ok || l.round == p.round {
			return waiters, false
		}
		c := l.class
		i, known := at[c]
		if c.parked && !known {
			if len(waiters) == limit {
				return waiters, true
			}
			i = len(waiters)
			at[c] = i
			waiters = append(waiters, c.waiter())
		}
		if c.parked {
			waiters[i].Lines = append(waiters[i].Lines, l.name)
		}
		l.round = p.round
		p.rounds.MoveToBack(front)
	}
	return waiters, true
}

// ClassOf names the class in which a Run waits; false when it is in none.
func (q *Queue) ClassOf(run types.UID) (string, bool) {
	i, ok := q.items[run]
	if !ok || i.line == nil {
		return "", false
	}
	return i.line.class.name, true
}
