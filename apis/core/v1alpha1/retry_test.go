package v1alpha1

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var retryEpoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// policy makes a RetryPolicy as an API server stores it.
func policy(attempts int32, backoff, maxBackoff time.Duration, retryOn ...RunReason) *RetryPolicy {
	return &RetryPolicy{MaxAttempts: attempts, Backoff: &metav1.Duration{Duration: backoff},
		MaxBackoff: &metav1.Duration{Duration: maxBackoff}, RetryOn: retryOn}
}

func TestRetryPolicyWait(t *testing.T) {
	const year = 8760 * time.Hour
	cases := map[string]struct {
		policy  *RetryPolicy
		attempt int32
		want    time.Duration
	}{
		"no policy":                            {nil, 2, 0},
		"the first attempt":                    {policy(5, time.Minute, time.Hour), 1, 0},
		"the second attempt":                   {policy(5, time.Second, time.Minute), 2, time.Second},
		"the third attempt":                    {policy(5, time.Second, time.Minute), 3, 2 * time.Second},
		"the seventh attempt":                  {policy(9, time.Second, time.Minute), 7, 32 * time.Second},
		"the eighth attempt is at the bound":   {policy(9, time.Second, time.Minute), 8, time.Minute},
		"the hundredth attempt":                {policy(100, time.Nanosecond, year), 100, year},
		"the longest wait":                     {policy(100, year, year), 100, year},
		"no wait at all":                       {policy(100, 0, time.Minute), 100, 0},
		"a bound below the wait":               {policy(5, time.Minute, time.Second), 2, time.Second},
		"a bound of nothing":                   {policy(5, time.Minute, 0), 3, 0},
		"the default before the second":        {&RetryPolicy{MaxAttempts: 3}, 2, time.Second},
		"the default bound":                    {&RetryPolicy{MaxAttempts: 30}, 30, 5 * time.Minute},
		"a wait that no API server has stored": {policy(3, -time.Second, time.Minute), 3, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.policy.Wait(tc.attempt); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}

func TestRetryPolicyRetries(t *testing.T) {
	cases := map[string]struct {
		policy  *RetryPolicy
		attempt int32
		reason  RunReason
		want    bool
	}{
		"no policy":                        {nil, 1, RunReasonScriptFailed, false},
		"the default policy":               {&RetryPolicy{}, 1, RunReasonScriptFailed, false},
		"one attempt":                      {policy(1, 0, 0), 1, RunReasonScriptFailed, false},
		"a failure":                        {policy(2, 0, 0), 1, RunReasonScriptFailed, true},
		"a failure of the last attempt":    {policy(2, 0, 0), 2, RunReasonScriptFailed, false},
		"a failure beyond the last":        {policy(2, 0, 0), 3, RunReasonScriptFailed, false},
		"a timeout":                        {policy(2, 0, 0), 1, RunReasonTimeout, true},
		"a lost Pod":                       {policy(2, 0, 0), 1, RunReasonRuntimePodLost, true},
		"a success":                        {policy(2, 0, 0), 1, "", false},
		"a cancel":                         {policy(2, 0, 0), 1, RunReasonCancelled, false},
		"a cancel that is asked for":       {policy(2, 0, 0, RunReasonCancelled), 1, RunReasonCancelled, false},
		"a reason that is listed":          {policy(2, 0, 0, RunReasonTimeout, RunReasonOOMKilled), 1, RunReasonOOMKilled, true},
		"a reason that is not listed":      {policy(2, 0, 0, RunReasonOOMKilled), 1, RunReasonScriptFailed, false},
		"a timeout when it is not listed":  {policy(2, 0, 0, RunReasonOOMKilled), 1, RunReasonTimeout, false},
		"success when failures are listed": {policy(2, 0, 0, RunReasonOOMKilled), 1, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.policy.Retries(tc.attempt, tc.reason); got != tc.want {
				t.Errorf("want %t, got %t", tc.want, got)
			}
		})
	}
}

// active returns a Run in its first attempt, with a policy of three, changed by the given functions.
func active(change ...func(*Run)) *Run {
	r := &Run{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u", Generation: 2}}
	r.Spec.RetryPolicy = policy(3, 10*time.Second, time.Minute)
	r.Status = RunStatus{
		Phase: RunRunning, AssignedPod: "p", AssignedPodUID: "pu", Attempt: 1,
		ScheduledTime: ptr.To(metav1.NewMicroTime(retryEpoch.Add(-time.Minute))),
		StartTime:     ptr.To(metav1.NewMicroTime(retryEpoch.Add(-time.Minute))),
		Outputs:       map[string]OutputValue{"a": "b"},
		Conditions: []metav1.Condition{{Type: RunConditionScheduled, Status: metav1.ConditionTrue, Reason: ReasonAssigned,
			LastTransitionTime: metav1.NewTime(retryEpoch.Add(-time.Minute))}},
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func TestNextAttempt(t *testing.T) {
	attempt := func(n int32) func(*Run) { return func(r *Run) { r.Status.Attempt = n } }
	second, third := active().RetryWait(2), active().RetryWait(3)
	cases := map[string]struct {
		run    *Run
		want   time.Duration
		wantOK bool
	}{
		"the second attempt":       {active(), second, true},
		"the third attempt":        {active(attempt(2)), third, true},
		"no fourth attempt":        {active(attempt(3)), 0, false},
		"an unnumbered attempt":    {active(attempt(0)), second, true},
		"a cancel is asked for":    {active(func(r *Run) { r.Spec.CancelRequested = true }), 0, false},
		"the Run is deleted":       {active(func(r *Run) { r.DeletionTimestamp = ptr.To(metav1.NewTime(retryEpoch)) }), 0, false},
		"the Run has no policy":    {active(func(r *Run) { r.Spec.RetryPolicy = nil }), 0, false},
		"a node's clock is behind": {active(func(r *Run) { r.Status.ScheduledTime = ptr.To(metav1.NewMicroTime(retryEpoch.Add(time.Hour))) }), time.Hour + second, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at, ok := tc.run.NextAttempt(RunReasonScriptFailed, retryEpoch)
			if ok != tc.wantOK || ok && !at.Equal(retryEpoch.Add(tc.want)) {
				t.Errorf("want %s, %t, got %s, %t", tc.want, tc.wantOK, at.Sub(retryEpoch), ok)
			}
		})
	}
}

func TestRetryWait(t *testing.T) {
	const year = 8760 * time.Hour
	cases := map[string]struct {
		policy  *RetryPolicy
		attempt int32
		least   time.Duration
	}{
		"the longest wait of a day": {policy(100, time.Hour, 24*time.Hour), 100, 24 * time.Hour * 4 / 5},
		"near the longest wait":     {policy(3, 9*time.Minute, 10*time.Minute), 2, 8 * time.Minute},
		"a bound below the wait":    {policy(3, time.Hour, time.Minute), 2, 48 * time.Second},
		"no policy":                 {nil, 2, 0},
		"the first attempt":         {policy(3, time.Minute, time.Hour), 1, 0},
		"no wait":                   {policy(3, 0, time.Hour), 2, 0},
		"a second":                  {policy(3, time.Second, time.Hour), 2, time.Second},
		"the longest wait":          {policy(100, year, year), 100, year * 4 / 5},
		"a few nanoseconds":         {policy(3, 3, time.Hour), 2, 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := active(func(r *Run) { r.Spec.RetryPolicy = tc.policy })
			got := run.RetryWait(tc.attempt)
			if tc.policy != nil && got > tc.policy.MaxBackoff.Duration {
				t.Errorf("%s is more than maxBackoff, %s", got, tc.policy.MaxBackoff.Duration)
			}
			if got < tc.least || got > tc.least+tc.least/4 || got != run.RetryWait(tc.attempt) {
				t.Errorf("want %s and up to a quarter more, always the same; got %s, then %s", tc.least, got, run.RetryWait(tc.attempt))
			}
		})
	}
}

// TestRetriesSpread lets ten thousand Runs fail together, four times. Each time their next attempts spread evenly over the
// last fifth of the longest wait, and each time those of a Run are elsewhere.
func TestRetriesSpread(t *testing.T) {
	const runs, slots = 10_000, 10
	rng := rand.New(rand.NewSource(1))
	same := 0
	counts := [5][slots]int{}
	for range runs {
		var uid [16]byte
		rng.Read(uid[:])
		run := active(func(r *Run) {
			r.UID = types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", uid[:4], uid[4:6], uid[6:8], uid[8:10], uid[10:]))
			r.Spec.RetryPolicy = policy(5, time.Minute, time.Minute)
		})
		last := -1
		for attempt := int32(2); attempt <= 5; attempt++ {
			slot := int((run.RetryWait(attempt) - 48*time.Second) * slots / (12 * time.Second))
			counts[attempt-1][slot]++
			if slot == last {
				same++
			}
			last = slot
		}
	}
	for attempt, perSlot := range counts[1:] {
		for slot, n := range perSlot {
			if n < runs/slots*4/5 || n > runs/slots*6/5 {
				t.Errorf("attempt %d: %d Runs in slot %d, want about %d", attempt+2, n, slot, runs/slots)
			}
		}
	}
	if most := runs * 3 / slots * 6 / 5; same > most {
		t.Errorf("%d times a Run was in the same slot again, want at most %d", same, most)
	}
}

func TestHandedBack(t *testing.T) {
	run := active()
	untouched := run.DeepCopy()
	got, ok := run.HandedBack(AttemptEnd{Reason: RunReasonTimeout, Message: "Stopped", ExitCode: ptr.To[int32](143), Time: retryEpoch})
	if !ok {
		t.Fatal("not handed back")
	}
	next := metav1.NewMicroTime(retryEpoch.Add(run.RetryWait(2)).Truncate(time.Microsecond))
	want := RunStatus{
		Phase: RunPending, ObservedGeneration: 2, Attempt: 2, NextAttemptTime: &next, Reason: RunReasonTimeout,
		Message: "Stopped", ExitCode: ptr.To[int32](143),
		Conditions: []metav1.Condition{{Type: RunConditionScheduled, Status: metav1.ConditionFalse, Reason: ReasonBackoff,
			Message: "attempt 2 is not tried before " + next.Format(time.RFC3339), ObservedGeneration: 2,
			LastTransitionTime: metav1.NewTime(retryEpoch)}},
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(untouched, run); diff != "" {
		t.Errorf("the Run itself was changed (-want +got):\n%s", diff)
	}
	if _, ok := active(func(r *Run) { r.Status.Attempt = 3 }).HandedBack(AttemptEnd{Reason: RunReasonTimeout, Time: retryEpoch}); ok {
		t.Error("handed back after the last attempt")
	}
}

// FuzzRetryPolicy looks for policies whose waits are negative, beyond their bound, or shrink, and for Runs that are
// tried more often than allowed.
func FuzzRetryPolicy(f *testing.F) {
	f.Add(int32(1), int64(0), int64(0), int32(1))
	f.Add(int32(100), int64(time.Second), int64(5*time.Minute), int32(99))
	f.Add(int32(100), int64(8760*time.Hour), int64(8760*time.Hour), int32(100))
	f.Add(int32(-1), int64(-1), int64(1)<<62, int32(-5))
	f.Fuzz(func(t *testing.T, attempts int32, backoff, maxBackoff int64, attempt int32) {
		attempt %= 1 << 20
		p := policy(attempts, time.Duration(backoff), time.Duration(maxBackoff))
		wait, later := p.Wait(attempt), p.Wait(attempt+1)
		switch {
		case wait < 0 || wait > max(time.Duration(maxBackoff), 0):
			t.Errorf("a wait of %s with a bound of %s", wait, time.Duration(maxBackoff))
		case later < wait:
			t.Errorf("attempt %d waits %s, the one after it only %s", attempt, wait, later)
		case p.Retries(attempt, RunReasonScriptFailed) != (attempt < max(attempts, 1)):
			t.Errorf("attempt %d of %d: retried %t", attempt, attempts, p.Retries(attempt, RunReasonScriptFailed))
		}
	})
}
