package scheduler

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/cache"
)

// TestPlacements declares what is there, shows it to the engine in a hundred orders, and wants the same placements each
// time: the order in which news arrive must not matter.
func TestPlacements(t *testing.T) {
	sizes := func(w *world, sizes ...string) {
		for i, s := range sizes {
			w.create(fmt.Sprintf("r%d", i), s)
		}
	}
	cases := map[string]struct {
		capacity int64
		// pods are the Pods, each with the reason why it is not ready.
		pods map[string]string
		runs func(w *world)
		want []string
	}{
		"Runs spread evenly, names break ties": {4, map[string]string{"a": "", "b": "", "c": ""},
			func(w *world) { sizes(w, "1", "1", "1", "1") },
			[]string{"r0 on a", "r1 on b", "r2 on c", "r3 on a"}},
		"what does not fit waits, the oldest go first": {1, map[string]string{"a": "", "b": ""},
			func(w *world) { sizes(w, "1", "1", "1", "1") }, []string{"r0 on a", "r1 on b"}},
		"a large Run does not block small ones behind it": {2, map[string]string{"a": "", "b": ""},
			func(w *world) { sizes(w, "1", "1", "2", "1") }, []string{"r0 on a", "r1 on b", "r3 on a"}},
		"a Run that never fits does not block": {2, map[string]string{"a": ""},
			func(w *world) { sizes(w, "3", "1") }, []string{"r1 on a"}},
		"fractions add up": {1, map[string]string{"a": ""},
			func(w *world) { sizes(w, "0.5", "0.25", "0.25", "0.001") }, []string{"r0 on a", "r1 on a", "r2 on a"}},
		"Pods that are not ready get nothing": {4, map[string]string{"a": "ImagePullBackOff", "b": ""},
			func(w *world) { sizes(w, "1", "1") }, []string{"r0 on b", "r1 on b"}},
		"Runs that are there already count": {2, map[string]string{"a": "", "b": ""},
			func(w *world) {
				w.create("old", "1", assignedTo(&assignment{podName: "a", podUID: "uid-a"}))
				w.create("older", "1", assignedTo(&assignment{podName: "a", podUID: "uid-a"}))
				sizes(w, "1", "1", "1")
			},
			[]string{"old on a", "older on a", "r0 on b", "r1 on b"}},
		"a Run on an earlier Pod of the same name takes nothing of this one": {1, map[string]string{"a": ""},
			func(w *world) {
				w.create("old", "1", assignedTo(&assignment{podName: "a", podUID: "uid-of-an-earlier-a"}))
				sizes(w, "1")
			},
			[]string{"old on a", "r0 on a"}},
		"cancelled, deleted and postponed Runs are not placed": {4, map[string]string{"a": ""},
			func(w *world) {
				w.create("cancelled", "1", func(r *corev1alpha1.Run) { r.Spec.CancelRequested = true })
				now, later := metav1.NewTime(w.clock.Now()), metav1.NewMicroTime(w.clock.Now().Add(time.Minute))
				w.create("deleted", "1", func(r *corev1alpha1.Run) { r.DeletionTimestamp = &now })
				w.create("postponed", "1", func(r *corev1alpha1.Run) { r.Status.NextAttemptTime = &later })
				sizes(w, "1")
			},
			[]string{"r0 on a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(100) {
				w := newWorld(t)
				tc.runs(w)
				news := []func(){func() { w.runtime(tc.capacity) }}
				for pod, reason := range tc.pods {
					news = append(news, func() { w.pod(pod, reason) })
				}
				for _, r := range w.runs {
					news = append(news, func() { w.engine.runSeen(r) })
				}
				rng := rand.New(rand.NewSource(seed))
				rng.Shuffle(len(news), func(i, j int) { news[i], news[j] = news[j], news[i] })
				for _, show := range news {
					show()
				}
				if diff := cmp.Diff(tc.want, w.settle()); diff != "" {
					t.Fatalf("placements in order %d (-want +got):\n%s", seed, diff)
				}
			}
		})
	}
}

