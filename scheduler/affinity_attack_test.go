package scheduler

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

// TestRulesThatContradict has rules that cannot all be met, or only in one way, on two Pods with room for four. Whatever
// order the news come in, nobody is placed against a rule, and nobody else is held up.
func TestRulesThatContradict(t *testing.T) {
	cases := map[string]struct {
		runs func(w *world)
		want []string
	}{
		"near and apart from the same": {func(w *world) {
			w.create("x", "1", labelled("app=x"), on("a"))
			w.create("r", "1", near("app=x"), apart("app=x"))
		}, []string{"x on a"}},
		"near and apart from its own kind: one may be there": {func(w *world) {
			for i := range 3 {
				w.create(fmt.Sprint("r", i), "1", labelled("job=1"), near("job=1"), apart("job=1"))
			}
		}, []string{"r0 on a"}},
		"near two that are on different Pods": {func(w *world) {
			w.create("x", "1", labelled("app=x"), on("a"))
			w.create("y", "1", labelled("app=y"), on("b"))
			w.create("r", "1", near("app=x"), near("app=y"))
		}, []string{"x on a", "y on b"}},
		"near one, apart from another that is there": {func(w *world) {
			w.create("db", "1", labelled("app=db"), on("a"))
			w.create("noisy", "1", labelled("noisy=1"), on("a"))
			w.create("r", "1", near("app=db"), apart("noisy"))
		}, []string{"db on a", "noisy on a"}},
		"two that require each other": {func(w *world) {
			w.create("r0", "1", labelled("k=0"), near("k=1"))
			w.create("r1", "1", labelled("k=1"), near("k=0"))
		}, nil},
		"three in a circle": {func(w *world) {
			for i := range 3 {
				w.create(fmt.Sprint("r", i), "1", labelled(fmt.Sprint("k=", i)), near(fmt.Sprint("k=", (i+1)%3)))
			}
		}, nil},
		"a chain, the last of which is free": {func(w *world) {
			w.create("r0", "1", labelled("k=0"), near("k=1"))
			w.create("r1", "1", labelled("k=1"), near("k=2"))
			w.create("r2", "1", labelled("k=2"))
		}, []string{"r0 on a", "r1 on a", "r2 on a"}},
		"a cohort that is kept away from one Pod": {func(w *world) {
			w.create("quiet", "1", apart("job=1"), on("a"))
			w.create("load", "2", on("b"))
			for i := range 3 {
				w.create(fmt.Sprint("r", i), "1", labelled("job=1"), near("job=1"))
			}
		}, []string{"load on b", "quiet on a", "r0 on b", "r1 on b"}},
		"a cohort that is kept away from the Pod where it is": {func(w *world) {
			w.create("r0", "1", labelled("job=1"), on("a"))
			w.create("quiet", "1", apart("job=1"), on("a"))
			w.create("r1", "1", labelled("job=1"), near("job=1"))
		}, []string{"quiet on a", "r0 on a"}},
		"it would rather be where it is kept away": {func(w *world) {
			w.create("quiet", "1", labelled("app=q"), apart("loud"), on("a"))
			w.create("r", "1", labelled("loud=1"), rather(100, "app=q"))
		}, []string{"quiet on a", "r on b"}},
		"it would rather not be where it must": {func(w *world) {
			w.create("db", "1", labelled("app=db"), on("b"))
			w.create("r", "1", near("app=db"), ratherNot(100, "app"))
		}, []string{"db on b", "r on b"}},
		"preferences that cancel each other leave it to the room": {func(w *world) {
			w.create("x", "2", labelled("app=x"), on("a"))
			w.create("r", "1", rather(50, "app=x"), ratherNot(50, "app=x"))
		}, []string{"r on b", "x on a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(100) {
				w := newWorld(t)
				tc.runs(w)
				bystander := w.create("z-bystander", "0.1")
				news := []func(){func() { w.runtime(4) }, func() { w.pod("a", "") }, func() { w.pod("b", "") }}
				for _, r := range w.runs {
					news = append(news, func() { w.engine.runSeen(r) })
				}
				rng := rand.New(rand.NewSource(seed))
				rng.Shuffle(len(news), func(i, j int) { news[i], news[j] = news[j], news[i] })
				for _, show := range news {
					show()
				}
				got := w.settle()
				if !w.runs[bystander.Name].Status.Phase.IsActive() {
					t.Fatalf("order %d: the bystander waits", seed)
				}
				var others []string
				for _, placed := range got {
					if !strings.HasPrefix(placed, bystander.Name) {
						others = append(others, placed)
					}
				}
				if diff := cmp.Diff(tc.want, others); diff != "" {
					t.Fatalf("placements in order %d (-want +got):\n%s", seed, diff)
				}
			}
		})
	}
}

