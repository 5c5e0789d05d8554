package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// churn is small Runs that come and go for ever: each second the oldest of them that has a place ends, and one has come.
type churn struct {
	w       *world
	changes []change
	names   []string
	next    int
}

func (c *churn) add() {
	name := fmt.Sprintf("s%03d", c.next)
	c.next++
	c.w.engine.runSeen(c.w.create(name, "1", c.changes...))
	c.names = append(c.names, name)
}

func (c *churn) second() {
	c.w.clock.Step(time.Second)
	for i, name := range c.names {
		if c.w.runs[name].Status.Phase.IsActive() {
			c.w.finish(name)
			delete(c.w.runs, name)
			c.names = append(c.names[:i:i], c.names[i+1:]...)
			break
		}
	}
	c.add()
	c.w.settle()
	c.w.told(100)
}

// TestNoRunIsPassedForEver lets small Runs pass another one that they keep from every Pod. Each Pod has room for four, and
// there is always a small Run that waits, so that a Pod never empties by itself.
func TestNoRunIsPassedForEver(t *testing.T) {
	endless := func(w *world) { w.engine.runSeen(w.create("endless", "1", labelled("app=x"), apart("loud"), on("a"))) }
	cases := map[string]struct {
		small []change
		// before is there already.
		before func(w *world)
		size   string
		passed []change
		// within is how many seconds it may take.
		within int
	}{
		"a large one": {size: "4", within: 25},
		"a large one, with a Run that never ends on the first Pod": {before: endless, size: "4", within: 45},
		"one that must be apart from them":                         {small: []change{labelled("app=x")}, size: "1", passed: []change{apart("app=x")}, within: 25},
		"the same, with a Run that never ends on the first Pod": {small: []change{labelled("app=x")}, before: endless, size: "1",
			passed: []change{apart("app=x")}, within: 45},
		"one from which they must be apart": {small: []change{apart("loud")}, size: "1", passed: []change{labelled("loud=")}, within: 25},
		"one of their kind that wants to be alone": {small: []change{labelled("app=x")}, size: "1",
			passed: []change{labelled("app=x"), apart("app=x")}, within: 25},
		"a large one that must be apart from others": {small: []change{labelled("app=x")}, size: "3",
			passed: []change{apart("app in (y,z)")}, within: 25},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(4)
			w.pod("a", "")
			w.pod("b", "")
			if tc.before != nil {
				tc.before(w)
			}
			c := &churn{w: w, changes: tc.small}
			for range 9 {
				c.add()
			}
			w.settle()
			w.engine.runSeen(w.create("passed", tc.size, tc.passed...))
			isPlaced := func() bool { return w.runs["passed"].Status.Phase.IsActive() }
			seconds, held := 0, 0
			for ; !isPlaced(); seconds++ {
				if seconds > 10*tc.within {
					t.Fatal("it is passed for ever")
				}
				if run, _, _ := w.engine.cache.Held(shKey); run != "" {
					held++
				}
				c.second()
			}
			if wait := time.Duration(seconds) * time.Second; wait < holdAfter || seconds > tc.within || held == 0 {
				t.Errorf("placed after %s, of which a Pod was held for %d s", wait, held)
			}
			if run, _, _ := w.engine.cache.Held(shKey); run != "" {
				t.Errorf("a Pod is still held for %s", run)
			}
			w.checkBooks()
		})
	}
}

// TestPodsThatAreHeldTakeTurns has Runs on two Pods that never end: each Pod is held in turn, ever longer.
func TestPodsThatAreHeldTakeTurns(t *testing.T) {
	w := newWorld(t)
	w.runtime(4)
	w.pod("a", "")
	w.pod("b", "")
	for _, pod := range []string{"a", "b"} {
		w.engine.runSeen(w.create("endless-"+pod, "1", on(pod)))
	}
	c := &churn{w: w}
	for range 7 {
		c.add()
	}
	w.settle()
	w.add("large", "4")
	var turns []string
	last, since := "", 0
	for second := range 150 {
		_, pod, _ := w.engine.cache.Held(shKey)
		if string(pod) != last {
			turns = append(turns, fmt.Sprintf("%s for %d s", last, second-since))
			last, since = string(pod), second
		}
		c.second()
	}
	// At the end of a round, the Pod that was held last is the emptiest, and begins the next one.
	want := []string{" for 10 s", "uid-a for 10 s", "uid-b for 30 s", "uid-a for 60 s"}
	if diff := cmp.Diff(want, turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	w.finish("endless-a")
	delete(w.runs, "endless-a")
	for range 200 {
		if c.second(); w.runs["large"].Status.Phase.IsActive() {
			return
		}
	}
	t.Error("the Pod that can be emptied by now was not")
}

// TestAnOlderRunTakesAHoldOver brings an older Run back that needs as much as the one for which a Pod is held. Neither
// may wait for the other.
func TestAnOlderRunTakesAHoldOver(t *testing.T) {
	w := newWorld(t)
	w.runtime(4)
	w.pod("a", "")
	w.pod("b", "")
	w.engine.runSeen(w.create("older", "4", retries(3, 0)))
	w.settle()
	w.add("s0", "1")
	w.settle()
	w.add("younger", "4")
	w.add("s1", "1")
	w.settle()
	w.clock.Step(holdAfter)
	w.told(10)
	if run, pod, _ := w.engine.cache.Held(shKey); run != "uid-younger" || pod != "uid-b" {
		t.Fatalf("Pod %q is held for %q", pod, run)
	}
	w.engine.podGone("uid-a")
	w.handBack("older", 0)
	if diff := cmp.Diff([]string{"s0 on b", "s1 on b"}, w.settle()); diff != "" {
		t.Fatalf("before (-want +got):\n%s", diff)
	}
	w.finish("s0")
	w.finish("s1")
	if diff := cmp.Diff([]string{"older on b"}, w.settle()); diff != "" {
		t.Fatalf("the older one (-want +got):\n%s", diff)
	}
	w.finish("older")
	if diff := cmp.Diff([]string{"younger on b"}, w.settle()); diff != "" {
		t.Errorf("the younger one (-want +got):\n%s", diff)
	}
}

// TestAHoldForARunThatChangesEnds gives the Run for which a Pod is held labels that are in nobody's way.
func TestAHoldForARunThatChangesEnds(t *testing.T) {
	w := newWorld(t)
	w.runtime(4)
	w.pod("a", "")
	w.engine.runSeen(w.create("quiet", "1", apart("loud")))
	w.settle()
	w.engine.runSeen(w.create("loud", "1", labelled("loud=")))
	w.engine.runSeen(w.create("quiet2", "1", apart("loud")))
	w.settle()
	w.clock.Step(holdAfter)
	w.told(10)
	w.engine.runSeen(w.create("quiet3", "1", apart("loud")))
	if diff := cmp.Diff([]string{"quiet on a", "quiet2 on a"}, w.settle()); diff != "" {
		t.Fatalf("while a is held (-want +got):\n%s", diff)
	}
	w.engine.runSeen(w.store("loud", func(r *corev1alpha1.Run) { r.Labels = nil }))
	if diff := cmp.Diff([]string{"loud on a", "quiet on a", "quiet2 on a", "quiet3 on a"}, w.settle()); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}
