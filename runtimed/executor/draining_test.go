package executor

import (
	"testing"
	"time"

	"github.com/go-logr/logr"

	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/staging"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestClose follows an Executor through the last moments of its Pod.
func TestClose(t *testing.T) {
	area, err := staging.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer area.Close()
	e := &Executor{ctx: t.Context(), claims: map[key]*claim{}, marked: map[string]bool{}, quiet: make(chan struct{}),
		draining: make(chan struct{}), closing: make(chan struct{})}
	e.Log, e.Area = logr.Discard(), area
	run := assigned("1")
	c := newClaim(e, run, "u.1")
	e.claims[keyOf(run)] = c
	quiet := e.Quiet()
	if isClosed(quiet) || e.Close() {
		t.Fatal("it closes while a claim is at work")
	}
	e.Changed(assigned("2")) // closed or not, what is claimed is told
	if got := c.current().ResourceVersion; got != "2" {
		t.Errorf("the claim knows version %s, want 2", got)
	}
	e.finish(keyOf(run), c)
	if !isClosed(quiet) || !isClosed(e.Quiet()) {
		t.Error("nobody is told that no claim is at work")
	}
	if !e.Close() {
		t.Fatal("it does not close although no claim is at work")
	}
	e.Changed(assigned("3", ofAnotherUID))
	if len(e.claims) != 1 {
		t.Error("a Run was claimed after the end")
	}
	e.Reopen(nil)
	if e.ended {
		t.Error("it does not open again")
	}
}

// TestDrainAndStopMayComeAgain as more becomes known of the grace period.
func TestDrainAndStopMayComeAgain(t *testing.T) {
	e := &Executor{draining: make(chan struct{}), closing: make(chan struct{})}
	e.Drain(decision.Draining{})
	if !isClosed(e.draining) || isClosed(e.closing) {
		t.Error("draining is not what was begun")
	}
	e.Drain(decision.Draining{Read: true})
	if !e.drain.Read {
		t.Error("what became known later was dropped")
	}
	e.Stop(time.Second)
	e.Stop(time.Hour)
	if !isClosed(e.closing) || e.stopGrace != time.Second {
		t.Errorf("executions get %s, want what they were promised first", e.stopGrace)
	}
}
