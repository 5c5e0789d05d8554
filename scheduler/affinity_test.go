package scheduler

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/cache"
	"kruntimes.io/kruntimes/scheduler/framework"
)

// change is something about a Run that is created.
type change = func(*corev1alpha1.Run)

// labelled gives labels, as "app=db,tier=a".
func labelled(labels string) change {
	return func(r *corev1alpha1.Run) {
		r.Labels = map[string]string{}
		for _, l := range strings.Split(labels, ",") {
			key, value, _ := strings.Cut(l, "=")
			r.Labels[key] = value
		}
	}
}

func term(selector string) corev1alpha1.RunAffinityTerm {
	s, err := metav1.ParseToLabelSelector(selector)
	if err != nil {
		panic(err)
	}
	return corev1alpha1.RunAffinityTerm{LabelSelector: *s, TopologyKey: corev1alpha1.TopologyRuntimePod}
}

// rules returns the affinity and the anti-affinity of a Run, to be added to.
func rules(r *corev1alpha1.Run) (near, apart *corev1alpha1.RunAffinity) {
	if r.Spec.Affinity == nil {
		r.Spec.Affinity = &corev1alpha1.Affinity{RunAffinity: &corev1alpha1.RunAffinity{}, RunAntiAffinity: &corev1alpha1.RunAffinity{}}
	}
	return r.Spec.Affinity.RunAffinity, r.Spec.Affinity.RunAntiAffinity
}

func near(selector string) change {
	return func(r *corev1alpha1.Run) {
		n, _ := rules(r)
		n.Required = append(n.Required, term(selector))
	}
}

func apart(selector string) change {
	return func(r *corev1alpha1.Run) {
		_, a := rules(r)
		a.Required = append(a.Required, term(selector))
	}
}

func rather(weight int32, selector string) change {
	return func(r *corev1alpha1.Run) {
		n, _ := rules(r)
		n.Preferred = append(n.Preferred, corev1alpha1.WeightedRunAffinityTerm{Weight: weight, Term: term(selector)})
	}
}

func ratherNot(weight int32, selector string) change {
	return func(r *corev1alpha1.Run) {
		_, a := rules(r)
		a.Preferred = append(a.Preferred, corev1alpha1.WeightedRunAffinityTerm{Weight: weight, Term: term(selector)})
	}
}

func ofRuntime(name string) change { return func(r *corev1alpha1.Run) { r.Spec.Runtime = name } }

// on makes a Run that is on a Pod already.
func on(pod string) change {
	return assignedTo(&assignment{podName: pod, podUID: types.UID("uid-" + pod)})
}

// other shows a Runtime and a Pod of it, both of this name.
func (w *world) other(name string) {
	key := types.NamespacedName{Namespace: "n", Name: name}
	w.engine.runtimeSeen(&framework.RuntimeInfo{Namespace: "n", Name: name, Replicas: 1,
		Capacity: framework.Resources{{Name: "runs", Milli: 4000}}})
	w.engine.podSeen(cache.Pod{Runtime: key, Name: name, UID: types.UID("uid-" + name), Ready: true})
}

