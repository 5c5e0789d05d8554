package scheduler

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// retries gives a Run so many attempts, with a wait before the second.
func retries(attempts int32, backoff time.Duration) func(*corev1alpha1.Run) {
	return func(r *corev1alpha1.Run) {
		r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: attempts, Backoff: &metav1.Duration{Duration: backoff}}
	}
}

// handBack stores and shows that the attempt of a Run has failed by a clock that is ahead of the scheduler's.
func (w *world) handBack(name string, ahead time.Duration) *corev1alpha1.Run {
	w.t.Helper()
	after, ok := w.runs[name].HandedBack(corev1alpha1.AttemptEnd{Reason: corev1alpha1.RunReasonTimeout, Time: w.clock.Now().Add(ahead)})
	if !ok {
		w.t.Fatalf("Run %s is not tried again", name)
	}
	run := w.store(name, func(r *corev1alpha1.Run) { r.Status = after.Status })
	w.engine.runSeen(run)
	return run
}

// bindAll stores and shows what the engine decides now, and returns how much that was.
func (w *world) bindAll() int {
	decisions := w.decide()
	for _, a := range decisions {
		run := w.store(a.run.Name, assignedTo(a))
		w.engine.bound(a, run.ResourceVersion)
		w.engine.runSeen(run)
	}
	return len(decisions)
}

func TestBackoff(t *testing.T) {
	cases := map[string]struct {
		// ahead is how far the node's clock is.
		ahead time.Duration
		// fresh tells that the scheduler is started after the Run was handed back.
		fresh bool
		// short is by how much the wait is shorter than it should be.
		short time.Duration
	}{
		"clocks that agree":                               {},
		"a node's clock an hour fast":                     {ahead: time.Hour},
		"a node's clock a bit slow":                       {ahead: -4 * time.Second},
		"a node's clock an hour slow":                     {ahead: -time.Hour},
		"clocks that agree, a fresh scheduler":            {fresh: true},
		"a node's clock an hour fast, a fresh scheduler":  {fresh: true, ahead: time.Hour},
		"a node's clock a bit slow, and nobody who knows": {fresh: true, ahead: -4 * time.Second, short: 4 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(1)
			w.pod("a", "")
			w.engine.runSeen(w.create("r", "1", retries(3, 10*time.Second)))
			if w.bindAll() != 1 {
				t.Fatal("the first attempt was not bound")
			}
			run := w.handBack("r", tc.ahead)
			if tc.fresh {
				w.engine = newWorld(t).engine
				w.engine.clock = w.clock
				w.runtime(1)
				w.pod("a", "")
				w.engine.runSeen(run)
			}
			due := run.RetryWait(2) - tc.short
			a, wait := w.engine.next()
			if a != nil || wait > due {
				t.Fatalf("bound at once: %t; the loop sleeps %s", a != nil, wait)
			}
			// nextAttemptTime has microseconds.
			w.clock.Step(due - time.Microsecond)
			if w.bindAll() != 0 {
				t.Fatal("bound before its time")
			}
			w.clock.Step(time.Microsecond)
			if w.bindAll() != 1 {
				t.Fatal("not bound when its time had come")
			}
		})
	}
}

// TestBackoffHoldsNothing lets a Run wait for its next attempt: its place is free for others meanwhile.
func TestBackoffHoldsNothing(t *testing.T) {
	w := newWorld(t)
	w.runtime(1)
	w.pod("a", "")
	w.engine.runSeen(w.create("r", "1", retries(3, time.Minute)))
	w.bindAll()
	w.add("other", "1")
	if w.bindAll() != 0 {
		t.Fatal("a place was given twice")
	}
	w.handBack("r", 0)
	if w.bindAll() != 1 || w.runs["other"].Status.AssignedPod != "a" {
		t.Error("the place was not given to the Run that waits for it")
	}
}

// TestBackoffIsToldOnce hands a Run back with the condition that says so: the scheduler has nothing to add.
func TestBackoffIsToldOnce(t *testing.T) {
	w := newWorld(t)
	w.runtime(1)
	w.pod("a", "")
	w.engine.runSeen(w.create("r", "1", retries(3, time.Minute)))
	w.bindAll()
	run := w.handBack("r", 0)
	w.clock.Step(30 * time.Second)
	if notices := w.engine.notices(10); len(notices) != 0 {
		t.Errorf("told again: %+v", notices[0].verdict)
	}
	c := meta.FindStatusCondition(run.Status.Conditions, corev1alpha1.RunConditionScheduled)
	if c == nil || c.Reason != corev1alpha1.ReasonBackoff || c.Status != metav1.ConditionFalse {
		t.Errorf("condition: %+v", c)
	}
}

// TestCancelDuringBackoff takes the Run out of the queue: the lifecycle controller ends it.
func TestCancelDuringBackoff(t *testing.T) {
	w := newWorld(t)
	w.runtime(1)
	w.pod("a", "")
	w.engine.runSeen(w.create("r", "1", retries(3, time.Second)))
	w.bindAll()
	w.handBack("r", 0)
	w.engine.runSeen(w.store("r", func(r *corev1alpha1.Run) { r.Spec.CancelRequested = true }))
	w.clock.Step(time.Hour)
	if w.bindAll() != 0 {
		t.Error("a cancelled Run was bound")
	}
}

// TestHundredAttemptsWithoutBackoff binds a Run that fails at once, again and again.
func TestHundredAttemptsWithoutBackoff(t *testing.T) {
	w := newWorld(t)
	w.runtime(1)
	w.pod("a", "")
	w.engine.runSeen(w.create("r", "1", retries(100, 0)))
	for attempt := 1; ; attempt++ {
		if w.bindAll() != 1 {
			t.Fatalf("attempt %d was not bound", attempt)
		}
		if got := w.runs["r"].Status.Attempt; int(got) != attempt {
			t.Fatalf("attempt %d is numbered %d", attempt, got)
		}
		if attempt == 100 {
			return
		}
		w.handBack("r", 0)
	}
}

// TestARunOfWhichNothingWasExecutedWaitsForAMoment looks at one whose workspace could not be used on its Pod: neither its policy
// nor the clock of a node has anything to say on the wait.
func TestARunOfWhichNothingWasExecutedWaitsForAMoment(t *testing.T) {
	for name, change := range map[string]func(*corev1alpha1.Run){
		"without a policy": func(*corev1alpha1.Run) {}, "a policy that does not wait": retries(3, 0),
		"a policy that waits for long": retries(3, time.Minute),
	} {
		for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
			t.Run(name+", a clock "+ahead.String()+" fast", func(t *testing.T) {
				w := newWorld(t)
				w.runtime(1)
				w.pod("a", "")
				w.engine.runSeen(w.create("r", "1", change))
				if w.bindAll() != 1 {
					t.Fatal("the first attempt was not bound")
				}
				after, _ := w.runs["r"].HandedBackUnstarted(corev1alpha1.AttemptEnd{
					Reason: corev1alpha1.RunReasonWorkspaceUnavailable, Time: w.clock.Now().Add(ahead)})
				w.engine.runSeen(w.store("r", func(r *corev1alpha1.Run) { r.Status = after.Status }))
				w.clock.Step(time.Second - time.Microsecond)
				if w.bindAll() != 0 {
					t.Error("bound before its time")
				}
				w.clock.Step(time.Microsecond)
				if w.bindAll() != 1 {
					t.Error("not bound when its time had come")
				}
			})
		}
	}
}
