package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/cache"
	"kruntimes.io/kruntimes/scheduler/framework"
	"kruntimes.io/kruntimes/scheduler/plugins"
)

var epoch = time.Unix(1_000_000, 0)

// world is an API server of few words: it stores Runs under growing versions, and shows the engine what it is told to.
type world struct {
	t       testing.TB
	engine  *engine
	clock   *clocktesting.FakeClock
	version int
	runs    map[string]*corev1alpha1.Run
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	rules, err := plugins.Build(plugins.DefaultProfile())
	if err != nil {
		tb.Fatal(err)
	}
	c := clocktesting.NewFakeClock(epoch)
	return &world{t: tb, engine: newEngine(rules, c), clock: c, runs: map[string]*corev1alpha1.Run{}}
}

var shKey = types.NamespacedName{Namespace: "n", Name: "sh"}

// runtime shows a Runtime with a capacity in Runs.
func (w *world) runtime(runs int64) {
	w.engine.runtimeSeen(&framework.RuntimeInfo{Namespace: "n", Name: "sh", Replicas: 1,
		Capacity: framework.Resources{{Name: "runs", Milli: 1000 * runs}}})
}

// pod shows a Pod; reason is why it is not ready, empty when it is.
func (w *world) pod(name, reason string) {
	w.engine.podSeen(cache.Pod{Runtime: shKey, Name: name, UID: types.UID("uid-" + name), Ready: reason == "", NotReadyReason: reason})
}

// create stores a Run without showing it.
func (w *world) create(name, runs string, change ...func(*corev1alpha1.Run)) *corev1alpha1.Run {
	w.version++
	r := &corev1alpha1.Run{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("uid-" + name), ResourceVersion: strconv.Itoa(w.version),
			CreationTimestamp: metav1.NewTime(w.clock.Now())},
		Spec: corev1alpha1.RunSpec{Runtime: "sh", Resources: &corev1alpha1.RunResources{
			Requests: corev1.ResourceList{corev1alpha1.ResourceRuns: resource.MustParse(runs)}}},
		Status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending},
	}
	for _, c := range change {
		c(r)
	}
	w.runs[name] = r
	return r
}

// add creates a Run and shows it.
func (w *world) add(name, runs string) { w.engine.runSeen(w.create(name, runs)) }

// store changes a Run without showing that.
func (w *world) store(name string, change func(*corev1alpha1.Run)) *corev1alpha1.Run {
	w.version++
	r := w.runs[name].DeepCopy()
	change(r)
	r.ResourceVersion = strconv.Itoa(w.version)
	w.runs[name] = r
	return r
}

func assignedTo(a *assignment) func(*corev1alpha1.Run) {
	return func(r *corev1alpha1.Run) {
		r.Status.Phase, r.Status.AssignedPod, r.Status.AssignedPodUID = corev1alpha1.RunScheduled, a.podName, string(a.podUID)
		r.Status.Attempt = max(1, r.Status.Attempt)
	}
}

// decide returns all decisions that the engine comes to now, without storing them.
func (w *world) decide() []*assignment {
	var out []*assignment
	for {
		a, wait := w.engine.next()
		if a == nil && wait == 0 {
			continue // there are more to try
		}
		if a == nil {
			return out
		}
		out = append(out, a)
	}
}

// settle stores and shows every decision, and returns where each Run is now, as "run on pod", sorted.
func (w *world) settle() []string {
	for _, a := range w.decide() {
		r := w.store(a.run.Name, assignedTo(a))
		w.engine.bound(a, r.ResourceVersion)
		w.engine.runSeen(r)
	}
	return w.placements()
}

func (w *world) placements() []string {
	var out []string
	for _, r := range w.runs {
		if r.Status.Phase.IsActive() {
			out = append(out, r.Name+" on "+r.Status.AssignedPod)
		}
	}
	slices.Sort(out)
	return out
}

// finish ends a Run: one watch shows it finished, and the informer's selector then shows it as deleted. The one or the
// other comes first.
func (w *world) finish(name string) {
	r := w.store(name, func(r *corev1alpha1.Run) { r.Status.Phase = corev1alpha1.RunSucceeded })
	if w.version%2 == 0 {
		w.engine.runFinished(r.UID)
		w.engine.runGone(r.UID)
		return
	}
	w.engine.runGone(r.UID)
	w.engine.runFinished(r.UID)
}

// delete deletes a Run.
func (w *world) delete(name string) {
	r := w.runs[name]
	delete(w.runs, name)
	w.engine.runGone(r.UID)
}

// told lets the engine conclude and stores what Runs are told. It returns that as "run: reason: message", sorted.
func (w *world) told(limit int) []string {
	var out []string
	for _, n := range w.engine.notices(limit) {
		out = append(out, fmt.Sprintf("%s: %s: %s", n.run.Name, n.verdict.Reason, n.verdict.Message))
		after := w.store(n.run.Name, func(r *corev1alpha1.Run) {
			meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: corev1alpha1.RunConditionScheduled,
				Status: metav1.ConditionFalse, Reason: n.verdict.Reason, Message: n.verdict.Message})
		})
		w.engine.informed(n, after)
	}
	slices.Sort(out)
	return out
}

// checkBooks compares the cache's books with a recount of the Runs that are active.
func (w *world) checkBooks() {
	w.t.Helper()
	want := map[string]int{}
	for _, r := range w.runs {
		if r.Status.Phase.IsActive() {
			want[r.Status.AssignedPod]++
		}
	}
	for _, p := range w.engine.cache.Snapshot(shKey).Pods {
		if p.Runs != want[p.Name] {
			w.t.Errorf("Pod %s is booked for %d Runs, has %d", p.Name, p.Runs, want[p.Name])
		}
	}
}
