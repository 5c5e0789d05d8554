package executor

import (
	"context"
	"time"

	"kruntimes.io/kruntimes/runtimed/decision"
)

// awaitStranger waits until the execution id of an earlier runtimed runs no more. The connection stops it as soon as
// the server is there; a server that does not come holds nothing up for long.
func (e *Executor) awaitStranger(ctx context.Context, id string, left <-chan struct{}) {
	if !e.await(ctx, e.Server.Up(), left, e.Timing.ServerPatience) {
		return
	}
	e.await(ctx, e.Server.Gone(id), left, e.Timing.StopPatience)
}

// await waits for event, but not for ever; false when something else came first.
func (e *Executor) await(ctx context.Context, event, left <-chan struct{}, patience time.Duration) bool {
	timer := e.Clock.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-event:
		return true
	case <-timer.C():
	case <-left:
	case <-e.draining:
	case <-ctx.Done():
	}
	return false
}

// sweep removes, in the background, what an earlier runtimed left of Runs that are not on this Pod any more. The caller
// holds the lock, and has claimed nothing but active.
func (e *Executor) sweep(active map[key]bool) {
	keep := map[string]bool{}
	for k := range active {
		keep[idOf(k)] = true
	}
	names, err := e.Area.Names()
	if err != nil {
		e.Log.Error(err, "Could not look for leftovers")
	}
	leftover := map[string]bool{}
	for _, name := range append(names, e.State.Marked()...) {
		if !keep[name] {
			leftover[name] = true
		}
	}
	if len(leftover) == 0 || e.ending {
		return
	}
	e.work.Go(func() {
		for id := range leftover {
			e.awaitStranger(e.ctx, id, nil)
			(&claim{e: e, id: id, log: e.Log.WithValues("execution", id)}).clean()
		}
		e.Log.Info("Removed leftovers", "count", len(leftover))
	})
}

func idOf(k key) string { return decision.ExecutionID(k.uid, k.attempt) }
