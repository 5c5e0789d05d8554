package workspace

import "sync"

// Occupancy keeps who uses workspaces and who removes them apart: nobody enters a workspace that is being removed, and
// nobody removes one that somebody is in. The zero value is ready for use.
type Occupancy struct {
	mu     sync.Mutex
	users  map[string]int
	closed map[string]bool
}

// Enter notes one more user of a workspace. It returns false, and notes nothing, while the workspace is being removed.
func (o *Occupancy) Enter(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed[name] {
		return false
	}
	if o.users == nil {
		o.users = map[string]int{}
	}
	o.users[name]++
	return true
}

// Leave takes an Enter back.
func (o *Occupancy) Leave(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users[name]--; o.users[name] == 0 {
		delete(o.users, name)
	}
}

// Close keeps everybody out until Open. It returns false, and changes nothing, while somebody is in.
func (o *Occupancy) Close(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users[name] > 0 {
		return false
	}
	if o.closed == nil {
		o.closed = map[string]bool{}
	}
	o.closed[name] = true
	return true
}

// Open takes a Close back.
func (o *Occupancy) Open(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.closed, name)
}
