package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/event"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

func version(uid, resourceVersion string, phase workflowsv1alpha1.WorkflowPhase) *workflowsv1alpha1.WorkflowRun {
	run := owner("ci", uid)
	run.ResourceVersion, run.Status.Phase = resourceVersion, phase
	return run
}

func TestNewest(t *testing.T) {
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
		"a successor of the same name":      {version("1", "9", running), version("2", "8", running), "8", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			if tc.written != nil {
				m.wrote(tc.written, start)
			}
			if got := m.newest(tc.cached); got.ResourceVersion != tc.want {
				t.Errorf("got version %s, want %s", got.ResourceVersion, tc.want)
			}
			if len(m.entries) != tc.wantEntries {
				t.Errorf("%d entries are left, want %d", len(m.entries), tc.wantEntries)
			}
		})
	}
}

func TestPostponeWaitsLongerEachTime(t *testing.T) {
	m, run, id := newMemory(), owner("ci", "1"), identity{job: "a", step: "s"}
	var waits []time.Duration
	for range 7 {
		m.postpone(run, id, "quota", start)
		waits = append(waits, m.holds(run)[id].until.Sub(start))
	}
	want := []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	m.created(run, id, "ci-a-s")
	m.postpone(run, id, "quota", start)
	if got := m.holds(run)[id].until.Sub(start); got != firstHold {
		t.Errorf("after a success it waits %v, want %v", got, firstHold)
	}
	if got := m.holds(owner("ci", "2")); got != nil {
		t.Errorf("a successor of the same name waits for %v", got)
	}
}

func TestUnseenChildren(t *testing.T) {
	m, run, id := newMemory(), owner("ci", "1"), identity{job: "a", step: "s"}
	m.created(run, id, "ci-a-s")
	if got := m.unseen(run)[id]; got != "ci-a-s" {
		t.Errorf("got name %q", got)
	}
	if got := m.unseen(owner("ci", "2")); len(got) > 0 {
		t.Errorf("a successor of the same name has %v", got)
	}
	m.saw(run, id)
	if got := m.unseen(run); len(got) > 0 {
		t.Errorf("%v are left", got)
	}
}

func TestPace(t *testing.T) {
	status := func(jobs, steps, active int) workflowsv1alpha1.WorkflowRunStatus {
		s := workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowRunning, Jobs: map[string]workflowsv1alpha1.JobStatus{}}
		for j := range jobs {
			js := workflowsv1alpha1.JobStatus{Phase: workflowsv1alpha1.JobRunning}
			for i := range steps {
				js.Steps = append(js.Steps, workflowsv1alpha1.StepStatus{Name: fmt.Sprint(i), Phase: corev1alpha1.RunPending})
			}
			if j < active {
				js.Steps[0].RunName = "x"
			}
			s.Jobs[fmt.Sprint(j)] = js
		}
		return s
	}
	cases := map[string]struct {
		status workflowsv1alpha1.WorkflowRunStatus
		after  time.Duration
		want   time.Duration
	}{
		"a small one":                     {status(64, 2, 64), 0, 0},
		"a long chain":                    {status(8, 128, 1), 0, 0},
		"many children of a large one":    {status(64, 16, 64), 0, 300 * time.Millisecond},
		"some children of a large one":    {status(64, 16, 10), 20 * time.Millisecond, 30 * time.Millisecond},
		"long after the last write of it": {status(64, 16, 64), time.Second, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, run := newMemory(), owner("ci", "1")
			run.Status = tc.status
			m.wrote(run, start)
			if got := m.pace(&observation{run: run, now: start.Add(tc.after)}); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestWhatIsNewsOfAWorkflowRun holds that its own status wakes nobody, and that a successor of the same name does.
func TestWhatIsNewsOfAWorkflowRun(t *testing.T) {
	at := func(uid string, generation int64, phase workflowsv1alpha1.WorkflowPhase) *workflowsv1alpha1.WorkflowRun {
		run := version(uid, "1", phase)
		run.Generation = generation
		return run
	}
	cases := map[string]struct {
		before, after *workflowsv1alpha1.WorkflowRun
		want          bool
	}{
		"its status changes": {at("a", 1, "Pending"), at("a", 1, "Running"), false},
		"its spec changes":   {at("a", 1, "Running"), at("a", 2, "Running"), true},
		"it is replaced":     {at("a", 1, "Running"), at("b", 1, "Pending"), true},
	}
	for name, tc := range cases {
		if got := ownChanges().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: news %t, want %t", name, got, tc.want)
		}
	}
}
