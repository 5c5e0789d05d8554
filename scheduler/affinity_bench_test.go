package scheduler

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/cache"
	"kruntimes.io/kruntimes/scheduler/framework"
)

// company is what Runs of a benchmark have to do with each other, by their number.
var company = map[string]func(r *corev1alpha1.Run, i int){
	// What other work pays for labels: nothing.
	"labels only": func(r *corev1alpha1.Run, i int) { r.Labels = stepLabels(i) },
	// Cohorts of twenty in one Runtime, as the steps of jobs: half of them tied to the Pod of the first.
	"cohorts": func(r *corev1alpha1.Run, i int) {
		r.Labels = stepLabels(i)
		near("job=" + r.Labels["job"])(r)
	},
	// Every Run has rules of its own that any Pod meets.
	"10,000 different rules": func(r *corev1alpha1.Run, i int) {
		r.Labels = map[string]string{"step": fmt.Sprint(i)}
		near("step=" + r.Labels["step"])(r)
	},
	// Runs of a cohort share no Pod; others are in their way for all their labels.
	"anti-affinity": func(r *corev1alpha1.Run, i int) {
		r.Labels = stepLabels(i)
		apart("job=" + r.Labels["job"])(r)
	},
	"preferences": func(r *corev1alpha1.Run, i int) {
		r.Labels = stepLabels(i)
		rather(50, "job="+r.Labels["job"])(r)
	},
	// One Run in a hundred keeps others away; the others have labels and no rules.
	"a few guards": func(r *corev1alpha1.Run, i int) {
		r.Labels = stepLabels(i)
		if i%100 < benchRuntimes {
			apart("job=" + r.Labels["job"])(r)
		}
	},
}

func stepLabels(i int) map[string]string {
	return map[string]string{"app": "ci", "job": fmt.Sprint(i%benchRuntimes, "-", i/benchRuntimes/20), "step": fmt.Sprint(i)}
}

// benchWorld is 20 Runtimes with 50 Pods each.
func benchWorld(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(tb)
	for rt := range benchRuntimes {
		name := fmt.Sprintf("rt%02d", rt)
		w.engine.runtimeSeen(&framework.RuntimeInfo{Namespace: "n", Name: name, Replicas: benchPods,
			Capacity: framework.Resources{{Name: "runs", Milli: 1000 * benchCapacity}}})
		for p := range benchPods {
			pod := fmt.Sprintf("%s-pod%02d", name, p)
			w.engine.podSeen(cache.Pod{Runtime: types.NamespacedName{Namespace: "n", Name: name}, Name: pod, UID: types.UID(pod), Ready: true})
		}
	}
	return w
}

// BenchmarkAffinity is BenchmarkCycle with Runs that have to do with each other: a Run ends, others take its place, as
// many as there are have come; 10,000 wait. An operation is one Run that is placed.
func BenchmarkAffinity(b *testing.B) {
	for name, change := range company {
		b.Run(name, func(b *testing.B) {
			w := benchWorld(b)
			next := 0
			add := func() {
				r := benchRun(w, next)
				change(r, next)
				w.engine.runSeen(r)
				next++
			}
			var active []*corev1alpha1.Run
			place := func() {
				for _, a := range w.decide() {
					active = append(active, confirm(w, a))
				}
			}
			for range benchPending + benchRuntimes*benchPods*benchCapacity {
				add()
			}
			place()
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuTime(b)
			placed := 0
			for placed < b.N {
				first := active[0]
				active = active[1:]
				w.engine.runFinished(first.UID)
				w.engine.runGone(first.UID)
				before := len(active)
				place()
				for range len(active) - before {
					add()
				}
				placed += len(active) - before
			}
			b.ReportMetric(float64(placed)/(cpuTime(b)-began).Seconds(), "placed/cpu-s")
		})
	}
}
