package core

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func runIn(phase corev1alpha1.RunPhase, change func(*corev1alpha1.Run)) *corev1alpha1.Run {
	r := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "r", CreationTimestamp: metav1.NewTime(epoch.Add(-time.Hour))}}
	r.Status.Phase = phase
	if phase.IsActive() {
		r.Status.AssignedPod, r.Status.AssignedPodUID = "p", "p-uid"
	}
	if change != nil {
		change(r)
	}
	return r
}

func TestJudge(t *testing.T) {
	cancel := func(r *corev1alpha1.Run) { r.Spec.CancelRequested = true }
	del := func(r *corev1alpha1.Run) { r.DeletionTimestamp = ptr.To(metav1.NewTime(epoch)) }
	keep := func(seconds int32) func(*corev1alpha1.Run) {
		return func(r *corev1alpha1.Run) {
			r.Spec.TTLSecondsAfterFinished = ptr.To(seconds)
			r.Status.CompletionTime = ptr.To(metav1.NewMicroTime(epoch.Add(-10 * time.Second)))
		}
	}
	healthy := &corev1.Pod{}
	leaving := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.NewTime(epoch.Add(20 * time.Second)))}}
	leavingLate := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.NewTime(epoch.Add(10 * time.Minute)))}}
	lost := verdict{action: actionEnd, phase: corev1alpha1.RunFailed, reason: corev1alpha1.RunReasonRuntimePodLost,
		message: "Pod p is gone, and nobody reported how the execution ended"}
	handedBack := verdict{action: actionHandBack, reason: lost.reason, message: lost.message}
	retried := func(r *corev1alpha1.Run) { r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 3} }
	waitsAgain := func(r *corev1alpha1.Run) {
		retried(r)
		r.Status.Attempt, r.Status.NextAttemptTime = 2, ptr.To(metav1.NewMicroTime(epoch.Add(time.Hour)))
	}
	cases := map[string]struct {
		run  *corev1alpha1.Run
		pod  *corev1.Pod
		want verdict
	}{
		"a waiting Run":                             {runIn("Pending", nil), nil, verdict{}},
		"a waiting Run, cancelled":                  {runIn("Pending", cancel), nil, cancelled("cancelled before it was assigned to a Pod")},
		"a waiting Run, deleted":                    {runIn("Pending", del), nil, cancelled("deleted before it was assigned to a Pod")},
		"a Run on its Pod, deleted":                 {runIn("Running", del), healthy, verdict{recheck: time.Minute}},
		"a Run without its Pod, deleted":            {runIn("Running", func(r *corev1alpha1.Run) { retried(r); del(r) }), nil, cancelled("deleted; its Pod p is gone")},
		"a Run that waits again, deleted":           {runIn("Pending", func(r *corev1alpha1.Run) { waitsAgain(r); del(r) }), nil, cancelled("deleted before attempt 2 was assigned to a Pod")},
		"a Run on its Pod":                          {runIn("Running", nil), healthy, verdict{recheck: time.Minute}},
		"a Run on its Pod, cancelled":               {runIn("Running", cancel), healthy, verdict{recheck: time.Minute}},
		"a Run on a Pod that leaves":                {runIn("Running", nil), leaving, verdict{recheck: 50 * time.Second}},
		"a Run on a Pod that leaves late":           {runIn("Running", nil), leavingLate, verdict{recheck: time.Minute}},
		"a scheduled Run without its Pod":           {runIn("Scheduled", nil), nil, lost},
		"a Run without its Pod, with attempts left": {runIn("Running", retried), nil, handedBack},
		"the same in its last attempt":              {runIn("Running", func(r *corev1alpha1.Run) { retried(r); r.Status.Attempt = 3 }), nil, lost},
		"the same, cancelled":                       {runIn("Running", func(r *corev1alpha1.Run) { retried(r); cancel(r) }), nil, cancelled("cancelled; its Pod p is gone")},
		"the same, with other reasons to retry": {runIn("Running", func(r *corev1alpha1.Run) {
			retried(r)
			r.Spec.RetryPolicy.RetryOn = []corev1alpha1.RunReason{corev1alpha1.RunReasonOOMKilled}
		}), nil, lost},
		"a Run with its Pod, with attempts left":     {runIn("Running", retried), healthy, verdict{recheck: time.Minute}},
		"a Run that waits for its next attempt":      {runIn("Pending", waitsAgain), nil, verdict{}},
		"the same, cancelled while it waits":         {runIn("Pending", func(r *corev1alpha1.Run) { waitsAgain(r); cancel(r) }), nil, cancelled("cancelled before attempt 2 was assigned to a Pod")},
		"a running Run without its Pod":              {runIn("Running", nil), nil, lost},
		"a running Run without its Pod, cancelled":   {runIn("Running", cancel), nil, cancelled("cancelled; its Pod p is gone")},
		"a finished Run":                             {runIn("Succeeded", nil), nil, verdict{}},
		"a finished Run, cancelled too late":         {runIn("Succeeded", cancel), nil, verdict{}},
		"a finished Run that is kept a while":        {runIn("Failed", keep(15)), nil, verdict{recheck: 5 * time.Second}},
		"a finished Run whose time is over":          {runIn("Timeout", keep(10)), nil, verdict{action: actionDelete}},
		"a finished Run that is kept for no time":    {runIn("Cancelled", keep(0)), nil, verdict{action: actionDelete}},
		"a finished Run that hides when it finished": {runIn("Failed", func(r *corev1alpha1.Run) { r.Spec.TTLSecondsAfterFinished = ptr.To[int32](3600) }), nil, verdict{action: actionDelete}},
		"a waiting Run with a time to live":          {runIn("Pending", keep(0)), nil, verdict{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, judge(tc.run, tc.pod, podEnd{}, epoch), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudgeAfterThePodHasDrained(t *testing.T) {
	unstarted := verdict{action: actionHandBack, unstarted: true, reason: corev1alpha1.RunReasonPodTerminated,
		message: "Pod p was shut down before the execution started"}
	lost := verdict{action: actionEnd, phase: corev1alpha1.RunFailed, reason: corev1alpha1.RunReasonRuntimePodLost,
		message: "Pod p is gone, and nobody reported how the execution ended"}
	cases := map[string]struct {
		run  *corev1alpha1.Run
		want verdict
	}{
		"a Run that was assigned too late":           {runIn("Scheduled", nil), unstarted},
		"the same, with a policy":                    {runIn("Scheduled", func(r *corev1alpha1.Run) { r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 1} }), unstarted},
		"the same, cancelled":                        {runIn("Scheduled", func(r *corev1alpha1.Run) { r.Spec.CancelRequested = true }), cancelled("cancelled; its Pod p is gone")},
		"the same, being deleted":                    {runIn("Scheduled", func(r *corev1alpha1.Run) { r.DeletionTimestamp = ptr.To(metav1.NewTime(epoch)) }), cancelled("deleted; its Pod p is gone")},
		"a Run that executes, which nobody explains": {runIn("Running", nil), lost},
		"a finished Run":                             {runIn("Succeeded", nil), verdict{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, judge(tc.run, nil, podEnd{drained: true}, epoch), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudgeTellsWhyThePodEnded(t *testing.T) {
	end := podEnd{words: "Evicted: Usage of EmptyDir volume \"workspace\" exceeds the limit \"4Mi\"."}
	want := "Pod p is gone, and nobody reported how the execution ended: Evicted: Usage of EmptyDir volume \"workspace\" exceeds the limit \"4Mi\"."
	if got := judge(runIn("Running", nil), nil, end, epoch); got.message != want {
		t.Errorf("message %q, want %q", got.message, want)
	}
}

// TestJudgeBeforeThePodsEndWasHeardOf waits only where it matters whether the Pod had drained.
func TestJudgeBeforeThePodsEndWasHeardOf(t *testing.T) {
	end := podEnd{unheard: 3 * time.Second}
	cases := map[string]struct {
		run  *corev1alpha1.Run
		want action
	}{
		"a Run that may have begun":  {runIn("Scheduled", nil), actionNone},
		"the same, cancelled":        {runIn("Scheduled", func(r *corev1alpha1.Run) { r.Spec.CancelRequested = true }), actionEnd},
		"a Run that certainly began": {runIn("Running", nil), actionEnd},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := judge(tc.run, nil, end, epoch)
			if got.action != tc.want {
				t.Errorf("action %d, want %d", got.action, tc.want)
			}
			if got.action == actionNone && got.recheck != end.unheard {
				t.Errorf("it is looked at again in %s, want %s", got.recheck, end.unheard)
			}
		})
	}
}

func TestIsHere(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p-uid"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		if change != nil {
			change(p)
		}
		return p
	}
	deleted := func(at time.Time) *corev1.Pod {
		return pod(func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(at)) })
	}
	cases := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"the Pod":                            {pod(nil), true},
		"a successor":                        {pod(func(p *corev1.Pod) { p.UID = "other" }), false},
		"a failed Pod":                       {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false},
		"a Pod in its grace period":          {deleted(epoch.Add(time.Second)), true},
		"a Pod a little past it":             {deleted(epoch.Add(-29 * time.Second)), true},
		"a Pod that should be gone for long": {deleted(epoch.Add(-30 * time.Second)), false},
		"a Pod that has drained":             {drainedPod(nil), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := isHere(runIn("Running", nil), tc.pod, epoch); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// TestVerdictsFollowTheTable makes sure that no verdict asks for a transition that the state machine refuses.
func TestVerdictsFollowTheTable(t *testing.T) {
	for _, phase := range corev1alpha1.RunPhases() {
		for i := range 4 {
			cancelled, drained := i%2 == 1, i >= 2
			run := runIn(phase, func(r *corev1alpha1.Run) { r.Spec.CancelRequested = cancelled })
			v := judge(run, nil, podEnd{drained: drained}, epoch)
			if _, ok := run.HandedBackUnstarted(corev1alpha1.AttemptEnd{}); v.unstarted && !ok {
				t.Errorf("a Run in %s (cancelled: %t) is handed back, which it refuses", phase, cancelled)
			}
			run.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 2}
			if again := judge(run, nil, podEnd{drained: drained}, epoch); again.action == actionHandBack &&
				!corev1alpha1.CanTransition(phase, corev1alpha1.RunPending, corev1alpha1.WriterLifecycle) {
				t.Errorf("a Run is handed back from %s, which the table refuses", phase)
			}
			if v.action == actionEnd && !corev1alpha1.CanTransition(phase, v.phase, corev1alpha1.WriterLifecycle) {
				t.Errorf("verdict on %s (cancelled: %t) is %s, which the table refuses", phase, cancelled, v.phase)
			}
		}
	}
}
