package scheduler

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/queue"
)

// TestALargeRunIsNotStarved has small Runs arrive for ever, each as one ends, so that the Pods never get empty by
// themselves. A large Run gets its place all the same, soon after it has waited long enough.
func TestALargeRunIsNotStarved(t *testing.T) {
	w := newWorld(t)
	w.runtime(4)
	w.pod("a", "")
	w.pod("b", "")
	var running []string
	for i := range 8 {
		running = append(running, fmt.Sprintf("s%d", i))
		w.add(running[i], "1")
	}
	w.settle()
	w.add("large", "4")
	isPlaced := func() bool { return w.runs["large"].Status.Phase.IsActive() }
	next := 8
	for range 60 {
		w.clock.Step(time.Second)
		// The oldest small Run ends; another one has come.
		w.finish(running[0])
		running = append(running[1:], fmt.Sprintf("s%d", next))
		w.add(running[len(running)-1], "1")
		next++
		w.settle()
		w.told(100)
		waiting := running[:0:0]
		for _, name := range running {
			if w.runs[name].Status.Phase.IsActive() {
				waiting = append(waiting, name)
			}
		}
		if isPlaced() {
			break
		}
		running = waiting
	}
	if !isPlaced() {
		t.Fatal("the large Run was passed for a minute")
	}
	if waited := w.clock.Now().Sub(epoch); waited < holdAfter || waited > 3*holdAfter {
		t.Errorf("it waited %s", waited)
	}
	if run, _, _ := w.engine.cache.Held(shKey); run != "" {
		t.Errorf("a Pod is still held for %s", run)
	}
	w.checkBooks()
}

func TestAHoldEndsWithItsRun(t *testing.T) {
	ends := map[string]func(w *world){
		"deleted": func(w *world) { w.engine.runGone("uid-large") },
		"cancelled": func(w *world) {
			w.engine.runSeen(w.store("large", func(r *corev1alpha1.Run) { r.Spec.CancelRequested = true }))
		},
		"too large by now": func(w *world) {
			w.runtime(3)
			w.told(10)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(4)
			w.pod("a", "")
			w.add("s0", "1")
			w.settle()
			w.add("large", "4")
			w.add("s1", "1")
			w.settle()
			w.clock.Step(holdAfter)
			w.told(10)
			if run, pod, ok := w.engine.cache.Held(shKey); run != "uid-large" || pod != "uid-a" || !ok {
				t.Fatalf("Pod %q is held for %q", pod, run)
			}
			w.add("s2", "1")
			if diff := cmp.Diff([]string{"s0 on a", "s1 on a"}, w.settle()); diff != "" {
				t.Fatalf("while a is held (-want +got):\n%s", diff)
			}
			end(w)
			if diff := cmp.Diff([]string{"s0 on a", "s1 on a", "s2 on a"}, w.settle()); diff != "" {
				t.Errorf("afterwards (-want +got):\n%s", diff)
			}
		})
	}
}

func TestABacklogOfEqualRunsNeedsNoHold(t *testing.T) {
	w := newWorld(t)
	w.runtime(1)
	w.pod("a", "")
	for i := range 30 {
		w.add(fmt.Sprintf("r%02d", i), "1")
	}
	for i := range 30 {
		w.clock.Step(time.Second)
		if diff := cmp.Diff([]string{fmt.Sprintf("r%02d on a", i)}, w.settle()); diff != "" {
			t.Fatalf("turn %d (-want +got):\n%s", i, diff)
		}
		w.told(100)
		if run, _, _ := w.engine.cache.Held(shKey); run != "" {
			t.Fatalf("a Pod is held for %s", run)
		}
		w.finish(fmt.Sprintf("r%02d", i))
	}
}

