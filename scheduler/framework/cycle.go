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
	// narrowed and against are what Narrow was told.
	narrowed bool
	against  string
}

// Narrow tells, in PreFilter, that the plugin leaves Pods out for this Run which other Runs of its base may get. The Run
// then waits apart from those. If that depends on more of the Run than its class tells, against names what takes Pods
// away from it and not from every Run of the class: those with the same against wait together.
func (c *Cycle) Narrow(against string) {
	c.narrowed = true
	c.against += against
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

// classes are the names of Diagnosis.Class and Diagnosis.Line.
func (c *Cycle) classes() (class, line string) {
	line = c.Run.Class
	if c.against != "" {
		line += ";against=" + c.against
	}
	if c.narrowed {
		return line, line
	}
	return c.Run.Base, line
}
