package scheduler

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/cache"
	"kruntimes.io/kruntimes/scheduler/framework"
)

const (
	benchRuntimes = 20
	benchPods     = 50
	benchPending  = 10_000
	benchCapacity = 4
)

// crowd is 20 Runtimes with 50 Pods each, all full, and 10,000 Runs that wait for them.
func crowd(b *testing.B) (*world, []*corev1alpha1.Run) {
	b.Helper()
	w := newWorld(b)
	for rt := range benchRuntimes {
		name := fmt.Sprintf("rt%02d", rt)
		w.engine.runtimeSeen(&framework.RuntimeInfo{Namespace: "n", Name: name, Replicas: benchPods,
			Capacity: framework.Resources{{Name: "runs", Milli: 1000 * benchCapacity}}})
		for p := range benchPods {
			pod := fmt.Sprintf("%s-pod%02d", name, p)
			w.engine.podSeen(cache.Pod{Runtime: types.NamespacedName{Namespace: "n", Name: name}, Name: pod, UID: types.UID(pod), Ready: true})
		}
	}
	for i := range benchPending + benchRuntimes*benchPods*benchCapacity {
		w.engine.runSeen(benchRun(w, i))
	}
	var active []*corev1alpha1.Run
	for _, a := range w.decide() {
		active = append(active, confirm(w, a))
	}
	if len(active) != benchRuntimes*benchPods*benchCapacity || w.engine.queue.Len() != benchPending {
		b.Fatalf("%d Runs are placed, %d wait", len(active), w.engine.queue.Len())
	}
	b.ReportAllocs()
	b.ResetTimer()
	return w, active
}

func benchRun(w *world, i int) *corev1alpha1.Run {
	w.version++
	return &corev1alpha1.Run{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("r%d", i), UID: types.UID(fmt.Sprintf("u%d", i)),
			ResourceVersion: fmt.Sprint(w.version), CreationTimestamp: metav1.NewTime(epoch)},
		Spec:   corev1alpha1.RunSpec{Runtime: fmt.Sprintf("rt%02d", i%benchRuntimes)},
		Status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending},
	}
}

// confirm stores and shows a decision without the world's own books, which would dominate the time.
func confirm(w *world, a *assignment) *corev1alpha1.Run {
	w.version++
	r := *a.run
	r.ResourceVersion = fmt.Sprint(w.version)
	assignedTo(a)(&r)
	w.engine.bound(a, r.ResourceVersion)
	w.engine.runSeen(&r)
	return &r
}

// cpuTime is the processor time that this process has used. On a shared machine it says more than the clock.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func reportCycles(b *testing.B, began time.Duration, cycles int) {
	b.Helper()
	b.ReportMetric(float64(cycles)/(cpuTime(b)-began).Seconds(), "cycles/cpu-s")
	b.ReportMetric(float64(cycles)/b.Elapsed().Seconds(), "cycles/s")
}

// BenchmarkCycle is everything that the engine does for one Run under a backlog: a Run ends, its place wakes the queue, a
// cycle places the oldest, a second one finds all full again, the bind is confirmed, and a new Run arrives.
func BenchmarkCycle(b *testing.B) {
	w, active := crowd(b)
	next := benchPending + len(active)
	began := cpuTime(b)
	for i := range b.N {
		at := i % len(active)
		w.engine.runFinished(active[at].UID)
		w.engine.runGone(active[at].UID)
		placed := w.decide()
		if len(placed) != 1 {
			b.Fatalf("a freed place led to %d decisions", len(placed))
		}
		active[at] = confirm(w, placed[0])
		w.engine.runSeen(benchRun(w, next))
		next++
	}
	reportCycles(b, began, 2*b.N)
}

// BenchmarkSchedule is the pure cycle alone, on a Runtime of 50 Pods of which one has room.
func BenchmarkSchedule(b *testing.B) {
	w, active := crowd(b)
	run := active[0]
	info := framework.NewRunInfo(run)
	w.engine.cache.Release(run.UID)
	snapshot := w.engine.cache.Snapshot(info.RuntimeKey())
	began := cpuTime(b)
	for range b.N {
		if w.engine.rules.Schedule(snapshot, info).Pod == nil {
			b.Fatal("no Pod")
		}
	}
	reportCycles(b, began, b.N)
}

// BenchmarkScheduleOnEmptyPods is the pure cycle with every Pod to be scored.
func BenchmarkScheduleOnEmptyPods(b *testing.B) {
	w, active := crowd(b)
	for _, r := range active {
		w.engine.cache.Release(r.UID)
	}
	info := framework.NewRunInfo(active[0])
	snapshot := w.engine.cache.Snapshot(info.RuntimeKey())
	began := cpuTime(b)
	for range b.N {
		if w.engine.rules.Schedule(snapshot, info).Pod == nil {
			b.Fatal("no Pod")
		}
	}
	reportCycles(b, began, b.N)
}

// BenchmarkNotices concludes why 10,000 Runs wait, after a change of every Runtime.
func BenchmarkNotices(b *testing.B) {
	w, _ := crowd(b)
	for range b.N {
		for rt := range benchRuntimes {
			w.engine.unexplained.add(types.NamespacedName{Namespace: "n", Name: fmt.Sprintf("rt%02d", rt)})
		}
		w.engine.notices(tellIdle)
	}
}
