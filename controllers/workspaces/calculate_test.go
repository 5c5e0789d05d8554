package workspaces

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// expect compares what is decided about some workspaces.
func expect(t *testing.T, cases map[string]struct {
	world *world
	want  outcome
},
) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stored := tc.world.workspace.DeepCopy()
			got := calculate(&tc.world.observation)
			if diff := cmp.Diff(tc.want, outcomeOf(got)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(stored, tc.world.workspace); diff != "" {
				t.Errorf("the observation was changed (-want +got):\n%s", diff)
			}
			for _, c := range got.status.Conditions {
				if c.ObservedGeneration != stored.Generation || c.Message == "" {
					t.Errorf("condition %s has observedGeneration %d and message %q", c.Type, c.ObservedGeneration, c.Message)
				}
			}
		})
	}
}

type cases = map[string]struct {
	world *world
	want  outcome
}

func waiting(reason string) outcome {
	return outcome{Phase: workspacesv1alpha1.WorkspacePending, Bound: "False " + reason, Available: "False " + reason}
}

func TestBindingRule1WaitsWithoutReadyPods(t *testing.T) {
	leaving := pending().runtime().ready("a")
	leaving.observation.runtime.DeletionTimestamp = &metav1.Time{Time: now}
	expect(t, cases{
		"no Runtime":                              {pending(), waiting("RuntimeNotFound")},
		"no Runtime, though Pods of it are left":  {pending().ready("a"), waiting("RuntimeNotFound")},
		"a Runtime that is being deleted":         {leaving, waiting("RuntimeNotFound")},
		"no ready Pod":                            {pending().runtime(), waiting("NoReadyPods")},
		"no ready Pod, looked at a second time":   {pending().runtime().next(), waiting("NoReadyPods")},
		"no ready Pod, and Runs that wait for it": {pending().runtime().inUse(), waiting("NoReadyPods")},
		"no ready Pod, and no time to live":       {pending().runtime().ttl(0), waiting("NoReadyPods")},
	})
}

// TestBindingRule1ReservesNothing looks at all that a binding writes: nothing but the workspace's own status.
func TestBindingRule1ReservesNothing(t *testing.T) {
	d := calculate(&pending().runtime().ready("a").observation)
	d.status.Conditions = nil
	want := workspacesv1alpha1.PersistentWorkspaceStatus{Phase: "Bound", ObservedGeneration: 1, Runtime: "sh", BoundPod: "a",
		BoundPodUID: "a-uid", Path: "/workspace/persistent/ws"}
	if diff := cmp.Diff(want, d.status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestBindingRule2StableHashOverSortedPods(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	// FNV-1a of the UID, 64 bits, modulo the number of Pods.
	for uid, want := range map[types.UID]string{
		"2c24c1f0-9f8f-4f80-82d5-3dd16a12d1e6": "d", "7f587b46-68a1-4b1c-9d33-0c5a5e0f1d2b": "d", "ws-uid": "b", "x": "b",
	} {
		for round := range uint64(50) {
			shuffled := slices.Clone(names)
			rand.New(rand.NewPCG(1, round)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			w := pending().runtime().ready(shuffled...)
			w.workspace.UID = uid
			if got := calculate(&w.observation).status.BoundPod; got != want {
				t.Fatalf("UID %s, Pods %v: got %s, want %s", uid, shuffled, got, want)
			}
		}
	}
}

func TestBindingRule2SpreadsFirstBindings(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	counts := map[string]int{}
	r := rand.New(rand.NewPCG(7, 7))
	for range 4000 {
		w := pending().runtime().ready(names...)
		w.workspace.UID = types.UID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.Uint32N(1<<16), r.Uint32N(1<<12), r.Uint32N(1<<12), r.Uint64N(1<<48)))
		counts[calculate(&w.observation).status.BoundPod]++
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] < 850 || counts[name] > 1150 {
			t.Errorf("Pod %s got %d of 4000 workspaces, want about 1000", name, counts[name])
		}
	}
	if len(counts) != len(names) {
		t.Errorf("only %d Pods got workspaces", len(counts))
	}
}

