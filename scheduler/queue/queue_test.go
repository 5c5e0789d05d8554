package queue

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/scheduler/framework"
)

var key = types.NamespacedName{Namespace: "n", Name: "sh"}

func run(name, class string) *framework.RunInfo {
	return &framework.RunInfo{Namespace: "n", Runtime: "sh", Name: name, UID: types.UID(name), Class: class}
}

// full is the verdict on a Run that any freed unit may help.
func full(r *framework.RunInfo) Verdict {
	return Verdict{Class: r.Class, Line: r.Class, WakeOn: framework.CapacityFreed}
}

func created(second int64) Order { return Order{Created: second} }

// popAll pops until nothing is left to try.
func popAll(q *Queue) []string {
	var names []string
	for {
		r, _, ok := q.Pop()
		if !ok {
			return names
		}
		names = append(names, r.Name)
	}
}

func expect(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestOrder(t *testing.T) {
	sorted := []Order{{1, 9, "z"}, {2, 1, "z"}, {2, 2, "a"}, {2, 2, "b"}, {3, 0, ""}}
	for i := range sorted {
		for j := range sorted {
			if got, want := sorted[i].Before(sorted[j]), i < j; got != want {
				t.Errorf("%v before %v: %t, want %t", sorted[i], sorted[j], got, want)
			}
		}
	}
}

func TestCreationOrderWhateverTheOrderOfArrival(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for range 100 {
		q := New()
		for _, i := range rng.Perm(20) {
			q.Add(run(fmt.Sprintf("r%02d", i), fmt.Sprintf("class%d", i%3)), created(int64(i)))
		}
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprintf("r%02d", i))
		}
		expect(t, "popped", popAll(q), want...)
	}
}

func TestAParkedClassWaitsAndOthersDoNot(t *testing.T) {
	q := New()
	large := run("large", "4")
	q.Add(large, created(1))
	q.Add(run("larger-later", "4"), created(2))
	q.Add(run("small", "1"), created(3))
	r, order, _ := q.Pop()
	if r != large {
		t.Fatalf("popped %s first", r.Name)
	}
	q.Park(r, order, full(r))
	expect(t, "what is not parked", popAll(q), "small")
	q.Add(run("larger-still", "4"), created(4))
	expect(t, "a new one of a parked class waits too", popAll(q))
	if q.Wake(key, framework.PodAvailable, "") {
		t.Error("an event that nobody waits for has woken somebody")
	}
	expect(t, "after an event that does not help", popAll(q))
	if !q.Wake(key, framework.CapacityFreed|framework.PodAvailable, "") {
		t.Error("the event has woken nobody")
	}
	expect(t, "after one that helps, from the oldest on", popAll(q), "large", "larger-later", "larger-still")
	if q.Len() != 0 || len(q.pools) != 0 {
		t.Errorf("%d Runs and %d Runtimes are left", q.Len(), len(q.pools))
	}
}

func TestAFreedSlotCostsNoMoreThanItsTakersAndOneRejection(t *testing.T) {
	q := New()
	for i := range 10_000 {
		q.Add(run(fmt.Sprint(i), "1"), created(int64(i)))
	}
	r, order, _ := q.Pop()
	q.Park(r, order, full(r))
	for slot := range 100 {
		q.Wake(key, framework.CapacityFreed, "")
		r, _, ok := q.Pop()
		if want := fmt.Sprint(slot); !ok || r.Name != want {
			t.Fatalf("slot %d went to %v", slot, r)
		}
		next, order, _ := q.Pop()
		q.Park(next, order, full(next))
		if _, _, ok := q.Pop(); ok {
			t.Fatal("more than one Run was tried in vain")
		}
	}
}

func TestRuntimesTakeTurns(t *testing.T) {
	q := New()
	for i := range 3 {
		q.Add(run(fmt.Sprintf("sh%d", i), "1"), created(int64(i)))
		other := run(fmt.Sprintf("py%d", i), "1")
		other.Runtime = "py"
		q.Add(other, created(int64(10+i)))
	}
	expect(t, "popped", popAll(q), "sh0", "py0", "sh1", "py1", "sh2", "py2")
}

