package queue

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/scheduler/framework"
)

// parked makes a queue of parked classes, one Run each, with the verdict.
func parked(t *testing.T, classes int, verdict func(i int, r *framework.RunInfo) Verdict) *Queue {
	t.Helper()
	q := New()
	for i := range classes {
		q.Add(run(fmt.Sprint(i), fmt.Sprint("class", i)), created(int64(i)))
		r, order, ok := q.Pop()
		if !ok {
			t.Fatal("nothing to try")
		}
		q.Park(r, order, verdict(i, r))
	}
	if _, _, ok := q.Pop(); ok {
		t.Fatal("a parked class is tried")
	}
	return q
}

// TestRoomForOneIsTriedByTwo frees units that the oldest takes. The next finds that no Run fits: nobody else is tried.
func TestRoomForOneIsTriedByTwo(t *testing.T) {
	waits := func(v Verdict) func(int, *framework.RunInfo) Verdict {
		return func(_ int, r *framework.RunInfo) Verdict {
			w := v
			w.Class, w.Line, w.WakeOn = r.Class, r.Class, framework.CapacityFreed
			return w
		}
	}
	onPod := []types.UID{"p"}
	cases := map[string]struct {
		parked, rejected Verdict
		// freed is where units become free.
		freed types.UID
		// tried is how many are tried in all.
		tried int
	}{
		"any Pod, and all are full":                   {Verdict{}, Verdict{Closed: framework.ClosedForAll}, "p", 2},
		"any Pod, and all are full or on their way":   {Verdict{}, Verdict{Closed: framework.ClosedForMost}, "p", 2},
		"any Pod, and others may fit":                 {Verdict{}, Verdict{}, "p", 100},
		"one Pod, and it is full":                     {Verdict{FreedOn: onPod}, Verdict{FreedOn: onPod, FullOn: onPod}, "p", 2},
		"one Pod, and all are full":                   {Verdict{FreedOn: onPod}, Verdict{FreedOn: onPod, Closed: framework.ClosedForAll}, "p", 2},
		"one Pod, and it may take another":            {Verdict{FreedOn: onPod}, Verdict{FreedOn: onPod}, "p", 100},
		"one Pod, and most may not go to any":         {Verdict{FreedOn: onPod}, Verdict{FreedOn: onPod, Closed: framework.ClosedForMost}, "p", 100},
		"one Pod, and units are free on another":      {Verdict{FreedOn: onPod}, Verdict{FreedOn: onPod}, "q", 0},
		"any Pod, and nobody knows where it was":      {Verdict{}, Verdict{Closed: framework.ClosedForAll}, "", 100},
		"one of two Pods, and that one is full":       {Verdict{FreedOn: []types.UID{"p", "q"}}, Verdict{FreedOn: []types.UID{"p", "q"}, FullOn: onPod}, "p", 2},
		"one of two Pods, and the other one is full":  {Verdict{FreedOn: []types.UID{"p", "q"}}, Verdict{FreedOn: []types.UID{"p", "q"}, FullOn: []types.UID{"q"}}, "p", 100},
		"any Pod, and the one where they are is full": {Verdict{}, Verdict{FullOn: onPod}, "p", 100},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := parked(t, 100, waits(tc.parked))
			for round := range 3 {
				if woken := q.Wake(key, framework.CapacityFreed, tc.freed); woken != (tc.tried > 0) {
					t.Fatalf("round %d: woken: %t", round, woken)
				}
				tried := 0
				for r, order, ok := q.Pop(); ok; r, order, ok = q.Pop() {
					if want := fmt.Sprint(round + tried); tc.tried > 0 && r.Name != want {
						t.Fatalf("round %d: Run %s is tried, want %s", round, r.Name, want)
					}
					if tried++; tried > 1 || tc.tried == 100 {
						q.Park(r, order, waits(tc.rejected)(0, r))
					}
				}
				want := tc.tried
				if want == 100 {
					want = q.Len()
					q.Remove(types.UID(fmt.Sprint(round)))
				}
				if tried != want {
					t.Errorf("round %d: %d were tried, want %d", round, tried, want)
				}
			}
			for i := range 100 {
				q.Remove(types.UID(fmt.Sprint(i)))
			}
			if len(q.pools) != 0 || q.turns.Len() != 0 {
				t.Errorf("%d Runtimes and %d turns are left", len(q.pools), q.turns.Len())
			}
		})
	}
}

// TestAnOlderRunInAnOpenList comes back while others are being tried.
func TestAnOlderRunInAnOpenList(t *testing.T) {
	v := func(_ int, r *framework.RunInfo) Verdict {
		return Verdict{Class: r.Class, Line: r.Class, WakeOn: framework.CapacityFreed}
	}
	q := parked(t, 3, func(i int, r *framework.RunInfo) Verdict { return v(i, r) })
	q.Wake(key, framework.CapacityFreed, "p")
	// It joins a class that waits in the open list, and becomes its oldest.
	q.Add(run("older", "class2"), created(-1))
	expect(t, "tried", popAll(q), "older", "0", "1", "2")
}

// TestWhoIsTriedInVainWaitsForTheNextUnits parks classes while their list is open, in a list that then closes.
func TestWhoIsTriedInVainWaitsForTheNextUnits(t *testing.T) {
	v := func(_ int, r *framework.RunInfo) Verdict {
		return Verdict{Class: r.Class, Line: r.Class, WakeOn: framework.CapacityFreed}
	}
	q := parked(t, 4, v)
	q.Wake(key, framework.CapacityFreed, "p")
	for range 2 {
		r, order, _ := q.Pop()
		q.Park(r, order, v(0, r))
	}
	q.Remove("2")
	q.Remove("3")
	if _, _, ok := q.Pop(); ok {
		t.Error("somebody is tried twice")
	}
	q.Wake(key, framework.CapacityFreed, "p")
	expect(t, "tried again", popAll(q), "0", "1")
}
