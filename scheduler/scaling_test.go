package scheduler

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/cache"
	"kruntimes.io/kruntimes/scheduler/framework"
	"kruntimes.io/kruntimes/scheduler/plugins"
)

// counter is a plugin that counts cycles.
type counter struct{ cycles int }

func (*counter) Name() string { return "Counter" }

func (*counter) EventsToRegister() framework.Events { return 0 }

func (c *counter) PreFilter(*framework.Cycle) *framework.Status {
	c.cycles++
	return nil
}

// countCycles makes an engine's rules those of the default profile with a counter.
func countCycles(tb testing.TB, w *world) *counter {
	tb.Helper()
	c := &counter{}
	enabled := []framework.Enabled{{Plugin: c}}
	for _, use := range plugins.DefaultProfile() {
		enabled = append(enabled, framework.Enabled{Plugin: plugins.Registry()[use.Name](), Weight: use.Weight})
	}
	rules, err := framework.New(enabled)
	if err != nil {
		tb.Fatal(err)
	}
	w.engine = newEngine(rules, w.clock)
	return c
}

// crowds are kinds of Runs that wait together, by their number. See company as well.
var crowds = map[string]func(r *corev1alpha1.Run, i int){
	"all the same": func(*corev1alpha1.Run, int) {},
	"10,000 different requests": func(r *corev1alpha1.Run, i int) {
		r.Spec.Resources = &corev1alpha1.RunResources{Requests: corev1.ResourceList{
			"example.com/x": *resource.NewMilliQuantity(int64(1+i%20_000), resource.DecimalSI)}}
	},
	"one in ten is large": func(r *corev1alpha1.Run, i int) {
		if i/benchRuntimes%10 == 0 {
			r.Spec.Resources = &corev1alpha1.RunResources{Requests: corev1.ResourceList{corev1alpha1.ResourceRuns: resource.MustParse("3")}}
		}
	},
	"each in a workspace of its own": func(r *corev1alpha1.Run, i int) {
		r.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: fmt.Sprint("w", i)}
	},
	"retried together": func(r *corev1alpha1.Run, _ int) { retries(3, time.Second)(r); r.Status.Attempt = 2 },
}

// cost is what it takes to serve a backlog.
type cost struct {
	Placed, Cycles, Words int
	CPU                   time.Duration
}

// drain lets a number of Runs wait for 20 Runtimes of 50 Pods, all full, and ends one Run of each Runtime every 40 ms, when
// words are said as well, until all are done.
func drain(t *testing.T, waiting int, change func(r *corev1alpha1.Run, i int)) cost {
	t.Helper()
	w := newWorld(t)
	c := countCycles(t, w)
	for rt := range benchRuntimes {
		name := fmt.Sprintf("rt%02d", rt)
		w.engine.runtimeSeen(&framework.RuntimeInfo{Namespace: "n", Name: name, Replicas: benchPods, Capacity: framework.Resources{
			{Name: "example.com/x", Milli: 1000_000}, {Name: "runs", Milli: 1000 * benchCapacity}}})
		for p := range benchPods {
			pod := fmt.Sprintf("%s-pod%02d", name, p)
			w.engine.podSeen(cache.Pod{Runtime: types.NamespacedName{Namespace: "n", Name: name}, Name: pod, UID: types.UID(pod), Ready: true})
		}
	}
	var got cost
	var active []*corev1alpha1.Run
	place := func() {
		for _, a := range w.decide() {
			active = append(active, confirm(w, a))
			got.Placed++
		}
	}
	for i := range benchRuntimes * benchPods * benchCapacity {
		w.engine.runSeen(benchRun(w, i))
	}
	place()
	for i := range waiting {
		r := benchRun(w, len(active)+i)
		change(r, i)
		if r.Spec.Workspace != nil {
			pod := fmt.Sprintf("%s-pod%02d", r.Spec.Runtime, i/benchRuntimes%benchPods)
			w.engine.workspaceSeen(&framework.WorkspaceInfo{Namespace: "n", Name: r.Spec.Workspace.Name, Runtime: r.Spec.Runtime,
				Phase: workspacesv1alpha1.WorkspaceBound, Pod: pod, PodUID: types.UID(pod)})
		}
		w.engine.runSeen(r)
	}
	place()
	c.cycles, got.Placed = 0, 0
	began := usedCPU(t)
	for len(active) > 0 {
		for range min(benchRuntimes, len(active)) {
			w.engine.runFinished(active[0].UID)
			w.engine.runGone(active[0].UID)
			active = active[1:]
			place()
		}
		w.clock.Step(40 * time.Millisecond)
		got.Words += len(w.engine.notices(tellBusy))
	}
	got.CPU = usedCPU(t) - began
	got.Cycles = c.cycles
	if n := w.engine.queue.Len(); n != 0 || got.Placed != waiting {
		t.Fatalf("%d of %d Runs were placed, %d are left", got.Placed, waiting, n)
	}
	return got
}

func usedCPU(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestTwiceTheRunsCostTwiceAsMuch serves backlogs of one size and of twice that.
func TestTwiceTheRunsCostTwiceAsMuch(t *testing.T) {
	const size = 2000
	for _, kinds := range []map[string]func(r *corev1alpha1.Run, i int){crowds, company} {
		for name, change := range kinds {
			t.Run(name, func(t *testing.T) {
				once, twice := drain(t, size, change), drain(t, 2*size, change)
				t.Logf("%d Runs: %+v", size, once)
				t.Logf("%d Runs: %+v", 2*size, twice)
				if twice.Cycles > once.Cycles*23/10 {
					t.Errorf("%d cycles, then %d", once.Cycles, twice.Cycles)
				}
				const patience = 150 // what is not said in the first second, in which nobody is told anything
				if twice.Words > 2*once.Words+patience {
					t.Errorf("%d words, then %d", once.Words, twice.Words)
				}
			})
		}
	}
}
