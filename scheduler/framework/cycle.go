package framework

// StateKey names a plugin's private entry in the cycle.
type StateKey string

// Cycle is one attempt to place one Run: what it rests on, and what plugins have computed about it.
type Cycle struct {
	// Run is being placed.
	Run *RunInfo
	// Snapshot is what the decision rests on.
	Snapshot *Snapshot

	state   map[StateKey]any
	skipped uint64
}

// Keep stores a plugin's value for the later extension points of this cycle.
func (c *Cycle) Keep(key StateKey, value any) {
	if c.state == nil {
		c.state = map[StateKey]any{}
	}
	c.state[key] = value
}

// Kept returns what Keep has stored under key, or nil.
func (c *Cycle) Kept(key StateKey) any { return c.state[key] }

func (c *Cycle) skip(plugin int)       { c.skipped |= 1 << plugin }
func (c *Cycle) skips(plugin int) bool { return c.skipped&(1<<plugin) != 0 }
