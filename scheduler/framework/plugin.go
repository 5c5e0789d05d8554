package framework

// Score bounds of one plugin, before its weight.
const (
	MinScore int64 = 0
	MaxScore int64 = 100
)

// Plugin is what every plugin is. A plugin serves the extension points whose interfaces it implements. It holds no
// client, clock or lock: what it needs besides the cycle it is given by its constructor.
type Plugin interface {
	// Name identifies the plugin in configuration, logs and metrics.
	Name() string
}

// PreFilterPlugin looks at the Run once, before any Pod.
type PreFilterPlugin interface {
	Plugin
	// PreFilter may reject the Run for every Pod, or return Skip to leave this plugin out of the cycle. What Filter
	// and Score need for every Pod is computed here and kept in the cycle. The snapshot's Runtime may be nil and its
	// Pods may be empty.
	PreFilter(c *Cycle) *Status
}

// FilterPlugin judges one Pod.
type FilterPlugin interface {
	Plugin
	// Filter rejects a Pod, or returns nil. It is called for Pods that no plugin before it has rejected, in order of
	// their names, and only when the snapshot has a Runtime or no PreFilter objected to its absence.
	Filter(c *Cycle, pod *PodInfo) *Status
}

// ScorePlugin ranks the Pods that are left.
type ScorePlugin interface {
	Plugin
	// Score returns any number, larger is better. It is called only when at least two Pods are left.
	Score(c *Cycle, pod *PodInfo) int64
	// Normalize brings the scores of all Pods into MinScore to MaxScore, in place. Scaled does it for most plugins.
	Normalize(c *Cycle, scores []int64)
}

// ReservePlugin keeps books beyond the capacity that the cache keeps.
type ReservePlugin interface {
	Plugin
	// Reserve claims what the Run needs on the Pod. A rejection undoes, with Unreserve, the plugins that came before.
	Reserve(c *Cycle, pod *PodInfo) *Status
	// Unreserve undoes Reserve. It is called also for plugins whose Reserve was not reached, and must be idempotent.
	Unreserve(c *Cycle, pod *PodInfo)
}

// EventsPlugin is implemented by every plugin that rejects.
type EventsPlugin interface {
	Plugin
	// EventsToRegister returns the events after which a Run that this plugin has rejected may fit. No other wakes it.
	EventsToRegister() Events
}

// Scaled maps scores linearly to MinScore to MaxScore by their own smallest and largest; equal ones become MaxScore.
func Scaled(scores []int64) {
	if len(scores) == 0 {
		return
	}
	low, high := scores[0], scores[0]
	for _, s := range scores {
		low, high = min(low, s), max(high, s)
	}
	for i, s := range scores {
		if high == low {
			scores[i] = MaxScore
			continue
		}
		// Floating point keeps spans of more than MaxInt64/100 from overflowing.
		scores[i] = int64(float64(MaxScore) * ((float64(s) - float64(low)) / (float64(high) - float64(low))))
	}
}
