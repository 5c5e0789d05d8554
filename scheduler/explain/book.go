// Package explain decides which waiting Runs have to be told why they wait, and when.
//
// Every word costs an API write, and a burst of a thousand Runs must not cost a thousand of them while there are Runs to
// bind. So a Run is told nothing in its first second; Runs with the same verdict form a group whose verdict is stored
// once; a verdict that says something new counts after a second, one in which only numbers differ after ten; and the
// caller bounds how many are written at a time.
//
// No call costs more than the Runs that it returns, plus the groups that have something to tell. A Book is not safe for
// concurrent use, and reads no clock.
package explain

import (
	"container/list"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/telemetry/events"
)

const (
	// patience is how long a Run waits before it is told why.
	patience = time.Second
	// newsInterval is the least time between two verdicts of a group that differ in words.
	newsInterval = time.Second
	// numbersInterval is the least time between two verdicts of a group that differ in numbers only.
	numbersInterval = 10 * time.Second

	// maxSteps bounds the work of one call on Runs that turn out to know already, and on groups with nobody to tell yet.
	maxSteps = 1000
)

// Verdict is what a Run is told: the reason and message of its condition Scheduled.
type Verdict struct {
	Reason, Message string
}

// Note is a Run that is to be told a verdict.
type Note struct {
	Run     types.UID
	Verdict Verdict
}

// Book is the waiting Runs and what they were told.
type Book struct {
	waiters map[types.UID]*waiter
	groups  map[string]*group
	// unsettled are the groups with a verdict that has to mature.
	unsettled map[*group]struct{}
	// behind are the groups with Runs that may not know the verdict, as *group, each once.
	behind list.List
}

type group struct {
	name    string
	members int
	// verdict is what members are told, latest what was concluded last.
	verdict, latest Verdict
	// changed is when verdict became what it is; zero before the first.
	changed time.Time
	// stale are the members that may not know the verdict, told are those that do.
	stale, told *node
	// turn is the group's place in behind, nil while it is not there.
	turn *list.Element
}

type waiter struct {
	node
	run   types.UID
	group *group
	since time.Time
	knows Verdict
}

// New makes an empty Book.
func New() *Book {
	return &Book{waiters: map[types.UID]*waiter{}, groups: map[string]*group{}, unsettled: map[*group]struct{}{}}
}

// Len is the number of waiting Runs.
func (b *Book) Len() int { return len(b.waiters) }

// Wait enters a Run that waits in a group since a time, and what its condition says now. Entering it again updates what
// it knows and, if the group is another one, moves it; the time it waits since stays.
func (b *Book) Wait(run types.UID, groupName string, since time.Time, knows Verdict) {
	if w, ok := b.waiters[run]; ok {
		if w.group.name == groupName {
			w.knows = knows
			b.restale(w)
			return
		}
		since = w.since
		b.Forget(run)
	}
	g, ok := b.groups[groupName]
	if !ok {
		g = &group{name: groupName, stale: newRing(), told: newRing()}
		b.groups[groupName] = g
	}
	w := &waiter{run: run, group: g, since: since, knows: knows}
	w.alone(w)
	b.waiters[run] = w
	g.members++
	b.restale(w)
}

// restale puts a waiter among those that may not know, unless it is known that it does.
func (b *Book) restale(w *waiter) {
	w.leave()
	if !w.group.changed.IsZero() && w.knows == w.group.verdict {
		w.group.told.pushBack(&w.node)
		return
	}
	w.group.stale.pushBack(&w.node)
	b.enqueue(w.group)
}

// Forget takes a Run out: it does not wait any more.
func (b *Book) Forget(run types.UID) {
	w, ok := b.waiters[run]
	if !ok {
		return
	}
	delete(b.waiters, run)
	w.leave()
	w.group.members--
	if w.group.members == 0 {
		delete(b.groups, w.group.name)
		delete(b.unsettled, w.group)
		b.dequeue(w.group)
	}
}

// Conclude stores why the Runs of a group wait.
func (b *Book) Conclude(groupName string, v Verdict, now time.Time) {
	g, ok := b.groups[groupName]
	if !ok {
		return
	}
	g.latest = v
	b.mature(g, now)
}

// mature makes the latest verdict the group's own, if it is time.
func (b *Book) mature(g *group, now time.Time) {
	switch {
	case g.changed.IsZero():
	case g.latest == g.verdict:
		delete(b.unsettled, g)
		return
	case now.Sub(g.changed) < newsInterval,
		sameWords(g.latest, g.verdict) && now.Sub(g.changed) < numbersInterval:
		b.unsettled[g] = struct{}{}
		return
	}
	delete(b.unsettled, g)
	g.verdict, g.changed = g.latest, now
	g.stale.prepend(g.told)
	b.enqueue(g)
}

// Due returns at most limit Runs that are to be told something now, and takes them as told.
func (b *Book) Due(now time.Time, limit int) []Note {
	for g := range b.unsettled {
		b.mature(g, now)
	}
	var notes []Note
	var resting []*group
	for steps := maxSteps; b.behind.Len() > 0 && len(notes) < limit && steps > 0; steps-- {
		g, ok := b.behind.Front().Value.(*group)
		if !ok {
			break // never: enqueue puts groups in only
		}
		b.dequeue(g)
		w := g.next(now)
		if w == nil {
			resting = append(resting, g)
			continue
		}
		w.leave()
		g.told.pushBack(&w.node)
		b.enqueue(g) // at the end: groups take turns
		if w.knows != g.verdict {
			w.knows = g.verdict
			notes = append(notes, Note{Run: w.run, Verdict: g.verdict})
		}
	}
	for _, g := range resting {
		b.enqueue(g)
	}
	return notes
}

// next is the member whose turn it is to be told, nil when it is nobody's yet.
func (g *group) next(now time.Time) *waiter {
	if g.stale.empty() || g.changed.IsZero() {
		return nil
	}
	w := g.stale.next.waiter
	// Members enter in the order in which they began to wait, near enough.
	if now.Sub(w.since) < patience {
		return nil
	}
	return w
}

// enqueue remembers a group that has Runs to tell.
func (b *Book) enqueue(g *group) {
	if g.turn == nil && !g.stale.empty() {
		g.turn = b.behind.PushBack(g)
	}
}

// dequeue forgets a group that enqueue remembers.
func (b *Book) dequeue(g *group) {
	if g.turn != nil {
		b.behind.Remove(g.turn)
		g.turn = nil
	}
}

// sameWords tells whether the verdicts differ in numbers at most.
func sameWords(a, b Verdict) bool {
	return a.Reason == b.Reason && events.Words(a.Message) == events.Words(b.Message)
}
