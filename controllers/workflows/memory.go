package workflows

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

const (
	// firstHold and maxHold bound how long the creation of a child waits after a refusal that may pass; it doubles in
	// between.
	firstHold = time.Second
	maxHold   = 30 * time.Second
	// A status of manySteps takes the API server long to write. Where manyChildren of such a WorkflowRun are active, writes
	// are paceOfChild apart for each of them, up to maxPace, so that one write tells of many ends.
	manySteps, manyChildren = 128, 4
	paceOfChild             = 5 * time.Millisecond
	maxPace                 = 300 * time.Millisecond
)

// memory is what the controller knows beyond its caches: the newest form of each WorkflowRun that it has written, the
// children and workspaces that it has created and its cache has not shown, and those whose creation is held back. All of it may be lost:
// a restart fills its caches first, and tries again at once.
type memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
}

// entry belongs to one WorkflowRun; a successor of the same name gets its own.
type entry struct {
	uid     types.UID
	written *workflowsv1alpha1.WorkflowRun
	// writtenAt is when the status was written last.
	writtenAt time.Time
	// unseen holds the names of created children.
	unseen map[identity]string
	// workspaces holds the names of created workspaces, until a list shows them.
	workspaces sets.Set[string]
	holds      map[identity]held
	// actions are the frozen Actions; nil before they were read.
	actions map[string]*workflowsv1alpha1.ActionSpec
}

// held is a hold with the wait that it began with.
type held struct {
	hold
	wait time.Duration
}

func newMemory() *memory { return &memory{entries: map[types.NamespacedName]*entry{}} }

// newest returns the newer one of a WorkflowRun from the cache and what was written last. A decision on an older form
// would make a child that exists already, and have its patch refused.
func (m *memory) newest(cached *workflowsv1alpha1.WorkflowRun) *workflowsv1alpha1.WorkflowRun {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(cached)
	e := m.entries[key]
	switch {
	case e == nil:
		return cached
	case e.uid != cached.UID:
		delete(m.entries, key)
		return cached
	case e.written == nil:
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
func (m *memory) wrote(run *workflowsv1alpha1.WorkflowRun, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(run)
	e.written, e.writtenAt = run, now
}

// pace returns how long the next write of a large and busy WorkflowRun has to wait. 0: not at all.
func (m *memory) pace(o *observation) time.Duration {
	steps, active := 0, len(recorded(&o.run.Status))
	for _, js := range o.run.Status.Jobs {
		for range leavesOf("", &js) {
			steps++
		}
	}
	if steps <= manySteps || active <= manyChildren || o.endsEarly() {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.known(o.run)
	if e == nil {
		return 0
	}
	return max(e.writtenAt.Add(min(time.Duration(active)*paceOfChild, maxPace)).Sub(o.now), 0)
}

// forget drops all that concerns a WorkflowRun that is gone.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// postpone holds the creation of a child back, longer each time.
func (m *memory) postpone(run *workflowsv1alpha1.WorkflowRun, id identity, reason string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, wait := m.entry(run), firstHold
	if before, ok := e.holds[id]; ok {
		wait = min(before.wait*2, maxHold)
	}
	e.holds[id] = held{hold: hold{until: now.Add(wait), reason: reason}, wait: wait}
}

// created ends the waiting of a child, and remembers its name until the cache shows it.
func (m *memory) created(run *workflowsv1alpha1.WorkflowRun, id identity, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(run)
	delete(e.holds, id)
	e.unseen[id] = name
}

// saw drops a child that the cache shows, or whose end is recorded.
func (m *memory) saw(run *workflowsv1alpha1.WorkflowRun, id identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.known(run); e != nil {
		delete(e.unseen, id)
	}
}

// unseen returns the names of the children that were created and that no cache has shown yet.
func (m *memory) unseen(run *workflowsv1alpha1.WorkflowRun) map[identity]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.known(run); e != nil {
		return maps.Clone(e.unseen)
	}
	return nil
}

// provisioned ends the waiting of a workspace, and remembers its name until a list shows it.
func (m *memory) provisioned(run *workflowsv1alpha1.WorkflowRun, id identity, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(run)
	delete(e.holds, id)
	e.workspaces.Insert(name)
}

// lacks tells whether a workspace was created that is not among the names, and that none before has shown.
func (m *memory) lacks(run *workflowsv1alpha1.WorkflowRun, names sets.Set[string]) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.known(run)
	if e == nil {
		return false
	}
	e.workspaces = e.workspaces.Difference(names)
	return e.workspaces.Len() > 0
}

// looked drops the workspaces that were created: the API server was asked for all that there are.
func (m *memory) looked(run *workflowsv1alpha1.WorkflowRun) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.known(run); e != nil {
		e.workspaces = sets.New[string]()
	}
}

// froze remembers the frozen Actions of a WorkflowRun.
func (m *memory) froze(run *workflowsv1alpha1.WorkflowRun, actions map[string]*workflowsv1alpha1.ActionSpec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(run).actions = actions
}

// frozen returns the frozen Actions of a WorkflowRun; nil where they are not known.
func (m *memory) frozen(run *workflowsv1alpha1.WorkflowRun) map[string]*workflowsv1alpha1.ActionSpec {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.known(run); e != nil {
		return e.actions
	}
	return nil
}

// holds returns the children of a WorkflowRun that wait.
func (m *memory) holds(run *workflowsv1alpha1.WorkflowRun) map[identity]hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.known(run)
	if e == nil || len(e.holds) == 0 {
		return nil
	}
	holds := make(map[identity]hold, len(e.holds))
	for id, h := range e.holds {
		holds[id] = h.hold
	}
	return holds
}

// known returns the entry of exactly this WorkflowRun, or nil.
func (m *memory) known(run *workflowsv1alpha1.WorkflowRun) *entry {
	if e := m.entries[keyOf(run)]; e != nil && e.uid == run.UID {
		return e
	}
	return nil
}

// entry returns the entry of a WorkflowRun, a new one where there is none.
func (m *memory) entry(run *workflowsv1alpha1.WorkflowRun) *entry {
	e := m.known(run)
	if e == nil {
		e = &entry{uid: run.UID, unseen: map[identity]string{}, workspaces: sets.New[string](), holds: map[identity]held{}}
		m.entries[keyOf(run)] = e
	}
	return e
}

func keyOf(run *workflowsv1alpha1.WorkflowRun) types.NamespacedName {
	return types.NamespacedName{Namespace: run.Namespace, Name: run.Name}
}