// TestSeries plays events one after the other and wants placements after each.
func TestSeries(t *testing.T) {
	type step struct {
		name string
		do   func(w *world)
		want []string
	}
	steps := map[string][]step{
		"whatever was missing, its arrival wakes the Run": {
			{"the Run comes first", func(w *world) { w.add("r", "2") }, nil},
			{"a Runtime that is too small", func(w *world) { w.runtime(1) }, nil},
			{"a Pod that is not ready", func(w *world) { w.pod("a", "ContainerCreating") }, nil},
			{"a larger capacity", func(w *world) { w.runtime(2) }, nil},
			{"the Pod is ready", func(w *world) { w.pod("a", "") }, []string{"r on a"}},
		},
		"a place that is freed goes to the oldest": {
			{"all is full", func(w *world) {
				w.runtime(1)
				w.pod("a", "")
				w.add("r0", "1")
			}, []string{"r0 on a"}},
			{"two wait", func(w *world) { w.add("r1", "1"); w.add("r2", "1") }, []string{"r0 on a"}},
			{"one leaves", func(w *world) { w.finish("r0") }, []string{"r1 on a"}},
			{"a Pod comes", func(w *world) { w.pod("b", "") }, []string{"r1 on a", "r2 on b"}},
		},
		"a capacity below use admits nothing until it fits": {
			{"four are there", func(w *world) {
				w.runtime(4)
				w.pod("a", "")
				for i := range 4 {
					w.add(fmt.Sprintf("r%d", i), "1")
				}
			}, []string{"r0 on a", "r1 on a", "r2 on a", "r3 on a"}},
			{"lowered to two, one leaves", func(w *world) { w.runtime(2); w.add("x", "1"); w.finish("r0") }, []string{"r1 on a", "r2 on a", "r3 on a"}},
			{"another leaves", func(w *world) { w.finish("r1") }, []string{"r2 on a", "r3 on a"}},
			{"a third leaves", func(w *world) { w.finish("r2") }, []string{"r3 on a", "x on a"}},
		},
		"a Pod that is replaced under its name starts empty": {
			{"it is full", func(w *world) {
				w.runtime(1)
				w.pod("a", "")
				w.add("r0", "1")
				w.add("r1", "1")
			}, []string{"r0 on a"}},
			{"it goes", func(w *world) { w.engine.podGone("uid-a") }, []string{"r0 on a"}},
			{"its successor comes", func(w *world) {
				w.engine.podSeen(cache.Pod{Runtime: shKey, Name: "a", UID: "uid-a2", Ready: true})
			}, []string{"r0 on a", "r1 on a"}},
		},
		"a Run that is handed back waits for its time, then goes first": {
			{"it runs", func(w *world) {
				w.runtime(1)
				w.pod("a", "")
				w.add("r0", "1")
			}, []string{"r0 on a"}},
			{"handed back", func(w *world) {
				next := metav1.NewMicroTime(w.clock.Now().Add(10 * time.Second))
				w.engine.runSeen(w.store("r0", func(r *corev1alpha1.Run) {
					r.Status = corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Attempt: 2, NextAttemptTime: &next}
				}))
				w.add("r1", "1")
			}, []string{"r1 on a"}},
			{"its place is taken when its time comes", func(w *world) { w.clock.Step(10 * time.Second); w.add("r2", "1") }, []string{"r1 on a"}},
			{"the place is free", func(w *world) { w.finish("r1") }, []string{"r0 on a"}},
		},
		"a Runtime that is deleted takes nothing more": {
			{"full", func(w *world) {
				w.runtime(1)
				w.pod("a", "")
				w.add("r0", "1")
				w.add("r1", "1")
			}, []string{"r0 on a"}},
			{"deleted", func(w *world) { w.engine.runtimeGone(shKey); w.finish("r0") }, nil},
			{"made again", func(w *world) { w.runtime(1) }, []string{"r1 on a"}},
		},
		"a Pod whose Node is gone takes nothing, whatever it says": {
			{"two Pods on their Nodes", func(w *world) {
				w.runtime(1)
				for _, name := range []string{"a", "b"} {
					w.engine.nodeSeen("node-" + name)
					w.engine.podSeen(cache.Pod{Runtime: shKey, Name: name, UID: types.UID("uid-" + name), Node: "node-" + name, Ready: true})
				}
			}, nil},
			{"a Node goes", func(w *world) { w.engine.nodeGone("node-a"); w.add("r0", "1"); w.add("r1", "1") }, []string{"r0 on b"}},
			{"it is back", func(w *world) { w.engine.nodeSeen("node-a") }, []string{"r0 on b", "r1 on a"}},
		},
		"a cancelled Run gives its turn away": {
			{"full", func(w *world) {
				w.runtime(1)
				w.pod("a", "")
				w.add("r0", "1")
				w.add("r1", "1")
				w.add("r2", "1")
			}, []string{"r0 on a"}},
			{"the next in line is cancelled", func(w *world) {
				w.engine.runSeen(w.store("r1", func(r *corev1alpha1.Run) { r.Spec.CancelRequested = true }))
				w.finish("r0")
			}, []string{"r2 on a"}},
		},
	}
	for name, series := range steps {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, s := range series {
				s.do(w)
				if diff := cmp.Diff(s.want, w.settle()); diff != "" {
					t.Fatalf("%s (-want +got):\n%s", s.name, diff)
				}
			}
		})
	}
}