// TestCohortsThatRaceStayTogether lets the members of many cohorts come, be refused, be answered late, end, and come
// again, in random order. Whoever is first, the members of a cohort that are active are on one Pod.
func TestCohortsThatRaceStayTogether(t *testing.T) {
	const cohorts, members = 12, 5
	for seed := range int64(20) {
		rng := rand.New(rand.NewSource(seed))
		w := newWorld(t)
		w.runtime(4)
		for _, pod := range []string{"a", "b", "c", "d", "e"} {
			w.pod(pod, "")
		}
		var open []*assignment
		together := func(step int) {
			podOf := map[string]string{}
			for _, r := range w.runs {
				if !r.Status.Phase.IsActive() {
					continue
				}
				job := r.Labels["job"]
				if other, ok := podOf[job]; ok && other != r.Status.AssignedPod {
					t.Fatalf("seed %d, step %d: cohort %s is on %s and on %s", seed, step, job, other, r.Status.AssignedPod)
				}
				podOf[job] = r.Status.AssignedPod
			}
		}
		for step := range 600 {
			job := fmt.Sprint("job=", rng.Intn(cohorts))
			name := fmt.Sprint("r", strings.TrimPrefix(job, "job="), "-", rng.Intn(members))
			r, exists := w.runs[name]
			switch kind := rng.Intn(6); {
			case !exists:
				w.engine.runSeen(w.create(name, "1", labelled(job), near(job)))
			case kind < 2:
				open = append(open, w.decide()...)
			case kind < 4 && len(open) > 0:
				i := rng.Intn(len(open))
				answer(w, rng, open[i])
				open = append(open[:i], open[i+1:]...)
			case r.Status.Phase.IsActive():
				w.finish(name)
				delete(w.runs, name)
			case kind == 5:
				w.clock.Step(lastRetry)
			}
			together(step)
		}
		for _, a := range open {
			if _, ok := w.runs[a.run.Name]; ok {
				answer(w, rng, a)
			}
		}
		w.clock.Step(lastRetry)
		w.settle()
		together(-1)
		w.checkBooks()
	}
}

// TestLabelsOfAssignedRunsChange changes what rules are about, after the placement. Nothing moves, and later decisions go
// by the labels as they are.
func TestLabelsOfAssignedRunsChange(t *testing.T) {
	relabel := func(w *world, name, labels string) { w.engine.runSeen(w.store(name, labelled(labels))) }
	add := func(w *world, name string, changes ...change) { w.engine.runSeen(w.create(name, "1", changes...)) }
	cases := map[string]struct {
		do   func(w *world)
		want []string
	}{
		"a member leaves its cohort: the next may begin anew": {func(w *world) {
			add(w, "r0", labelled("job=1"), near("job=1"))
			w.settle()
			relabel(w, "r0", "job=2")
			add(w, "r1", labelled("job=1"), near("job=1"))
		}, []string{"r0 on a", "r1 on b"}},
		"a Run becomes what another keeps away, beside it": {func(w *world) {
			add(w, "quiet", apart("loud"))
			w.settle()
			add(w, "r", on("a"))
			relabel(w, "r", "loud=1")
			add(w, "loud", labelled("loud=1"))
		}, []string{"loud on b", "quiet on a", "r on a"}},
		"what was kept away may come after it has changed": {func(w *world) {
			add(w, "quiet-a", apart("loud"), on("a"))
			add(w, "quiet-b", apart("loud"), on("b"))
			add(w, "r", labelled("loud=1"))
			w.settle()
			relabel(w, "r", "loudness=0")
		}, []string{"quiet-a on a", "quiet-b on b", "r on a"}},
		"the Run that was required is not what it was": {func(w *world) {
			add(w, "db", labelled("app=db"))
			w.settle()
			relabel(w, "db", "app=web")
			add(w, "r", near("app=db"))
		}, []string{"db on a"}},
		"it takes the label of what must be apart from the one that waits": {func(w *world) {
			add(w, "x", on("a"))
			add(w, "y", labelled("app=y"), on("b"))
			add(w, "r", apart("app"))
			relabel(w, "x", "app=x")
		}, []string{"x on a", "y on b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(4)
			w.pod("a", "")
			w.pod("b", "")
			tc.do(w)
			if diff := cmp.Diff(tc.want, w.settle()); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWordsAboutRulesAreBounded has rules as long as the API takes, on as many Pods as they reject differently.
func TestWordsAboutRulesAreBounded(t *testing.T) {
	w := newWorld(t)
	w.runtime(1)
	values := make([]string, 0, 100)
	for i := range 100 {
		values = append(values, fmt.Sprintf("%060d", i))
	}
	for i := range 40 {
		pod := fmt.Sprintf("p%02d", i)
		w.pod(pod, "")
		w.engine.runSeen(w.create("guard"+pod, "1", apart(fmt.Sprintf("k%d in (%s)", i, strings.Join(values, ","))), on(pod)))
	}
	w.engine.runSeen(w.create("r", "1", func(r *corev1alpha1.Run) {
		r.Labels = map[string]string{}
		for i := range 40 {
			r.Labels[fmt.Sprint("k", i)] = values[i]
		}
	}))
	w.settle()
	w.clock.Step(2 * time.Second)
	told := w.told(10)
	if len(told) != 1 {
		t.Fatalf("told %v", told)
	}
	_, message, _ := strings.Cut(told[0], "r: AffinityNotSatisfied: ")
	if len(message) > framework.MaxMessage || !strings.HasPrefix(message, "40 Pods: 1 with a Run that keeps away k0 in (") ||
		!strings.HasSuffix(message, " others") {
		t.Errorf("%d bytes: %s", len(message), message)
	}
}
