package decision

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

func TestTimetable(t *testing.T) {
	const second = time.Second
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	skewed := began.Add(time.Hour) // by the clock of the API server
	deletion := func(grace, after time.Duration) *Deletion {
		return &Deletion{End: skewed.Add(after + grace), Grace: grace}
	}
	start := Draining{Began: began, Unknown: 600 * second}
	// brief counts from the moment in which runtimed was told to end.
	type brief struct{ Stop, StopGrace, Exit time.Duration }
	cases := map[string]struct {
		draining Draining
		want     brief
	}{
		"nothing is known yet":               {start, brief{590 * second, 5 * second, 599 * second}},
		"the default, by another clock":      {start.WithPod(deletion(600*second, 0)), brief{590 * second, 5 * second, 599 * second}},
		"another grace":                      {start.WithPod(deletion(30*second, 0)), brief{20 * second, 5 * second, 29 * second}},
		"a grace that is too short for that": {start.WithPod(deletion(6*second, 0)), brief{2 * second, 2 * second, 5 * second}},
		"none":                               {start.WithPod(deletion(0, 0)), brief{}},
		"it is deleted again, for sooner":    {start.WithPod(deletion(600*second, 0)).WithPod(deletion(30*second, 100*second)), brief{120 * second, 5 * second, 129 * second}},
		"it is deleted again, for later":     {start.WithPod(deletion(30*second, 0)).WithPod(deletion(600*second, 0)), brief{20 * second, 5 * second, 29 * second}},
		"nobody deletes it":                  {start.WithPod(nil), brief{20 * second, 5 * second, 29 * second}},
		"nobody deletes it at first":         {start.WithPod(nil).WithPod(deletion(600*second, 0)), brief{590 * second, 5 * second, 599 * second}},
		"its namespace goes": {start.WithPod(deletion(600*second, 0)).WithoutNamespace(began.Add(7 * second)).WithoutNamespace(began.Add(9 * second)),
			brief{7 * second, 10 * second, 599 * second}},
		"its namespace goes at the last": {start.WithPod(deletion(600*second, 0)).WithoutNamespace(began.Add(588 * second)),
			brief{588 * second, 7 * second, 599 * second}},
		"its namespace goes too late to matter": {start.WithPod(deletion(600*second, 0)).WithoutNamespace(began.Add(592 * second)),
			brief{590 * second, 5 * second, 599 * second}},
		"it is gone": {start.WithPod(deletion(600*second, 0)).WithoutPod(), brief{second, second, 2500 * time.Millisecond}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			table := tc.draining.Timetable()
			got := brief{table.Stop.Sub(began), table.StopGrace, table.Exit.Sub(began)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if killed := table.Stop.Add(table.StopGrace); killed.After(table.Exit) {
				t.Errorf("what executes is killed %s after runtimed has ended", killed.Sub(table.Exit))
			}
		})
	}
}

// TestEndStatusOfAPodThatShutsDown tells what has begun from what has not.
func TestEndStatusOfAPodThatShutsDown(t *testing.T) {
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	isLast := func(r *corev1alpha1.Run) { r.Status.Attempt = 4 }
	before, during := StoppedBeforeStart(StopShutdown), stopped(Ending{Stop: StopShutdown}, nil)
	elsewhere := WorkspaceUnavailable("ws", nil)
	type brief struct {
		Phase   corev1alpha1.RunPhase
		Reason  corev1alpha1.RunReason
		Attempt int32
		Waits   bool
	}
	cases := map[string]struct {
		run    *corev1alpha1.Run
		result Result
		want   brief
	}{
		"it had not begun":                      {scheduled(), before, brief{"Pending", "PodTerminated", 3, false}},
		"it had not begun, and has a policy":    {scheduled(retried()), before, brief{"Pending", "PodTerminated", 3, false}},
		"it had not begun its last attempt":     {scheduled(retried(), isLast), before, brief{"Pending", "PodTerminated", 5, false}},
		"it had not begun, and is cancelled":    {scheduled(isCancelled), before, brief{"Cancelled", "Cancelled", 2, false}},
		"it had not begun, and is deleted":      {scheduled(isDeleted), before, brief{"Failed", "PodTerminated", 2, false}},
		"it had begun":                          {scheduled(), during, brief{"Failed", "PodTerminated", 2, false}},
		"it had begun, and has a policy":        {scheduled(retried()), during, brief{"Pending", "PodTerminated", 3, true}},
		"it had begun, the policy lists others": {scheduled(retried("OOMKilled")), during, brief{"Failed", "PodTerminated", 2, false}},
		"it has no workspace here":              {scheduled(), elsewhere, brief{"Pending", "WorkspaceUnavailable", 3, true}},
		"it has none at its last attempt":       {scheduled(retried(), isLast), elsewhere, brief{"Pending", "WorkspaceUnavailable", 5, true}},
		"it has none, and is cancelled":         {scheduled(isCancelled), elsewhere, brief{"Cancelled", "Cancelled", 2, false}},
		"it had begun its last attempt":         {scheduled(retried(), isLast), during, brief{"Failed", "PodTerminated", 4, false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := EndStatus(tc.run, tc.result, time.Time{}, end).Status
			if diff := cmp.Diff(tc.want, brief{s.Phase, s.Reason, s.Attempt, s.NextAttemptTime != nil}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
