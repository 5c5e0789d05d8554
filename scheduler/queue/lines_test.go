package queue

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

// shared is the verdict on a Run whose own rules take no Pod away.
func shared(r *framework.RunInfo) Verdict {
	return Verdict{Class: "1", Line: r.Class, WakeOn: framework.CapacityFreed}
}

// TestLinesThatShareAClassCostOneRejection is a thousand Runs with a thousand rules that any Pod would meet.
func TestLinesThatShareAClassCostOneRejection(t *testing.T) {
	q := New()
	for i := range 1000 {
		q.Add(run(fmt.Sprint(i), fmt.Sprint("1;rule", i)), created(int64(i)))
	}
	for range 1000 { // each is tried once
		r, order, _ := q.Pop()
		q.Park(r, order, shared(r))
	}
	for slot := range 100 {
		q.Wake(key, framework.CapacityFreed, "any")
		r, _, ok := q.Pop()
		if want := fmt.Sprint(slot); !ok || r.Name != want {
			t.Fatalf("slot %d went to %v", slot, r)
		}
		next, order, _ := q.Pop()
		q.Park(next, order, shared(next))
		if r, _, ok := q.Pop(); ok {
			t.Fatalf("%s was tried in vain as well", r.Name)
		}
	}
}

func TestALineThatIsWorseOffLeavesTheClass(t *testing.T) {
	q := New()
	for i, line := range []string{"1;rule", "1;rule", "1"} {
		r := run(fmt.Sprint(i), line)
		q.Add(r, created(int64(i)))
	}
	r, order, _ := q.Pop()
	q.Park(r, order, shared(r))
	expect(t, "the class is parked with all its lines", popAll(q))
	q.Wake(key, framework.CapacityFreed, "p1")
	r, order, _ = q.Pop()
	q.Park(r, order, Verdict{Class: "1;rule", Line: "1;rule", WakeOn: framework.CapacityFreed, FreedOn: []types.UID{"p2"}})
	expect(t, "the class goes on without it", popAll(q), "2")
	if q.Wake(key, framework.CapacityFreed, "p1") {
		t.Error("room on another Pod has woken it")
	}
	if !q.Wake(key, framework.CapacityFreed, "p2") {
		t.Error("room on its Pod has not woken it")
	}
	expect(t, "it wakes as a whole", popAll(q), "0", "1")
}

// TestWaitingGoesRound has more classes than one call takes: each round comes by all of them once.
func TestWaitingGoesRound(t *testing.T) {
	const limit = 64
	const classes = 2*limit + 3
	q := New()
	var all []string
	for i := range classes {
		r := run(fmt.Sprint(i), fmt.Sprint(i))
		q.Add(r, created(int64(i)))
		r, order, _ := q.Pop()
		q.Park(r, order, full(r))
		all = append(all, r.Name)
	}
	for round := range 2 {
		var got []string
		calls := 0
		for more := true; more; calls++ {
			var waiters []Waiter
			waiters, more = q.Waiting(key, calls == 0, limit)
			for _, w := range waiters {
				got = append(got, w.Run.Name)
			}
		}
		expect(t, fmt.Sprintf("round %d", round), got, all...)
		if calls != 3 {
			t.Errorf("round %d took %d calls, want 3", round, calls)
		}
	}
	// A change in the middle begins a new round where the old one was.
	q.Waiting(key, true, limit)
	waiters, _ := q.Waiting(key, true, limit)
	if got := waiters[0].Run.Name; got != fmt.Sprint(limit) {
		t.Errorf("the new round begins with %s", got)
	}
}

