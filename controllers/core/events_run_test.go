package core

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
)

// word is an event without what all events about Runs share.
type word struct{ Type, Reason, Key, Note string }

func wordsOf(all []events.Event) []word {
	var out []word
	for _, e := range all {
		out = append(out, word{e.Type, e.Reason, e.Key, e.Note})
	}
	return out
}

func endedRun(phase corev1alpha1.RunPhase, reason corev1alpha1.RunReason, message string) *corev1alpha1.Run {
	return runIn(phase, func(r *corev1alpha1.Run) {
		r.Status.Reason, r.Status.Message, r.Status.Attempt = reason, message, 1
		r.Status.CompletionTime = ptr.To(metav1.NewMicroTime(epoch))
	})
}

// tried is a Run that may be tried three times, at an attempt.
func tried(phase corev1alpha1.RunPhase, attempt int32, change func(*corev1alpha1.Run)) *corev1alpha1.Run {
	return runIn(phase, func(r *corev1alpha1.Run) {
		r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 3}
		r.Status.Attempt = attempt
		if change != nil {
			change(r)
		}
	})
}

// handedBackRun waits for its second attempt since a time before epoch.
func handedBackRun(since time.Duration) *corev1alpha1.Run {
	first := tried(corev1alpha1.RunRunning, 1, func(r *corev1alpha1.Run) {
		r.Status.Conditions = []metav1.Condition{{Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionTrue}}
	})
	after, _ := first.HandedBack(corev1alpha1.AttemptEnd{Reason: "ScriptFailed", Message: "exit code 3", Time: epoch.Add(-since)})
	return after
}

var retrying = word{"Normal", "Retrying", "attempt 2",
	"attempt 1 ended (ScriptFailed); attempt 2 of 3 is not tried before 2026-01-02T03:04:06Z: exit code 3"}

func TestRunEvents(t *testing.T) {
	running := runIn(corev1alpha1.RunRunning, nil)
	cases := map[string]struct {
		before, after *corev1alpha1.Run
		want          []word
	}{
		"placed":                  {runIn("Pending", nil), runIn("Scheduled", func(r *corev1alpha1.Run) { r.Status.Attempt = 1 }), nil},
		"started":                 {runIn("Scheduled", nil), running, nil},
		"succeeded":               {running, endedRun("Succeeded", "", ""), nil},
		"failed":                  {running, endedRun("Failed", "ScriptFailed", "exit code 3"), []word{{"Warning", "ScriptFailed", "end", "exit code 3"}}},
		"failed without a word":   {running, endedRun("Failed", "", ""), []word{{"Warning", "Failed", "end", "the Run is Failed"}}},
		"took too long":           {running, endedRun("Timeout", "Timeout", "stopped after 1s"), []word{{"Warning", "Timeout", "end", "stopped after 1s"}}},
		"cancelled":               {running, endedRun("Cancelled", "Cancelled", "as asked for"), []word{{"Normal", "Cancelled", "end", "as asked for"}}},
		"lost with its Pod":       {running, endedRun("Failed", "RuntimePodLost", "Pod p is gone"), []word{{"Warning", "RuntimePodLost", "end", "Pod p is gone"}}},
		"changed after its end":   {endedRun("Failed", "ScriptFailed", "exit code 3"), endedRun("Failed", "ScriptFailed", "exit code 3"), nil},
		"handed back":             {tried("Running", 1, nil), handedBackRun(0), []word{retrying}},
		"still waits for attempt": {handedBackRun(0), handedBackRun(0), nil},
		"handed back and placed, which came as one": {tried("Running", 1, nil), tried("Scheduled", 2, func(r *corev1alpha1.Run) { r.Status.Reason = "OOMKilled" }),
			[]word{{"Normal", "Retrying", "attempt 2", "attempt 1 ended (OOMKilled); attempt 2 of 3 follows"}}},
		"handed back, more often than its policy allows": {tried("Scheduled", 3, nil), tried("Pending", 4, func(r *corev1alpha1.Run) { r.Status.Reason = "PodTerminated" }),
			[]word{{"Normal", "Retrying", "attempt 4", "attempt 3 ended (PodTerminated); attempt 4 follows"}}},
		"handed back without a policy": {runIn("Scheduled", nil), runIn("Pending", func(r *corev1alpha1.Run) { r.Status.Attempt, r.Status.Reason = 2, "PodTerminated" }),
			[]word{{"Normal", "Retrying", "attempt 2", "attempt 1 ended (PodTerminated); attempt 2 follows"}}},
		"failed in an attempt that its policy does not allow": {tried("Running", 4, nil), tried("Failed", 4, func(r *corev1alpha1.Run) { r.Status.Reason, r.Status.Message = "ScriptFailed", "exit code 3" }), []word{{"Warning", "ScriptFailed", "end", "attempt 4: exit code 3"}}},
		"placed again":             {handedBackRun(0), tried("Scheduled", 2, nil), nil},
		"succeeded at last":        {tried("Running", 2, nil), tried("Succeeded", 2, nil), nil},
		"failed for the last time": {tried("Running", 3, nil), tried("Failed", 3, func(r *corev1alpha1.Run) { r.Status.Reason, r.Status.Message = "ScriptFailed", "exit code 3" }), []word{{"Warning", "ScriptFailed", "end", "attempt 3 of 3: exit code 3"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, wordsOf(runEvents(tc.before, tc.after))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissedRunEvents(t *testing.T) {
	failed := []word{{"Warning", "ScriptFailed", "end", "exit code 3"}}
	cases := map[string]struct {
		run   *corev1alpha1.Run
		since time.Duration
		want  []word
	}{
		"a new one":                  {run: runIn("Pending", nil)},
		"one that runs":              {run: tried("Running", 2, nil)},
		"failed a moment ago":        {run: endedRun("Failed", "ScriptFailed", "exit code 3"), since: time.Second, want: failed},
		"failed minutes ago":         {run: endedRun("Failed", "ScriptFailed", "exit code 3"), since: recently - 1, want: failed},
		"failed long ago":            {run: endedRun("Failed", "ScriptFailed", "exit code 3"), since: recently},
		"succeeded a moment ago":     {run: endedRun("Succeeded", "", ""), since: time.Second},
		"ended by a clock ahead":     {run: endedRun("Failed", "ScriptFailed", "exit code 3"), since: -time.Hour, want: failed},
		"handed back a moment ago":   {run: handedBackRun(0), since: time.Second, want: []word{retrying}},
		"handed back long ago":       {run: handedBackRun(0), since: recently},
		"failed, nobody says when":   {run: runIn("Failed", nil)},
		"waits again, without a cue": {run: tried("Pending", 2, nil)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, wordsOf(missedRunEvents(tc.run, epoch.Add(tc.since)))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatWasMissedIsTheSameEvent would else store an event twice when a manager is restarted.
func TestWhatWasMissedIsTheSameEvent(t *testing.T) {
	for name, after := range map[string]*corev1alpha1.Run{
		"failed": endedRun("Failed", "ScriptFailed", "exit code 3"), "handed back": handedBackRun(0),
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(runEvents(tried("Running", 1, nil), after), missedRunEvents(after, epoch)); diff != "" {
				t.Errorf("events (-seen +missed):\n%s", diff)
			}
		})
	}
}
