package decision

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// retried gives a Run four attempts, of which scheduled makes the second, and retries after the reasons.
func retried(reasons ...corev1alpha1.RunReason) func(*corev1alpha1.Run) {
	return func(r *corev1alpha1.Run) {
		r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 4, Backoff: &metav1.Duration{Duration: time.Second}, RetryOn: reasons}
	}
}

func TestEndStatus(t *testing.T) {
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	scriptFailed := failed(corev1alpha1.RunReasonScriptFailed, "Exit code 1", ptr.To[int32](1))
	scriptFailed.Outputs = map[string]string{"a": "b"}
	timeout := Result{Phase: corev1alpha1.RunTimeout, Reason: corev1alpha1.RunReasonTimeout, Message: "Stopped"}
	isLast := func(r *corev1alpha1.Run) { r.Status.Attempt = 4 }
	wait := scheduled(retried()).RetryWait(3).Truncate(time.Microsecond)
	type brief struct {
		Phase   corev1alpha1.RunPhase
		Reason  corev1alpha1.RunReason
		Attempt int32
		After   time.Duration // until the next attempt; 0 for none
		Outputs int
	}
	cases := map[string]struct {
		run    *corev1alpha1.Run
		result Result
		want   brief
	}{
		"a failure without a policy":            {scheduled(), scriptFailed, brief{"Failed", "ScriptFailed", 2, 0, 1}},
		"a failure with attempts left":          {scheduled(retried()), scriptFailed, brief{"Pending", "ScriptFailed", 3, wait, 0}},
		"a failure of the last attempt":         {scheduled(retried(), isLast), scriptFailed, brief{"Failed", "ScriptFailed", 4, 0, 1}},
		"a failure that is not retried":         {scheduled(retried("OOMKilled")), scriptFailed, brief{"Failed", "ScriptFailed", 2, 0, 1}},
		"a failure of a Run that is cancelled":  {scheduled(retried(), isCancelled), scriptFailed, brief{"Failed", "ScriptFailed", 2, 0, 1}},
		"a failure of a Run that is deleted":    {scheduled(retried(), isDeleted), scriptFailed, brief{"Failed", "ScriptFailed", 2, 0, 1}},
		"a success":                             {scheduled(retried()), Result{Phase: corev1alpha1.RunSucceeded}, brief{"Succeeded", "", 2, 0, 0}},
		"a timeout":                             {scheduled(retried()), timeout, brief{"Pending", "Timeout", 3, wait, 0}},
		"a timeout when others are listed":      {scheduled(retried("ScriptFailed")), timeout, brief{"Timeout", "Timeout", 2, 0, 0}},
		"a lost execution":                      {scheduled(retried()), Lost(), brief{"Pending", "ExecutionLost", 3, wait, 0}},
		"a lost execution of a cancelled Run":   {scheduled(retried(), isCancelled), Lost(), brief{"Cancelled", "Cancelled", 2, 0, 0}},
		"a Pod that shuts down":                 {scheduled(retried()), StoppedBeforeStart(StopShutdown), brief{"Pending", "PodTerminated", 3, 0, 0}},
		"a cancel":                              {scheduled(retried(), isCancelled), StoppedBeforeStart(StopCancel), brief{"Cancelled", "Cancelled", 2, 0, 0}},
		"a cancel that the Run does not show":   {scheduled(retried()), StoppedBeforeStart(StopCancel), brief{"Cancelled", "Cancelled", 2, 0, 0}},
		"a result that the API server refuses":  {scheduled(retried()), Refused(Result{Phase: corev1alpha1.RunSucceeded}, errors.New("too long")), brief{"Pending", "OutputsInvalid", 3, wait, 0}},
		"a message that is longer than allowed": {scheduled(retried()), failed("ScriptFailed", strings.Repeat("é", 5000), nil), brief{"Pending", "ScriptFailed", 3, wait, 0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := EndStatus(tc.run, tc.result, time.Time{}, end)
			s := after.Status
			got := brief{Phase: s.Phase, Reason: s.Reason, Attempt: s.Attempt, Outputs: len(s.Outputs)}
			if s.NextAttemptTime != nil {
				got.After = s.NextAttemptTime.Sub(end)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if (s.AssignedPodUID == "") != (s.Phase == corev1alpha1.RunPending) || (s.CompletionTime == nil) != (s.Phase == corev1alpha1.RunPending) {
				t.Errorf("assignment or completionTime do not go with phase %s: %+v", s.Phase, s)
			}
			if IsHandedBack(tc.run, tc.result, end) != (s.Phase == corev1alpha1.RunPending) {
				t.Error("IsHandedBack and EndStatus disagree")
			}
			if len([]rune(s.Message)) > maxMessage {
				t.Errorf("a message of %d characters", len([]rune(s.Message)))
			}
			if !corev1alpha1.CanTransition(tc.run.Status.Phase, s.Phase, corev1alpha1.WriterRuntimed) {
				t.Errorf("the table refuses %s", s.Phase)
			}
		})
	}
}
