package workflowruns

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Change is one thing that happened to a WorkflowRun, a job or a step.
type Change struct {
	// Time is when it happened, or was seen where nobody recorded it.
	Time time.Time
	// Path of the job or step; empty for the WorkflowRun itself.
	Path string
	// Phase that it has now.
	Phase string
	// Took is how long it executed; nil while it does.
	Took *time.Duration
	// Message says why, where there is something to say.
	Message string
}

// Changes remembers what has been seen of a WorkflowRun, and tells what is new. The zero value has seen nothing.
type Changes struct {
	seen map[string]seen
}

type seen struct{ phase, message string }

// Next returns what happened since the last call, to the WorkflowRun and in its calls, in the order of time. A step that waits for its turn or for a Pod is no
// change, save that a message says what it waits for. Whatever the clocks say that recorded the times, steps come after
// the start and before the end of their job, and all before the end of the WorkflowRun.
func (c *Changes) Next(family Family, now time.Time) []Change {
	run := family.Run
	if c.seen == nil {
		c.seen = map[string]seen{}
	}
	if end := run.Status.CompletionTime; end != nil && end.Time.Before(now) {
		now = end.In(now.Location()) // what has no time of its own has happened by then
	}
	placed := c.visit(&Item{
		Phase: string(Phase(run)), Message: run.Status.Message, Start: run.Status.StartTime, End: run.Status.CompletionTime, Items: family.Jobs(),
	}, now)
	slices.SortStableFunc(placed, func(a, b placedChange) int { return a.at.Compare(b.at) })
	changes := make([]Change, len(placed))
	for i := range placed {
		changes[i] = placed[i].Change
	}
	return changes
}

// placedChange is a change and the time by which it is put among the others.
type placedChange struct {
	Change
	at time.Time
}

// visit returns the changes of an item and of those inside: its start, what happened inside, its end.
func (c *Changes) visit(item *Item, now time.Time) []placedChange {
	var changes []placedChange
	var first, last time.Time
	news, isNew := c.change(item, now)
	starts := isNew && item.state() <= running
	if starts {
		first, last = news.Time, news.Time
		changes = append(changes, placedChange{Change: news, at: first})
	}
	for i := range item.Items {
		for _, inside := range c.visit(&item.Items[i], now) {
			if inside.at.Before(first) {
				inside.at = first
			}
			if inside.at.After(last) {
				last = inside.at
			}
			changes = append(changes, inside)
		}
	}
	if isNew && !starts {
		if news.Time.After(last) {
			last = news.Time
		}
		changes = append(changes, placedChange{Change: news, at: last})
	}
	return changes
}

// change tells whether an item is not as it was.
func (c *Changes) change(item *Item, now time.Time) (Change, bool) {
	this := seen{phase: item.Phase, message: item.Message}
	before := c.seen[item.Path]
	c.seen[item.Path] = this
	state := item.state()
	switch {
	case this == before:
		return Change{}, false
	case state < running && (item.Message == "" || item.Message == before.message):
		return Change{}, false
	case state == running && before.phase == this.phase: // only its message differs
		return Change{}, false
	case state > running && before.phase == this.phase:
		return Change{}, false
	}
	change := Change{Time: now, Path: item.Path, Phase: item.Phase}
	switch {
	case state > running:
		change.Time = orNow(item.End, now)
		if d, ok := item.Took(now); ok {
			change.Took = &d
		}
	case state == running:
		change.Time = orNow(item.Start, now)
	}
	if state != succeeded && state != running && !item.hidesMessage() {
		change.Message = item.Message
	}
	return change, true
}

func orNow(t *metav1.MicroTime, now time.Time) time.Time {
	if t == nil {
		return now
	}
	return t.In(now.Location())
}
