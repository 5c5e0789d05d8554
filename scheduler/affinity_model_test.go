package scheduler

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// model says, the slow way and from what is stored only, where a Run may go.
type model struct {
	w *world
	// capacity and ready are those of the Pods of Runtime sh; Runtime py has one Pod of that name, with room for four.
	capacity int
	ready    map[string]bool
}

func matches(t *corev1alpha1.RunAffinityTerm, r *corev1alpha1.Run) bool {
	s, err := metav1.LabelSelectorAsSelector(&t.LabelSelector)
	return err == nil && s.Matches(labels.Set(r.Labels))
}

func requiredOf(r *corev1alpha1.Run) (near, apart []corev1alpha1.RunAffinityTerm) {
	if a := r.Spec.Affinity; a != nil {
		return a.RunAffinity.Required, a.RunAntiAffinity.Required
	}
	return nil, nil
}

// active returns the Runs that count: on one Pod, or on any if that is empty.
func (m *model) active(pod string, except *corev1alpha1.Run) []*corev1alpha1.Run {
	var out []*corev1alpha1.Run
	for _, r := range m.w.runs {
		if r.Status.Phase.IsActive() && r.UID != except.UID && (pod == "" || r.Status.AssignedPod == pod) {
			out = append(out, r)
		}
	}
	return out
}

func (m *model) allows(r *corev1alpha1.Run, pod string) bool {
	there, everywhere := m.active(pod, r), m.active("", r)
	room := m.capacity
	if pod == "py" {
		room = 4
	}
	if (pod == "py") != (r.Spec.Runtime == "py") || pod != "py" && !m.ready[pod] || len(there) >= room {
		return false
	}
	near, apart := requiredOf(r)
	for i := range near {
		selects := func(o *corev1alpha1.Run) bool { return matches(&near[i], o) }
		first := matches(&near[i], r) && !slices.ContainsFunc(everywhere, selects)
		if !first && !slices.ContainsFunc(there, selects) {
			return false
		}
	}
	for _, o := range there {
		if slices.ContainsFunc(apart, func(t corev1alpha1.RunAffinityTerm) bool { return matches(&t, o) }) {
			return false
		}
		_, theirs := requiredOf(o)
		if slices.ContainsFunc(theirs, func(t corev1alpha1.RunAffinityTerm) bool { return matches(&t, r) }) {
			return false
		}
	}
	return true
}

// settle stores every decision, one after the other, and checks each. Then nobody who waits may fit anywhere.
func (m *model) settle(t *testing.T, when string) {
	t.Helper()
	for {
		a, wait := m.w.engine.next()
		if a == nil && wait == 0 {
			continue // there are more to try
		}
		if a == nil {
			break
		}
		if !m.allows(m.w.runs[a.run.Name], a.podName) {
			t.Fatalf("%s: %s was placed on %s", when, a.run.Name, a.podName)
		}
		r := m.w.store(a.run.Name, assignedTo(a))
		m.w.engine.bound(a, r.ResourceVersion)
		m.w.engine.runSeen(r)
	}
	for _, r := range m.w.runs {
		if r.Status.Phase != corev1alpha1.RunPending {
			continue
		}
		for _, pod := range []string{"a", "b", "c", "py"} {
			if m.allows(r, pod) {
				t.Fatalf("%s: %s waits, though it fits on %s", when, r.Name, pod)
			}
		}
	}
}

// TestAffinityAgainstAModel compares decisions with a model that looks at everything, after each of many random events.
// No clock moves, so no safety net helps: every Run that fits must be woken by an event.
func TestAffinityAgainstAModel(t *testing.T) {
	label := func(rng *rand.Rand) change {
		return labelled(fmt.Sprintf("x=%d,y=%d", rng.Intn(3), rng.Intn(2)))
	}
	selector := func(rng *rand.Rand) string {
		return []string{"x=0", "x=1", "x=2", "y=1", "x in (0,2)", "x=1,y=0", "x notin (0)", "!z", "y"}[rng.Intn(9)]
	}
	for seed := range int64(30) {
		rng := rand.New(rand.NewSource(seed))
		w := newWorld(t)
		m := &model{w: w, capacity: 2, ready: map[string]bool{}}
		w.runtime(2)
		w.other("py")
		for step := range 200 {
			name := fmt.Sprint("r", rng.Intn(16))
			r, exists := w.runs[name]
			kind := rng.Intn(10)
			switch {
			case kind < 2:
				pod := string(rune('a' + rng.Intn(3)))
				m.ready[pod] = rng.Intn(4) > 0
				w.pod(pod, map[bool]string{true: "", false: "Starting"}[m.ready[pod]])
			case !exists:
				changes := []change{label(rng)}
				for range rng.Intn(3) {
					changes = append(changes, []func(string) change{near, apart}[rng.Intn(2)](selector(rng)))
				}
				if rng.Intn(5) == 0 {
					changes = append(changes, ofRuntime("py"))
				}
				w.engine.runSeen(w.create(name, "1", changes...))
			case kind < 4:
				w.engine.runSeen(w.store(name, label(rng)))
			case r.Status.Phase.IsActive() && kind < 9:
				w.finish(name)
				delete(w.runs, name)
			case r.Status.Phase == corev1alpha1.RunPending && kind == 9:
				w.delete(name)
			default:
				w.told(100)
			}
			m.settle(t, fmt.Sprintf("seed %d, step %d", seed, step))
		}
		for name, r := range w.runs {
			if r.Status.Phase.IsActive() {
				w.finish(name)
			} else {
				w.engine.runGone(r.UID)
			}
		}
		if q := w.engine.queue.Len(); q != 0 || w.engine.unexplained.len() != 0 {
			t.Fatalf("seed %d: %d Runs and %d Runtimes are left", seed, q, w.engine.unexplained.len())
		}
	}
}