func TestWaitingRunsAreTold(t *testing.T) {
	full := func(run string, pods int) string {
		return fmt.Sprintf("%s: InsufficientCapacity: %s: %d full (runs 1/1)", run, map[int]string{1: "1 Pod", 2: "2 Pods"}[pods], pods)
	}
	w := newWorld(t)
	w.runtime(1)
	w.pod("a", "")
	w.add("r0", "1")
	w.add("r1", "1")
	expect := func(when string, want ...string) {
		t.Helper()
		w.settle()
		if diff := cmp.Diff(want, w.told(10)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("not at once")
	w.clock.Step(time.Second)
	expect("after a second", full("r1", 1))
	w.clock.Step(time.Hour)
	expect("nothing has changed, not even after the safety net")
	w.pod("b", "ImagePullBackOff")
	expect("a Pod that does not help changes the words", "r1: InsufficientCapacity: 2 Pods: 1 full (runs 1/1), 1 not ready: ImagePullBackOff")
	w.pod("a", "Completed")
	w.clock.Step(time.Second)
	expect("the next news", "r1: NoReadyPods: 2 Pods: 1 not ready: Completed, 1 not ready: ImagePullBackOff")
	w.pod("b", "")
	expect("it is placed and needs no words")
	w.engine.podGone("uid-a")
	w.add("r2", "1")
	w.clock.Step(time.Second)
	expect("a new one is told, as of now", full("r2", 1))
}

func TestAThousandWaitingRunsDoNotCostAThousandWrites(t *testing.T) {
	w := newWorld(t)
	w.runtime(4)
	w.pod("a", "")
	for i := range 1000 {
		w.add(fmt.Sprintf("r%03d", i), "1")
	}
	w.settle()
	writes := 0
	for i := range 996 { // a hundred Runs a second
		w.clock.Step(10 * time.Millisecond)
		w.finish(fmt.Sprintf("r%03d", i))
		w.settle()
		if i%10 == 0 {
			writes += len(w.told(tellBusy))
		}
	}
	if writes > 200 {
		t.Errorf("%d writes while 1,000 Runs were placed", writes)
	}
	t.Logf("%d writes while 1,000 Runs were placed", writes)
}

// TestTurmoil takes thousands of random steps, with late, lost and contradicted answers, and recounts after each: no Pod
// ever has more active Runs than it has places, and in the end every Run is placed or every place is taken.
func TestTurmoil(t *testing.T) {
	for seed := range int64(20) {
		rng := rand.New(rand.NewSource(seed))
		w := newWorld(t)
		const places = 2
		w.runtime(places)
		w.pod("a", "")
		w.pod("b", "")
		var open []*assignment
		next := 0
		names := func(phase func(corev1alpha1.RunPhase) bool) []string {
			var out []string
			for i := range next {
				if r, ok := w.runs[fmt.Sprintf("r%04d", i)]; ok && phase(r.Status.Phase) {
					out = append(out, r.Name)
				}
			}
			return out
		}
		pick := func(from []string) string { return from[rng.Intn(len(from))] }
		pending := func(p corev1alpha1.RunPhase) bool { return p == corev1alpha1.RunPending }
		for range 400 {
			switch rng.Intn(8) {
			case 0, 1:
				w.add(fmt.Sprintf("r%04d", next), "1")
				next++
			case 2:
				open = append(open, w.decide()...)
			case 3, 4:
				if len(open) > 0 {
					i := rng.Intn(len(open))
					answer(w, rng, open[i])
					open = append(open[:i], open[i+1:]...)
				}
			case 5:
				if active := names(corev1alpha1.RunPhase.IsActive); len(active) > 0 {
					w.finish(pick(active))
				}
			case 6:
				if waiting := names(pending); len(waiting) > 0 {
					w.engine.runSeen(w.store(pick(waiting), func(r *corev1alpha1.Run) { r.Labels = map[string]string{"x": "y"} }))
				}
			case 7:
				w.pod(pick([]string{"a", "b"}), pick([]string{"", "", "Restarting"}))
			}
			for _, p := range []string{"a", "b"} {
				used := 0
				for _, r := range w.runs {
					if r.Status.Phase.IsActive() && r.Status.AssignedPod == p {
						used++
					}
				}
				if used > places {
					t.Fatalf("seed %d: Pod %s has %d Runs", seed, p, used)
				}
			}
		}
		for _, a := range open {
			answer(w, rng, a)
		}
		w.pod("a", "")
		w.pod("b", "")
		w.clock.Step(lastRetry)
		placed := len(w.settle())
		if want := min(2*places, placed+len(names(pending))); placed != want {
			t.Errorf("seed %d: %d Runs are placed, want %d; %d wait", seed, placed, want, len(names(pending)))
		}
		w.checkBooks()
	}
}

// answer ends a bind as the API server and the network may end it.
func answer(w *world, rng *rand.Rand, a *assignment) {
	current := w.runs[a.run.Name]
	if current.Status.Phase.IsTerminal() {
		w.engine.vanished(a)
		return
	}
	if current.ResourceVersion != a.run.ResourceVersion {
		w.engine.moved(a, current)
		return
	}
	if rng.Intn(4) == 0 {
		w.engine.refused(a)
		return
	}
	stored := w.store(a.run.Name, assignedTo(a))
	switch rng.Intn(3) {
	case 0:
		w.engine.runSeen(stored)
		w.engine.bound(a, stored.ResourceVersion)
	case 1:
		w.engine.bound(a, stored.ResourceVersion)
		w.engine.runSeen(stored)
	case 2: // the answer is lost
		w.engine.moved(a, stored)
	}
}

// TestARunThatNoEventWakesIsTriedAllTheSame parks a Run as if a plugin had declared no event that helps.
func TestARunThatNoEventWakesIsTriedAllTheSame(t *testing.T) {
	nets := map[string]func(w *world){
		"when it is to be told why it waits": func(w *world) { w.told(10) },
		"when the safety net goes by":        func(w *world) { w.clock.Step(safetyNet) },
	}
	for name, net := range nets {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(1)
			w.pod("a", "")
			w.add("r", "1")
			info, order, _ := w.engine.queue.Pop()
			w.engine.queue.Park(info, order, queue.Verdict{Class: info.Base, Line: info.Class})
			if got := w.settle(); got != nil {
				t.Fatalf("before: %v", got)
			}
			net(w)
			if diff := cmp.Diff([]string{"r on a"}, w.settle()); diff != "" {
				t.Errorf("afterwards (-want +got):\n%s", diff)
			}
		})
	}
}
