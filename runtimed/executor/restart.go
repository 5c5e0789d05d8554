package executor

import (
	"context"
	"time"

	"kruntimes.io/kruntimes/runtimed/decision"
)

// awaitStranger waits for the server, and until the execution id of an earlier runtimed runs no more, which is ended. A
// server that does not come holds nothing up for long.
func (e *Executor) awaitStranger(ctx context.Context, id string, left <-chan struct{}) {
	if e.await(ctx, e.Server.Up(), left, e.Timing.ServerPatience) {
		e.awaitGone(ctx, id, left)
	}
}

// awaitGone ends the execution id of an earlier runtimed, and waits until it runs no more.
func (e *Executor) awaitGone(ctx context.Context, id string, left <-chan struct{}) {
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
	case <-e.closing:
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
	stale := e.staleStages(active)
	if len(leftover)+len(stale) == 0 || e.ended {
		return
	}
	e.sweeping = true
	e.work.Go(func() {
		defer e.swept()
		for id := range leftover {
			e.awaitStranger(e.ctx, id, nil)
			(&claim{e: e, id: id, log: e.Log.WithValues("execution", id)}).clean()
		}
		for _, s := range stale {
			e.removeStage(s)
		}
		e.Log.Info("Removed leftovers", "count", len(leftover)+len(stale))
	})
}

// tidy removes, in the background, what scripts have left in the scratch volume outside of their directories, or as their
// directory under another name. A claim at work may still be at what it moved, so that tidy waits until there is none.
// The caller holds the lock: what lies there belongs to nobody, and a claim that comes next finds its name free.
func (e *Executor) tidy() {
	if e.sweeping || e.drain != nil || e.ctx.Err() != nil || !e.isIdle() {
		return
	}
	names, err := e.Area.Names()
	if err != nil {
		e.Log.Error(err, "Could not look for leftovers")
		return
	}
	var aside []string
	for _, name := range names {
		renamed, err := e.Area.SetAside(name)
		if err != nil {
			e.Log.Error(err, "Could not remove what a script left")
			continue
		}
		aside = append(aside, renamed)
	}
	if len(aside) == 0 {
		return
	}
	e.sweeping = true
	e.work.Go(func() {
		defer e.swept()
		for _, name := range aside {
			if err := e.Area.Remove(name); err != nil {
				e.Log.Error(err, "Could not remove what a script left")
			}
		}
		e.Log.Info("Removed what scripts left", "count", len(aside))
	})
}

// swept notes that leftovers have been removed.
func (e *Executor) swept() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweeping = false
}

func idOf(k key) string { return decision.ExecutionID(k.uid, k.attempt) }
