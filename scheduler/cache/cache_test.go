package cache

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/scheduler/framework"
)

var (
	key  = types.NamespacedName{Namespace: "n", Name: "sh"}
	four = framework.Resources{{Name: "runs", Milli: 4000}}
)

func runtimeInfo(change func(*framework.RuntimeInfo)) *framework.RuntimeInfo {
	r := &framework.RuntimeInfo{Namespace: "n", Name: "sh", Replicas: 2, Capacity: four}
	if change != nil {
		change(r)
	}
	return r
}

func pod(name string, ready bool) Pod {
	return Pod{Runtime: key, Name: name, UID: types.UID("uid-" + name), Ready: ready}
}

func run(name string, milli int64) *framework.RunInfo {
	return &framework.RunInfo{Namespace: "n", Name: name, UID: types.UID(name), Runtime: "sh",
		Requests: framework.Resources{{Name: "runs", Milli: milli}}}
}

var sameRun = cmpopts.IgnoreUnexported(framework.RunInfo{})

// usage prints what a snapshot holds of each Pod: "a 2/4 (1)" is 2 of 4 units in use by 1 Run.
func usage(s *framework.Snapshot) []string {
	var out []string
	for _, p := range s.Pods {
		out = append(out, fmt.Sprintf("%s %s/%s (%d)", p.Name, framework.Units(p.Used.Of("runs")), framework.Units(p.Capacity.Of("runs")), p.Runs))
	}
	return out
}

func expectUsage(t *testing.T, when string, c *Cache, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, usage(c.Snapshot(key))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func twoPods() *Cache {
	c := New()
	c.SetRuntime(runtimeInfo(nil))
	c.SetPod(pod("b", true))
	c.SetPod(pod("a", true))
	return c
}

func TestTheLifeOfARun(t *testing.T) {
	freed := func(pod types.UID, left, came *framework.RunInfo) Change {
		return Change{Runtime: key, Events: framework.CapacityFreed, Pod: pod, Left: left, Came: came}
	}
	came := func(r *framework.RunInfo) Change { return Change{Came: r} }
	cases := map[string]struct {
		steps      func(*Cache) Change
		want       []string
		wantChange Change
	}{
		"a decision takes units":          {func(c *Cache) Change { c.Charge(run("r", 2000), "uid-a"); return Change{} }, []string{"a 2/4 (1)", "b 0/4 (0)"}, Change{}},
		"its confirmation takes no more":  {func(c *Cache) Change { c.Charge(run("r", 2000), "uid-a"); return c.Charge(run("r", 2000), "uid-a") }, []string{"a 2/4 (1)", "b 0/4 (0)"}, Change{}},
		"its refusal frees them":          {func(c *Cache) Change { c.Charge(run("r", 2000), "uid-a"); return c.Release("r") }, []string{"a 0/4 (0)", "b 0/4 (0)"}, freed("uid-a", run("r", 2000), nil)},
		"a second release frees no more":  {func(c *Cache) Change { c.Charge(run("r", 2000), "uid-a"); c.Release("r"); return c.Release("r") }, []string{"a 0/4 (0)", "b 0/4 (0)"}, Change{}},
		"the API server's word corrects":  {func(c *Cache) Change { c.Charge(run("r", 2000), "uid-a"); return c.Charge(run("r", 2000), "uid-b") }, []string{"a 0/4 (0)", "b 2/4 (1)"}, freed("uid-a", run("r", 2000), run("r", 2000))},
		"what others have decided counts": {func(c *Cache) Change { return c.Charge(run("r", 1000), "uid-b") }, []string{"a 0/4 (0)", "b 1/4 (1)"}, came(run("r", 1000))},
		"an end after assignment frees": {func(c *Cache) Change {
			c.Charge(run("r", 1000), "uid-b")
			c.Charge(run("s", 500), "uid-b")
			return c.Release("r")
		}, []string{"a 0/4 (0)", "b 0.5/4 (1)"}, freed("uid-b", run("r", 1000), nil)},
		"an unknown Pod of the same name": {func(c *Cache) Change { return c.Charge(run("r", 1000), "uid-of-an-older-a") }, []string{"a 0/4 (0)", "b 0/4 (0)"}, came(run("r", 1000))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := twoPods()
			if diff := cmp.Diff(tc.wantChange, tc.steps(c), sameRun); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
			expectUsage(t, "usage", c, tc.want...)
		})
	}
}

