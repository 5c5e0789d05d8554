package framework

import "strings"

// Events is a set of kinds of things that happen in the cluster. A plugin that rejects declares which of them may help.
type Events uint16

const (
	// PodAvailable means that a Pod of the Runtime has become ready, is no longer terminating, or has its Node back.
	PodAvailable Events = 1 << iota
	// CapacityFreed means that a Run has left a Pod of the Runtime.
	CapacityFreed
	// RuntimeChanged means that the Runtime was created, deleted, or that what a snapshot holds of it has changed.
	RuntimeChanged
	// NeighbourCame means that a Run was assigned or reserved to a Pod of the Runtime that the waiting Run requires near.
	NeighbourCame
	// NeighbourLeft means that a Run has left its Pod, of whatever Runtime, that both the waiting Run and others of its
	// kind require near: it may be the first of them now.
	NeighbourLeft
	// WorkspaceChanged means that the workspace of the waiting Run was created, bound, lost, released or deleted.
	WorkspaceChanged

	// neighbourEvents are the kinds that help by what a Run requires of others.
	neighbourEvents = NeighbourCame | NeighbourLeft
	// podEvents are the kinds that cannot help a Run that no Pod of the Runtime can ever take.
	podEvents = PodAvailable | CapacityFreed | neighbourEvents
)

// Has tells whether the sets share a kind.
func (e Events) Has(kinds Events) bool { return e&kinds != 0 }

// String lists the kinds, for logs and test failures.
func (e Events) String() string {
	if e == 0 {
		return "None"
	}
	var names []string
	for i, name := range []string{"PodAvailable", "CapacityFreed", "RuntimeChanged", "NeighbourCame", "NeighbourLeft", "WorkspaceChanged"} {
		if e.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}
