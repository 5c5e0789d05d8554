package workflows

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

func version(uid, resourceVersion string, phase workflowsv1alpha1.WorkflowPhase) *workflowsv1alpha1.WorkflowRun {
	run := owner("ci", uid)
	run.ResourceVersion, run.Status.Phase = resourceVersion, phase
	return run
}

func TestNewest(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "ci"}
	running, ended := workflowsv1alpha1.WorkflowRunning, workflowsv1alpha1.WorkflowSucceeded
	cases := map[string]struct {
		written, cached *workflowsv1alpha1.WorkflowRun
		want            string
		wantEntries     int
	}{
		"nothing was written":               {nil, version("1", "5", running), "5", 0},
		"the cache lags behind":             {version("1", "1000", running), version("1", "999", running), "1000", 1},
		"the cache has caught up":           {version("1", "9", running), version("1", "9", running), "9", 1},
		"somebody else wrote since":         {version("1", "9", running), version("1", "10", running), "10", 1},
		"the end has arrived in the cache":  {version("1", "9", ended), version("1", "9", ended), "9", 0},
		"the end has not yet arrived there": {version("1", "9", ended), version("1", "8", running), "9", 1},
		"a successor of the same name":      {version("1", "9", running), version("2", "8", running), "8", 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			if tc.written != nil {
				m.wrote(key, tc.written)
			}
			if got := m.newest(key, tc.cached); got.ResourceVersion != tc.want {
				t.Errorf("got version %s, want %s", got.ResourceVersion, tc.want)
			}
			if len(m.entries) != tc.wantEntries {
				t.Errorf("%d entries are left, want %d", len(m.entries), tc.wantEntries)
			}
		})
	}
}

func TestPostponeWaitsLongerEachTime(t *testing.T) {
	m, key, id := newMemory(), types.NamespacedName{Name: "ci"}, identity{job: "a", step: "s"}
	var waits []time.Duration
	for range 7 {
		m.postpone(key, id, "quota", start)
		waits = append(waits, m.holds(key)[id].until.Sub(start))
	}
	want := []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9}
	for i := range want {
		if waits[i] != want[i] {
			t.Fatalf("got %v, want %v", waits, want)
		}
	}
	m.created(key, id)
	m.postpone(key, id, "quota", start)
	if got := m.holds(key)[id].until.Sub(start); got != firstHold {
		t.Errorf("after a success it waits %v, want %v", got, firstHold)
	}
}