// TestBindingRule2SelectsOnce has more Pods become ready after the binding: later decisions do not repeat the selection.
func TestBindingRule2SelectsOnce(t *testing.T) {
	expect(t, cases{"other Pods are ready": {bound().ready("0", "1", "2", "b"), onPod(nil)}})
}

func TestBindingRule3RecordsTheBinding(t *testing.T) {
	expect(t, cases{
		"a ready Pod":                       {pending().runtime().ready("a"), onPod(func(o *outcome) { o.Action = actionBind })},
		"a ready Pod appears after waiting": {pending().runtime().next().ready("a"), onPod(func(o *outcome) { o.Action = actionBind })},
	})
	d := calculate(&pending().runtime().ready("a").observation)
	if !meta.IsStatusConditionTrue(d.status.Conditions, "Bound") || d.status.Runtime != "sh" || d.pod.Name != "a" {
		t.Errorf("got %+v", d)
	}
}

func TestBindingRule4StaysBoundWhileThePodExists(t *testing.T) {
	unavailable := func(reason string) outcome { return onPod(func(o *outcome) { o.Available = "False " + reason }) }
	expect(t, cases{
		"the Pod is ready":           {bound(), onPod(nil)},
		"the Pod is not ready":       {bound().change(notReady), unavailable("PodNotReady")},
		"the Pod has no condition":   {bound().change(func(p *corev1.Pod) { p.Status.Conditions = nil }), unavailable("PodNotReady")},
		"its node is not heard of":   {bound().change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }), unavailable("PodNotReady")},
		"the Pod is being deleted":   {bound().change(terminating), unavailable("PodTerminating")},
		"not ready and then deleted": {bound().change(notReady).next().change(terminating), unavailable("PodTerminating")},
		"ready again":                {bound().change(notReady).next().change(func(p *corev1.Pod) { p.Status.Conditions[0].Status = "True" }), onPod(nil)},
		"the Runtime is gone":        {func() *world { w := bound(); w.observation.runtime = nil; return w }(), onPod(nil)},
		"the Pod lost its labels, so that its end would not be heard of": {
			func() *world { w := bound(); w.unwatched = true; return w }(), onPod(func(o *outcome) { o.Recheck = time.Minute })},
	})
}

func lostOutcome(change func(*outcome)) outcome {
	return onPod(func(o *outcome) {
		o.Phase, o.Bound, o.Available = workspacesv1alpha1.WorkspaceLost, "False PodLost", "False PodLost"
		if change != nil {
			change(o)
		}
	})
}

func TestBindingRule5LostAndNeverRebound(t *testing.T) {
	lost := lostOutcome(nil)
	successor := func(p *corev1.Pod) { p.UID = "another-uid" }
	expect(t, cases{
		"the Pod is gone":                          {bound().gone(), lost},
		"a Pod of the same name has another UID":   {bound().change(successor), lost},
		"the Pod was evicted":                      {bound().change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), lost},
		"the Pod has completed":                    {bound().change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), lost},
		"gone while Runs use it":                   {bound().inUse().gone(), lost},
		"gone, and other Pods are ready":           {bound().gone().ready("b", "c"), lost},
		"lost, and other Pods are ready":           {bound().gone().next().ready("b", "c"), lost},
		"lost, and a Pod of that name is there":    {bound().gone().next().foundAgain(readyPod("a"), successor), lost},
		"lost, and the very Pod seems to be there": {bound().gone().next().foundAgain(readyPod("a"), nil), lost},
	})
}

// foundAgain lets a Pod be found again.
func (w *world) foundAgain(pod *corev1.Pod, f func(*corev1.Pod)) *world {
	if w.pod = pod; f != nil {
		f(pod)
	}
	return w
}
