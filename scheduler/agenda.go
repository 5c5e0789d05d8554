package scheduler

import (
	"container/list"

	"k8s.io/apimachinery/pkg/types"
)

// agenda is the Runtimes on whose waiting Runs there is something to conclude. They take turns.
type agenda struct {
	entries map[types.NamespacedName]*list.Element
	// turns holds the entries, as *agendaEntry, first come first.
	turns list.List
}

type agendaEntry struct {
	key types.NamespacedName
	// changed tells that something has changed since all was concluded last; else there are some left that were not.
	changed bool
}

func newAgenda() *agenda { return &agenda{entries: map[types.NamespacedName]*list.Element{}} }

func (a *agenda) len() int { return len(a.entries) }

// add notes that a Runtime has changed.
func (a *agenda) add(key types.NamespacedName) { a.put(key, true) }

// put enters a Runtime, unless it is there. Once changed it stays changed.
func (a *agenda) put(key types.NamespacedName, changed bool) {
	e, ok := a.entries[key]
	if !ok {
		a.entries[key] = a.turns.PushBack(&agendaEntry{key: key, changed: changed})
		return
	}
	if entry, ok := e.Value.(*agendaEntry); ok && changed {
		entry.changed = true
	}
}

// drop takes a Runtime out.
func (a *agenda) drop(key types.NamespacedName) {
	if e, ok := a.entries[key]; ok {
		a.turns.Remove(e)
		delete(a.entries, key)
	}
}

// take takes the Runtime out whose turn it is.
func (a *agenda) take() (agendaEntry, bool) {
	front := a.turns.Front()
	if front == nil {
		return agendaEntry{}, false
	}
	entry, ok := front.Value.(*agendaEntry)
	if !ok {
		return agendaEntry{}, false // never: put puts entries in only
	}
	a.drop(entry.key)
	return *entry, true
}