// TestAffinityPlacements is as TestPlacements: the order in which news arrive must not matter. Pods have room for four.
func TestAffinityPlacements(t *testing.T) {
	const cohort = "job=build"
	cases := map[string]struct {
		pods string // names; those that are not ready in upper case
		runs func(w *world)
		want []string
	}{
		"a cohort stays together, its first member goes anywhere": {"a b c", func(w *world) {
			w.create("load", "1", on("a"))
			for i := range 4 {
				w.create(fmt.Sprint("r", i), "1", labelled(cohort), near(cohort))
			}
		}, []string{"load on a", "r0 on b", "r1 on b", "r2 on b", "r3 on b"}},
		"a cohort does not overflow": {"a b", func(w *world) {
			for i := range 6 {
				w.create(fmt.Sprint("r", i), "1", labelled(cohort), near(cohort))
			}
		}, []string{"r0 on a", "r1 on a", "r2 on a", "r3 on a"}},
		"two cohorts take two Pods": {"a b", func(w *world) {
			for i := range 6 {
				job := fmt.Sprint("job=", i%2)
				w.create(fmt.Sprint("r", i), "1", labelled(job), near(job))
			}
		}, []string{"r0 on a", "r1 on b", "r2 on a", "r3 on b", "r4 on a", "r5 on b"}},
		"who requires others of another kind waits for them": {"a b", func(w *world) {
			w.create("r", "1", labelled("app=web"), near("app=db"))
			w.create("s", "1")
		}, []string{"s on a"}},
		"and goes where they are, also when they are placed later": {"a b", func(w *world) {
			w.create("r", "1", near("app=db"))
			w.create("load", "1")
			w.create("db", "1", labelled("app=db"))
		}, []string{"db on b", "load on a", "r on b"}},
		"each term may select another Run": {"a b c", func(w *world) {
			w.create("db", "1", labelled("app=db"), on("a"))
			w.create("db2", "1", labelled("app=db"), on("b"))
			w.create("cache", "1", labelled("app=cache"), on("b"))
			w.create("cache2", "1", labelled("app=cache"), on("c"))
			w.create("r", "1", near("app=db"), near("app=cache"))
		}, []string{"cache on b", "cache2 on c", "db on a", "db2 on b", "r on b"}},
		"the first of a cohort keeps to its other terms": {"a b", func(w *world) {
			w.create("db", "1", labelled("app=db"), on("b"))
			w.create("r0", "1", labelled(cohort), near(cohort), near("app=db"))
		}, []string{"db on b", "r0 on b"}},
		"nobody is first while a member is on a Pod of another Runtime": {"a", func(w *world) {
			w.create("r0", "1", labelled(cohort), ofRuntime("py"), on("py"))
			w.create("r1", "1", labelled(cohort), near(cohort))
		}, []string{"r0 on py"}},
		"nor while one is on a Pod that is gone": {"a", func(w *world) {
			w.create("r0", "1", labelled(cohort), on("z"))
			w.create("r1", "1", labelled(cohort), near(cohort))
		}, []string{"r0 on z"}},
		"Runs of another namespace do not count": {"a b", func(w *world) {
			w.create("r0", "1", labelled(cohort), on("z"), func(r *corev1alpha1.Run) { r.Namespace = "m" })
			w.create("r1", "1", labelled(cohort), near(cohort))
		}, []string{"r0 on z", "r1 on a"}},
		"a member on a Pod that is not ready is waited for": {"A b", func(w *world) {
			w.create("r0", "1", labelled(cohort), on("A"))
			w.create("r1", "1", labelled(cohort), near(cohort))
		}, []string{"r0 on A"}},
		"anti-affinity spreads, and what is left waits": {"a b", func(w *world) {
			for i := range 3 {
				w.create(fmt.Sprint("r", i), "1", labelled(cohort), apart(cohort))
			}
		}, []string{"r0 on a", "r1 on b"}},
		"anti-affinity holds against Runs that came before": {"a b", func(w *world) {
			w.create("noisy", "1", labelled("noisy=yes"), on("a"))
			w.create("load", "3", on("b"))
			w.create("r", "1", apart("noisy"))
		}, []string{"load on b", "noisy on a", "r on b"}},
		"and against those that come later, though they have no rules": {"a b", func(w *world) {
			w.create("quiet", "1", apart("noisy"), on("a"))
			w.create("load", "4", on("b"))
			w.create("r0", "1", labelled("noisy=yes"))
			w.create("r1", "1", labelled("noise=no"))
		}, []string{"load on b", "quiet on a", "r1 on a"}},
		"rules without a positive label": {"a b", func(w *world) {
			w.create("mine", "1", labelled("team=x"), on("b"))
			w.create("theirs", "1", labelled("team=y"), on("a"))
			w.create("r", "1", labelled("team=x"), apart("team notin (x)"))
		}, []string{"mine on b", "r on b", "theirs on a"}},
		"near one and apart from another": {"a b c", func(w *world) {
			w.create("db1", "1", labelled("app=db"), on("a"))
			w.create("db2", "1", labelled("app=db"), on("b"))
			w.create("noisy", "1", labelled("noisy=yes"), on("a"))
			w.create("r", "1", near("app in (db,cache)"), apart("noisy=yes"))
		}, []string{"db1 on a", "db2 on b", "noisy on a", "r on b"}},
		"a preference counts for more than room": {"a b", func(w *world) {
			w.create("db", "3", labelled("app=db"), on("b"))
			w.create("r0", "1", rather(1, "app=db"))
			w.create("r1", "1", rather(1, "app=db"))
		}, []string{"db on b", "r0 on b", "r1 on a"}},
		"weights add up, dislikes are taken away": {"a b c", func(w *world) {
			w.create("x", "1", labelled("x=1"), on("a"))
			w.create("y", "1", labelled("y=1"), on("b"))
			w.create("z", "1", labelled("z=1"), on("b"))
			w.create("xy", "1", labelled("x=1,y=1,bad=1"), on("c"))
			w.create("r", "1", rather(60, "x"), rather(40, "y"), rather(30, "z"), ratherNot(35, "bad"))
		}, []string{"r on b", "x on a", "xy on c", "y on b", "z on b"}},
		"a preference never overrides a rule": {"a b", func(w *world) {
			w.create("db", "1", labelled("app=db"), on("a"))
			w.create("r0", "1", rather(100, "app=db"), apart("app=db"))
			w.create("r1", "1", near("app=db"), ratherNot(100, "app=db"))
		}, []string{"db on a", "r0 on b", "r1 on a"}},
		"an unmet preference keeps nobody waiting": {"a b", func(w *world) {
			w.create("r", "1", rather(100, "app=db"), ratherNot(1, "app=web"))
		}, []string{"r on a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(100) {
				w := newWorld(t)
				tc.runs(w)
				news := []func(){func() { w.runtime(4) }, func() { w.other("py") }}
				for _, pod := range strings.Fields(tc.pods) {
					reason := ""
					if strings.ToUpper(pod) == pod {
						reason = "Starting"
					}
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

// TestAffinitySeries plays events one after the other and wants placements after each: every event that helps wakes.
func TestAffinitySeries(t *testing.T) {
	type step struct {
		name string
		do   func(w *world)
		want []string
	}
	add := func(w *world, name string, changes ...change) { w.engine.runSeen(w.create(name, "1", changes...)) }
	twoPods := func(w *world) {
		w.runtime(2)
		w.pod("a", "")
		w.pod("b", "")
	}
	cases := map[string][]step{
		"a Run that is required near comes": {
			{"nobody is there", func(w *world) { twoPods(w); add(w, "r", near("app=db")) }, nil},
			{"somebody else comes", func(w *world) { add(w, "web", labelled("app=web")) }, []string{"web on a"}},
			{"one of another Runtime comes", func(w *world) { w.other("py"); add(w, "db1", labelled("app=db"), ofRuntime("py")) },
				[]string{"db1 on py", "web on a"}},
			{"the right one comes", func(w *world) { add(w, "db2", labelled("app=db")) },
				[]string{"db1 on py", "db2 on b", "r on b", "web on a"}},
		},
		"a Run becomes what is required near": {
			{"it is not yet", func(w *world) { twoPods(w); add(w, "x"); add(w, "r", near("app=db")) }, []string{"x on a"}},
			{"it gets the label", func(w *world) { w.engine.runSeen(w.store("x", labelled("app=db"))) }, []string{"r on a", "x on a"}},
		},
		"the last member on another Runtime ends": {
			{"it runs", func(w *world) {
				twoPods(w)
				w.other("py")
				add(w, "r0", labelled("job=1"), ofRuntime("py"))
			}, []string{"r0 on py"}},
			{"two wait", func(w *world) {
				add(w, "r1", labelled("job=1"), near("job=1"))
				add(w, "r2", labelled("job=1"), near("job=1"))
			}, []string{"r0 on py"}},
			{"it ends", func(w *world) { w.finish("r0") }, []string{"r1 on a", "r2 on a"}},
		},
		"room on the Pod of the cohort": {
			{"it is full", func(w *world) {
				twoPods(w)
				for i := range 3 {
					add(w, fmt.Sprint("r", i), labelled("job=1"), near("job=1"))
				}
			}, []string{"r0 on a", "r1 on a"}},
			{"room elsewhere does not help", func(w *world) { add(w, "x"); w.settle(); w.finish("x") }, []string{"r0 on a", "r1 on a"}},
			{"room there does", func(w *world) { w.finish("r0") }, []string{"r1 on a", "r2 on a"}},
		},
		"a Run that was kept apart from ends": {
			{"both Pods are taken", func(w *world) {
				twoPods(w)
				for i := range 4 {
					add(w, fmt.Sprint("r", i), labelled("app=x"), apart("app=x"))
				}
			}, []string{"r0 on a", "r1 on b"}},
			{"one ends", func(w *world) { w.finish("r1") }, []string{"r0 on a", "r2 on b"}},
			{"a Pod comes", func(w *world) { w.pod("c", "") }, []string{"r0 on a", "r2 on b", "r3 on c"}},
		},
		"a Run that kept others away ends": {
			{"it is there", func(w *world) {
				w.runtime(2)
				w.pod("a", "")
				add(w, "quiet", apart("noisy"))
			}, []string{"quiet on a"}},
			{"the noisy one waits and holds nobody up", func(w *world) {
				add(w, "n", labelled("noisy=1"))
				add(w, "m", labelled("other=1"))
			}, []string{"m on a", "quiet on a"}},
			{"it ends", func(w *world) { w.finish("quiet") }, []string{"m on a", "n on a"}},
		},
		"guards that differ do not tie Runs together": {
			{"two guards", func(w *world) {
				twoPods(w)
				add(w, "g1", apart("x"), on("a"))
				add(w, "g2", apart("y"), on("b"))
				add(w, "both", labelled("x=1,y=1"))
				add(w, "full-a", on("a"))
				add(w, "full-b", on("b"))
				add(w, "x", labelled("x=1"))
				add(w, "y", labelled("y=1"))
			}, []string{"full-a on a", "full-b on b", "g1 on a", "g2 on b"}},
			{"the first leaves", func(w *world) { w.finish("g1") }, []string{"both on a", "full-a on a", "full-b on b", "g2 on b"}},
			{"room beside the second", func(w *world) { w.finish("full-b") }, []string{"both on a", "full-a on a", "g2 on b", "x on b"}},
		},
		"the Pod of a member becomes ready again": {
			{"a member is there", func(w *world) { twoPods(w); add(w, "r0", labelled("job=1"), near("job=1")) }, []string{"r0 on a"}},
			{"its Pod is away", func(w *world) { w.pod("a", "Lost"); add(w, "r1", labelled("job=1"), near("job=1")) }, []string{"r0 on a"}},
			{"and comes back", func(w *world) { w.pod("a", "") }, []string{"r0 on a", "r1 on a"}},
		},
	}
	for name, series := range cases {
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

func TestAReservedRunCounts(t *testing.T) {
	w := newWorld(t)
	w.runtime(4)
	w.pod("a", "")
	w.pod("b", "")
	for i := range 2 {
		w.engine.runSeen(w.create(fmt.Sprint("near", i), "1", labelled("job=1"), near("job=1")))
		w.engine.runSeen(w.create(fmt.Sprint("apart", i), "1", labelled("app=x"), apart("app=x")))
	}
	decided := w.decide() // none of it is stored yet
	var got []string
	for _, a := range decided {
		got = append(got, a.run.Name+" on "+a.podName)
	}
	if diff := cmp.Diff([]string{"near0 on a", "apart0 on b", "near1 on a", "apart1 on a"}, got); diff != "" {
		t.Fatalf("decisions (-want +got):\n%s", diff)
	}
	// The first of a cohort is refused for good: the second stays, and the first joins it when it is tried again.
	w.engine.refused(decided[0])
	w.clock.Step(lastRetry)
	if a := w.decide(); len(a) != 1 || a[0].podName != "a" {
		t.Errorf("decided %+v, want near0 to join near1 on a", a)
	}
}

func TestRunsAreToldWhichRuleKeepsThemWaiting(t *testing.T) {
	w := newWorld(t)
	w.runtime(1)
	w.other("py")
	w.pod("a", "")
	w.pod("b", "")
	w.pod("c", "ImagePullBackOff")
	add := func(name string, changes ...change) { w.engine.runSeen(w.create(name, "1", changes...)) }
	add("db", labelled("app=db"), on("a"))
	add("remote", labelled("app=remote"), ofRuntime("py"), on("py"))
	add("quiet", apart("noisy"), on("b"))
	add("1-alone", near("app=web"))
	add("2-elsewhere", near("app=remote"))
	add("3-full", near("app=db"))
	add("4-apart", apart("app=db"), func(r *corev1alpha1.Run) { r.Labels = map[string]string{"noisy": ""} })
	add("5-plain")
	add("6-first", labelled("job=1"), near("job=1"))
	add("7-wrong", func(r *corev1alpha1.Run) {
		near("app=db")(r)
		r.Spec.Affinity.RunAffinity.Required[0].LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	})
	w.settle()
	w.clock.Step(2 * time.Second)
	want := []string{
		"1-alone: AffinityNotSatisfied: 3 Pods: 2 without a Run that matches app=web, 1 not ready: ImagePullBackOff",
		"2-elsewhere: AffinityNotSatisfied: 3 Pods: 2 without a Run that matches app=remote (1 on no Pod of this Runtime), 1 not ready: ImagePullBackOff",
		"3-full: Unschedulable: 3 Pods: 1 full (runs 1/1), 1 not ready: ImagePullBackOff, 1 without a Run that matches app=db",
		"4-apart: AffinityNotSatisfied: 3 Pods: 1 not ready: ImagePullBackOff, 1 with a Run that keeps away noisy, 1 with a Run that matches app=db",
		"5-plain: InsufficientCapacity: 3 Pods: 2 full (runs 1/1), 1 not ready: ImagePullBackOff",
		"6-first: InsufficientCapacity: 3 Pods: 2 full (runs 1/1), 1 not ready: ImagePullBackOff",
		`7-wrong: AffinityNotSatisfied: spec.affinity: compiling a label selector: "Near" is not a valid label selector operator`,
	}
	if diff := cmp.Diff(want, w.told(100)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