// TestWaitingTakesManyLinesInTurns has a class of more lines than one call takes.
func TestWaitingTakesManyLinesInTurns(t *testing.T) {
	const lines = 2*maxLines + 1
	q := New()
	for i := range lines {
		r := run(fmt.Sprint(i), fmt.Sprint("line", i))
		q.Add(r, created(int64(i)))
		r, order, _ := q.Pop()
		q.Park(r, order, Verdict{Class: "all", Line: r.Class, WakeOn: framework.CapacityFreed})
	}
	seen := map[string]int{}
	calls := 0
	for more := true; more; calls++ {
		var waiters []Waiter
		waiters, more = q.Waiting(key, calls == 0, 9)
		for _, w := range waiters {
			if w.Run.Name != "0" || len(w.Lines) > maxLines {
				t.Fatalf("call %d shows Run %s with %d lines", calls, w.Run.Name, len(w.Lines))
			}
			for _, l := range w.Lines {
				seen[l]++
			}
		}
	}
	if len(seen) != lines || calls != 3 {
		t.Errorf("%d lines in %d calls, want %d in 3", len(seen), calls, lines)
	}
}

func TestWhoIsWokenByNeighbours(t *testing.T) {
	seeker := func(name, runtime, selector string, own map[string]string) *framework.RunInfo {
		s, err := metav1.ParseToLabelSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		r := &corev1alpha1.Run{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), Labels: own},
			Spec: corev1alpha1.RunSpec{Runtime: runtime, Affinity: &corev1alpha1.Affinity{RunAffinity: &corev1alpha1.RunAffinity{
				Required: []corev1alpha1.RunAffinityTerm{{LabelSelector: *s, TopologyKey: corev1alpha1.TopologyRuntimePod}}}}},
		}
		return framework.NewRunInfo(r)
	}
	cases := map[string]struct {
		neighbour  framework.RunInfo
		came, left []string
	}{
		"a database":                    {framework.RunInfo{Namespace: "n", Runtime: "sh", Labels: map[string]string{"app": "db"}}, []string{"any", "db", "one-of", "self", "no-web"}, []string{"self"}},
		"a database of another Runtime": {framework.RunInfo{Namespace: "n", Runtime: "py", Labels: map[string]string{"app": "db"}}, []string{"py"}, []string{"self"}},
		"one of another namespace":      {framework.RunInfo{Namespace: "m", Runtime: "sh", Labels: map[string]string{"app": "db"}}, nil, nil},
		"a Run without labels":          {framework.RunInfo{Namespace: "n", Runtime: "sh"}, []string{"no-web"}, nil},
		"something else":                {framework.RunInfo{Namespace: "n", Runtime: "sh", Labels: map[string]string{"app": "web"}}, []string{"any"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			woken := func(wake func(q *Queue) bool) []string {
				q := New()
				for i, r := range []*framework.RunInfo{
					seeker("any", "sh", "app", nil), seeker("db", "sh", "app=db", nil), seeker("one-of", "sh", "app in (db,cache)", nil),
					seeker("self", "sh", "app=db,app", map[string]string{"app": "db"}), seeker("no-web", "sh", "app notin (web)", map[string]string{"app": "web"}),
					seeker("py", "py", "app=db", nil),
				} {
					q.Add(r, created(int64(i)))
					r, order, _ := q.Pop()
					q.Park(r, order, Verdict{Class: r.Class, Line: r.Class, WakeOn: framework.NeighbourCame | framework.NeighbourLeft})
				}
				wake(q)
				names := popAll(q)
				q.WakeAll()
				popAll(q)
				if len(q.seekers) != 0 || len(q.pools) != 0 {
					t.Errorf("%d namespaces and %d Runtimes are left", len(q.seekers), len(q.pools))
				}
				return names
			}
			if diff := cmp.Diff(tc.came, woken(func(q *Queue) bool { return q.WakeForCome(&tc.neighbour) })); diff != "" {
				t.Errorf("woken when it comes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.left, woken(func(q *Queue) bool { return q.WakeForLeft(&tc.neighbour) })); diff != "" {
				t.Errorf("woken when it leaves (-want +got):\n%s", diff)
			}
		})
	}
}
