package workflows

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

const (
	// firstHold and maxHold bound how long the creation of a child waits after a refusal that may pass; it doubles in
	// between.
	firstHold = time.Second
	maxHold   = 30 * time.Second
)

// memory is what the controller knows beyond its cache: the newest form of each WorkflowRun that it has written, and the
// children whose creation is held back. All of it may be lost: a restart reads fresh objects and tries again at once.
type memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
}

type entry struct {
	written *workflowsv1alpha1.WorkflowRun
	holds   map[identity]held
}

// held is a hold with the wait that it began with.
type held struct {
	hold
	wait time.Duration
}

func newMemory() *memory { return &memory{entries: map[types.NamespacedName]*entry{}} }

// newest returns the newer one of a WorkflowRun from the cache and what was written last. A decision on an older form
// would make a child that exists already, and have its patch refused.
func (m *memory) newest(key types.NamespacedName, cached *workflowsv1alpha1.WorkflowRun) *workflowsv1alpha1.WorkflowRun {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil || e.written == nil || e.written.UID != cached.UID {
		return cached
	}
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, e.written.ResourceVersion)
	if err == nil && order < 0 {
		return e.written
	}
	e.written = nil
	if cached.Status.Phase.IsTerminal() {
		delete(m.entries, key)
	}
	return cached
}

// wrote remembers what the API server answered to a write.
func (m *memory) wrote(key types.NamespacedName, run *workflowsv1alpha1.WorkflowRun) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(key).written = run
}

// forget drops all that concerns a WorkflowRun that is gone or has ended.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// postpone holds the creation of a child back, longer each time.
func (m *memory) postpone(key types.NamespacedName, id identity, reason string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	wait := firstHold
	if before, ok := e.holds[id]; ok {
		wait = min(before.wait*2, maxHold)
	}
	e.holds[id] = held{hold: hold{until: now.Add(wait), reason: reason}, wait: wait}
}

// created ends the waiting of a child.
func (m *memory) created(key types.NamespacedName, id identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[key]; e != nil {
		delete(e.holds, id)
	}
}

// holds returns the children of a WorkflowRun that wait.
func (m *memory) holds(key types.NamespacedName) map[identity]hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil || len(e.holds) == 0 {
		return nil
	}
	holds := make(map[identity]hold, len(e.holds))
	for id, h := range e.holds {
		holds[id] = h.hold
	}
	return holds
}

func (m *memory) entry(key types.NamespacedName) *entry {
	e := m.entries[key]
	if e == nil {
		e = &entry{holds: map[identity]held{}}
		m.entries[key] = e
	}
	return e
}
