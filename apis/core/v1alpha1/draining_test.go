package v1alpha1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestLeads(t *testing.T) {
	type leads struct{ Stop, Report time.Duration }
	cases := map[string]struct {
		grace time.Duration
		want  leads
	}{
		"the default":             {DefaultGrace, leads{10 * time.Second, 5 * time.Second}},
		"just enough":             {15 * time.Second, leads{10 * time.Second, 5 * time.Second}},
		"short":                   {6 * time.Second, leads{4 * time.Second, 2 * time.Second}},
		"none":                    {0, leads{}},
		"one that cannot be true": {-time.Second, leads{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, leads{StopLead(tc.grace), ReportLead(tc.grace)}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTerminatingPodTakes(t *testing.T) {
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cases := map[string]struct {
		bound  bool
		before time.Duration
		want   bool
	}{
		"any other Run":                     {false, time.Minute, false},
		"a Run whose workspace is there":    {true, time.Minute, true},
		"one that comes at the last":        {true, 10*time.Second + 1, true},
		"one that comes too late":           {true, 10 * time.Second, false},
		"one that comes after the end":      {true, -time.Second, false},
		"any other Run that comes too late": {false, time.Second, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := TerminatingPodTakes(tc.bound, DefaultGrace, end, end.Add(-tc.before)); got != tc.want {
				t.Errorf("want %t, got %t", tc.want, got)
			}
		})
	}
}

func TestHandedBackUnstarted(t *testing.T) {
	assigned := metav1.NewMicroTime(retryEpoch.Add(-time.Second))
	cases := map[string]struct {
		change func(*Run)
		ok     bool
	}{
		"a Run without a policy":                 {nil, true},
		"a Run that is at its last attempt":      {func(r *Run) { r.Spec.RetryPolicy = policy(1, time.Hour, time.Hour) }, true},
		"a Run whose policy lists other reasons": {func(r *Run) { r.Spec.RetryPolicy = policy(3, time.Hour, time.Hour, RunReasonOOMKilled) }, true},
		"a Run that is cancelled":                {func(r *Run) { r.Spec.CancelRequested = true }, false},
		"a Run that is deleted":                  {func(r *Run) { r.DeletionTimestamp = ptr.To(metav1.NewTime(retryEpoch)) }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &Run{Status: RunStatus{Phase: RunScheduled, Attempt: 1, AssignedPod: "p", AssignedPodUID: "u", ScheduledTime: &assigned}}
			if tc.change != nil {
				tc.change(run)
			}
			after, ok := run.HandedBackUnstarted(AttemptEnd{Reason: RunReasonPodTerminated, Message: "m", Time: retryEpoch})
			if ok != tc.ok {
				t.Fatalf("want %t, got %t", tc.ok, ok)
			}
			if !ok {
				return
			}
			c := meta.FindStatusCondition(after.Status.Conditions, RunConditionScheduled)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != ReasonHandedBack || c.Message != "m" {
				t.Errorf("the condition Scheduled is %+v", c)
			}
			after.Status.Conditions = nil
			want := RunStatus{Phase: RunPending, Attempt: 2, Reason: RunReasonPodTerminated, Message: "m"}
			if diff := cmp.Diff(want, after.Status); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestHandedBackFromAPodWithoutTheWorkspace waits for a moment, by whichever clock is ahead.
func TestHandedBackFromAPodWithoutTheWorkspace(t *testing.T) {
	for name, tc := range map[string]struct{ assigned, want time.Duration }{
		"the clocks agree":                 {-time.Minute, time.Second},
		"the clock of the node is behind":  {time.Minute, time.Minute + time.Second},
		"it was assigned this very moment": {0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			assigned := metav1.NewMicroTime(retryEpoch.Add(tc.assigned))
			run := &Run{Status: RunStatus{Phase: RunScheduled, Attempt: 1, AssignedPod: "p", AssignedPodUID: "u", ScheduledTime: &assigned}}
			run.Spec.RetryPolicy = policy(1, time.Hour, time.Hour)
			after, ok := run.HandedBackUnstarted(AttemptEnd{Reason: RunReasonWorkspaceUnavailable, Message: "m", Time: retryEpoch})
			if !ok {
				t.Fatal("it is not handed back")
			}
			c := meta.FindStatusCondition(after.Status.Conditions, RunConditionScheduled)
			if until := retryEpoch.Add(tc.want); c == nil || c.Reason != ReasonBackoff || c.Message != BackoffMessage(2, until) {
				t.Errorf("the condition Scheduled is %+v", c)
			}
			after.Status.Conditions = nil
			at := metav1.NewMicroTime(retryEpoch.Add(tc.want))
			want := RunStatus{Phase: RunPending, Attempt: 2, Reason: RunReasonWorkspaceUnavailable, Message: "m", NextAttemptTime: &at}
			if diff := cmp.Diff(want, after.Status); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