func TestRunsThatAreSeenBeforeTheirPodCount(t *testing.T) {
	c := New()
	c.Charge(run("r", 1000), "uid-a")
	c.SetPod(pod("a", true))
	c.SetRuntime(runtimeInfo(nil))
	expectUsage(t, "everything is there", c, "a 1/4 (1)")
	c.RemovePod("uid-a")
	expectUsage(t, "the Pod is gone", c)
	c.SetPod(pod("a", true))
	expectUsage(t, "it was only out of sight", c, "a 1/4 (1)")
	c.RemovePod("uid-a")
	c.Release("r")
	c.RemoveRuntime(key)
	if len(c.pods)+len(c.runtimes)+len(c.charges) != 0 {
		t.Errorf("left over: %d Pods, %d Runtimes, %d charges", len(c.pods), len(c.runtimes), len(c.charges))
	}
}

func TestChangesTellWhatMayHelp(t *testing.T) {
	change := func(e framework.Events) Change { return Change{Runtime: key, Events: e} }
	cases := map[string]struct {
		do   func(*Cache) Change
		want Change
	}{
		"a new Pod that is ready":    {func(c *Cache) Change { return c.SetPod(pod("c", true)) }, change(framework.PodAvailable)},
		"a new Pod that is not":      {func(c *Cache) Change { return c.SetPod(pod("c", false)) }, change(0)},
		"a Pod that becomes ready":   {func(c *Cache) Change { c.SetPod(pod("a", false)); return c.SetPod(pod("a", true)) }, change(framework.PodAvailable)},
		"a Pod that stays as it is":  {func(c *Cache) Change { return c.SetPod(pod("a", true)) }, Change{}},
		"a Pod that becomes unready": {func(c *Cache) Change { return c.SetPod(pod("a", false)) }, change(0)},
		"a Pod that goes":            {func(c *Cache) Change { return c.RemovePod("uid-a") }, change(0)},
		"a Pod that nobody knows":    {func(c *Cache) Change { return c.RemovePod("uid-z") }, Change{}},
		"a Runtime that changes": {func(c *Cache) Change {
			return c.SetRuntime(runtimeInfo(func(r *framework.RuntimeInfo) { r.Replicas = 9 }))
		}, change(framework.RuntimeChanged)},
		"a Runtime that stays as it is": {func(c *Cache) Change { return c.SetRuntime(runtimeInfo(nil)) }, Change{}},
		"a Runtime that goes":           {func(c *Cache) Change { return c.RemoveRuntime(key) }, change(framework.RuntimeChanged)},
		"a Runtime that nobody knows":   {func(c *Cache) Change { return c.RemoveRuntime(types.NamespacedName{Name: "z"}) }, Change{}},
		"the end of a hold": {func(c *Cache) Change { c.Hold(run("r", 1), "uid-a"); return c.Unhold("r") },
			Change{Runtime: key, Events: framework.CapacityFreed, Pod: "uid-a"}},
		"the end of a hold that was not": {func(c *Cache) Change { return c.Unhold("r") }, Change{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.do(twoPods())); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSnapshotsNeverChangeAndOnlyNewsMakeNewOnes(t *testing.T) {
	c := twoPods()
	before := c.Snapshot(key)
	if c.Snapshot(key) != before {
		t.Error("a second snapshot was made of the same state")
	}
	other := types.NamespacedName{Namespace: "n", Name: "other"}
	c.SetRuntime(&framework.RuntimeInfo{Namespace: "n", Name: "other"})
	c.SetPod(Pod{Runtime: other, Name: "o", UID: "o"})
	if c.Snapshot(key) != before {
		t.Error("another Runtime's news made a new snapshot")
	}
	c.Charge(run("r", 1000), "uid-a")
	after := c.Snapshot(key)
	if diff := cmp.Diff([]string{"a 0/4 (0)", "b 0/4 (0)"}, usage(before)); diff != "" {
		t.Errorf("the old snapshot has changed (-want +got):\n%s", diff)
	}
	if after.Generation <= before.Generation || after.Pods[0] == before.Pods[0] || after.Pods[1] != before.Pods[1] {
		t.Error("only the Pod that has changed is to be copied, under a higher generation")
	}
	c.SetRuntime(runtimeInfo(func(r *framework.RuntimeInfo) { r.Capacity = framework.Resources{{Name: "runs", Milli: 2000}} }))
	expectUsage(t, "a lowered capacity shows at once", c, "a 1/2 (1)", "b 0/2 (0)")
}

func TestAPodThatChangesItsRuntimeMoves(t *testing.T) {
	c := twoPods()
	moved := pod("a", true)
	moved.Runtime.Name = "other"
	if diff := cmp.Diff(Change{Runtime: moved.Runtime, Events: framework.PodAvailable}, c.SetPod(moved)); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
	expectUsage(t, "its old Runtime", c, "b 0/4 (0)")
	if got := c.Snapshot(moved.Runtime); len(got.Pods) != 1 || got.Runtime != nil {
		t.Errorf("its new Runtime: %+v, want the Pod and no Runtime", got)
	}
}

func TestHolds(t *testing.T) {
	c := twoPods()
	c.Hold(run("r", 3000), "uid-a")
	if h := c.Snapshot(key).Pods[0].Held; h == nil || h.Run != "r" || c.Snapshot(key).Pods[1].Held != nil {
		t.Errorf("held: %+v, want a for r and not b", h)
	}
	if who, where, ok := c.Held(key); who != "r" || where != "uid-a" || !ok {
		t.Errorf("held: %s on %s, serves %t", who, where, ok)
	}
	c.SetPod(pod("a", false))
	if _, _, ok := c.Held(key); ok {
		t.Error("a hold on a Pod that takes nothing serves")
	}
	c.Hold(run("s", 3000), "uid-b")
	if who, _, _ := c.Held(key); who != "s" || len(c.holds) != 1 {
		t.Errorf("held for %s with %d holds, want the second only", who, len(c.holds))
	}
	c.Unhold("s")
	if c.Snapshot(key).Pods[1].Held != nil {
		t.Error("the hold did not end")
	}
}

// TestUsageIsTheSumOfRuns compares the incremental books with a recount after every one of many random steps.
func TestUsageIsTheSumOfRuns(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	c := New()
	c.SetRuntime(runtimeInfo(nil))
	on, sizes := map[string]types.UID{}, map[string]int64{}
	names := []string{"a", "b", "c"}
	for range 5000 {
		r := fmt.Sprintf("r%d", rng.Intn(30))
		p := names[rng.Intn(len(names))]
		if _, ok := sizes[r]; !ok {
			sizes[r] = int64(rng.Intn(5)) * 500
		}
		switch rng.Intn(5) {
		case 0:
			c.Release(types.UID(r))
			delete(on, r)
		case 1, 2:
			c.Charge(run(r, sizes[r]), types.UID("uid-"+p))
			on[r] = types.UID("uid-" + p)
		case 3:
			c.SetPod(pod(p, rng.Intn(2) == 0))
		case 4:
			c.RemovePod(types.UID("uid-" + p))
		}
		for _, info := range c.Snapshot(key).Pods {
			var sum int64
			n := 0
			for r, uid := range on {
				if uid == info.UID {
					sum += sizes[r]
					n++
				}
			}
			if info.Used.Of("runs") != sum || info.Runs != n {
				t.Fatalf("Pod %s: %d units in %d Runs, a recount gives %d in %d", info.Name, info.Used.Of("runs"), info.Runs, sum, n)
			}
		}
	}
}