func TestDelayedRuns(t *testing.T) {
	start := time.Unix(100, 0)
	q := New()
	if _, ok := q.NextDue(); ok {
		t.Error("something is due in an empty queue")
	}
	q.AddAt(run("later", "1"), created(1), start.Add(2*time.Second))
	q.AddAt(run("soon", "1"), created(2), start.Add(time.Second))
	q.AddAt(run("never", "1"), created(3), start.Add(3*time.Second))
	q.Remove("never")
	expect(t, "nothing is due", popAll(q))
	if due, _ := q.NextDue(); !due.Equal(start.Add(time.Second)) {
		t.Errorf("next due at %s", due)
	}
	if !q.Has("soon") || q.Len() != 2 {
		t.Errorf("has soon: %t, length %d", q.Has("soon"), q.Len())
	}
	var got []string
	for _, r := range q.Due(start.Add(2 * time.Second)) {
		got = append(got, r.Name)
	}
	expect(t, "due", got, "soon", "later")
	if q.Len() != 0 {
		t.Errorf("%d Runs are left", q.Len())
	}
}

func TestWaitingShowsTheOldestOfEachParkedClass(t *testing.T) {
	q := New()
	for i, class := range []string{"a", "a", "b"} {
		q.Add(run(fmt.Sprint(i), class), created(int64(i)))
	}
	if got, _ := q.Waiting(key, true, 9); got != nil {
		t.Errorf("nothing is parked, got %v", got)
	}
	r, order, _ := q.Pop()
	q.Park(r, order, full(r))
	got, more := q.Waiting(key, true, 9)
	if more || len(got) != 1 || got[0].Run.Name != "0" {
		t.Errorf("waiting %v, want 0 only", got)
	}
	if got, more := q.Waiting(key, false, 9); more || got != nil {
		t.Errorf("waiting %v again in the same round", got)
	}
	q.WakeAll()
	expect(t, "after waking all", popAll(q), "0", "1", "2")
}

// TestRandomStepsAgainstAModel compares the queue with a plain list after many random steps.
func TestRandomStepsAgainstAModel(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	q := New()
	type entry struct {
		order Order
		class string
	}
	in, parked := map[string]entry{}, map[string]bool{}
	drop := func(name string) {
		class := in[name].class
		delete(in, name)
		for _, e := range in {
			if e.class == class {
				return
			}
		}
		delete(parked, class) // nobody is left who remembers
	}
	for step := range 20_000 {
		name := fmt.Sprint(rng.Intn(40))
		class := fmt.Sprint(rng.Intn(4))
		switch rng.Intn(5) {
		case 0, 1:
			if _, ok := in[name]; ok {
				drop(name)
			}
			in[name] = entry{Order{Created: int64(rng.Intn(100)), Name: name}, class}
			q.Add(run(name, class), in[name].order)
		case 2:
			if _, ok := in[name]; ok {
				drop(name)
			}
			q.Remove(types.UID(name))
		case 3:
			want := ""
			for n, e := range in {
				if !parked[e.class] && (want == "" || e.order.Before(in[want].order)) {
					want = n
				}
			}
			r, order, ok := q.Pop()
			if ok != (want != "") || ok && r.Name != want {
				t.Fatalf("step %d: popped %v, want %q", step, r, want)
			}
			if ok && rng.Intn(2) == 0 {
				q.Park(r, order, full(r))
				parked[in[want].class] = true
			} else if ok {
				drop(want)
			}
		case 4:
			if rng.Intn(4) == 0 {
				q.Wake(key, framework.CapacityFreed, "")
				clear(parked)
			}
		}
		if q.Len() != len(in) {
			t.Fatalf("step %d: %d Runs, want %d", step, q.Len(), len(in))
		}
	}
}

// TestNothingIsLeftOfRunsThatNobodyPopped is the life of a scheduler that is not the leader.
func TestNothingIsLeftOfRunsThatNobodyPopped(t *testing.T) {
	q := New()
	for i := range 10_000 {
		r := run(fmt.Sprint(i), fmt.Sprint(i%3))
		r.Runtime = fmt.Sprint(i % 100)
		q.Add(r, created(int64(i)))
		q.Remove(r.UID)
	}
	if q.Len() != 0 || len(q.pools) != 0 || q.turns.Len() != 0 {
		t.Errorf("%d Runs, %d pools, %d turns are left", q.Len(), len(q.pools), q.turns.Len())
	}
}

func TestARuntimeKeepsItsTurnWhileItsClassesComeAndGo(t *testing.T) {
	q := New()
	for _, name := range []string{"a", "b"} {
		for i := range 2 {
			r := run(fmt.Sprint(name, i), "1")
			r.Runtime = name
			q.Add(r, created(int64(i)))
		}
	}
	c := run("c", "1")
	c.Runtime = "a"
	q.Add(c, created(9))
	q.Remove("c")
	expect(t, "popped in turns", popAll(q), "a0", "b0", "a1", "b1")
}
