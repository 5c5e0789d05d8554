// Package measure says how times are measured, so that figures of different components can be compared.
package measure

import "time"

// LatencyBuckets returns the bounds, in seconds, between which latencies are counted: from a millisecond, which the fastest
// steps of a Run take, to an hour.
func LatencyBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}
}

// DurationBuckets returns the bounds, in seconds, between which executions are counted: from a hundredth of a second to a day.
func DurationBuckets() []float64 {
	return []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800, 3600, 4 * 3600, 24 * 3600}
}

// CreatedAt estimates when an object was created. Its creationTimestamp holds whole seconds, cut off, which is too coarse
// for a system that answers in milliseconds. Whoever watched it being created saw it at firstSeen, a moment later: that
// counts where it lies within the second. Else, as after a restart, the middle of the second does.
func CreatedAt(creationTimestamp, firstSeen time.Time) time.Time {
	switch end := creationTimestamp.Add(time.Second); {
	case firstSeen.Before(creationTimestamp):
		return creationTimestamp // The clocks differ.
	case firstSeen.Before(end):
		return firstSeen
	default:
		return creationTimestamp.Add(time.Second / 2)
	}
}
