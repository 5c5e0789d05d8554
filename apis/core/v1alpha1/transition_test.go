package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTransitions spells the whole table out a second time, in another shape: who may do what from where.
func TestTransitions(t *testing.T) {
	want := map[string][]RunPhase{
		"Pending/scheduler":   {RunPending, RunScheduled},
		"Pending/lifecycle":   {RunCancelled},
		"Scheduled/runtimed":  {RunPending, RunRunning, RunSucceeded, RunFailed, RunTimeout, RunCancelled},
		"Scheduled/lifecycle": {RunPending, RunFailed, RunCancelled},
		"Running/runtimed":    {RunPending, RunSucceeded, RunFailed, RunTimeout, RunCancelled},
		"Running/lifecycle":   {RunPending, RunFailed, RunCancelled},
	}
	got := map[string][]RunPhase{}
	for _, from := range RunPhases() {
		for _, w := range Writers() {
			if next := NextPhases(from, w); len(next) > 0 {
				got[string(from)+"/"+string(w)] = next
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestNoPhaseFollowsATerminalOne(t *testing.T) {
	for _, from := range RunPhases() {
		for _, w := range Writers() {
			if next := NextPhases(from, w); from.IsTerminal() && len(next) > 0 {
				t.Errorf("%s may write %v over terminal phase %s", w, next, from)
			}
		}
	}
}

func TestTheEmptyPhaseCountsAsPending(t *testing.T) {
	if !CanTransition("", RunScheduled, WriterScheduler) || CanTransition("", RunRunning, WriterRuntimed) {
		t.Error("the empty phase must be treated like Pending")
	}
}

func TestRuntimeLabelValue(t *testing.T) {
	long := ""
	for range 26 {
		long += "abcdefghi."
	}
	a, b := RuntimeLabelValue(long[:200]), RuntimeLabelValue(long[:201])
	if len(a) != 63 || a == b {
		t.Errorf("want two different values of 63 characters, got %q and %q", a, b)
	}
	if got := RuntimeLabelValue("bash"); got != "bash" {
		t.Errorf("a short name is its own value, got %q", got)
	}
}
