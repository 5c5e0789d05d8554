package runtimed

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// retried gives a Run attempts, an hour apart: no second one begins before a test binds it.
func retried(spec corev1alpha1.RunSpec, attempts int32, on ...corev1alpha1.RunReason) corev1alpha1.RunSpec {
	spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: attempts, Backoff: &metav1.Duration{Duration: time.Hour},
		MaxBackoff: &metav1.Duration{Duration: 8760 * time.Hour}, RetryOn: on}
	return spec
}

// rebind binds a Run that was handed back, as the scheduler would when its time has come.
func (n *node) rebind(t *testing.T, run *corev1alpha1.Run) {
	t.Helper()
	run = run.DeepCopy()
	before := client.MergeFromWithOptions(run.DeepCopy(), client.MergeFromWithOptimisticLock{})
	now := metav1.NowMicro()
	run.Status.Phase, run.Status.NextAttemptTime, run.Status.ScheduledTime = corev1alpha1.RunScheduled, nil, &now
	run.Status.AssignedPod, run.Status.AssignedPodUID = n.pod.Name, string(n.pod.UID)
	if err := shared.Admin().Status().Patch(t.Context(), run, before); err != nil {
		t.Fatalf("binding Run %s again: %v", run.Name, err)
	}
}

// awaitAttempt waits until the Run waits for an attempt.
func awaitAttempt(t *testing.T, run *corev1alpha1.Run, attempt int32) *corev1alpha1.Run {
	t.Helper()
	return await(t, run, fmt.Sprintf("handed back for attempt %d", attempt), func(r *corev1alpha1.Run) bool {
		return r.Status.Phase == corev1alpha1.RunPending && r.Status.Attempt == attempt
	})
}

func TestRetryUntilItSucceeds(t *testing.T) {
	n := startNode(t)
	spec := retried(script(`echo "this is $KRUNTIME_ATTEMPT"; echo from=$KRUNTIME_ATTEMPT >>"$KRUNTIME_OUTPUTS"
pwd >>`+n.path("directories")+`; touch left-behind
[ $(ls | wc -l) -eq 1 ] && [ "$KRUNTIME_ATTEMPT" -ge 3 ] || { echo "no $KRUNTIME_ATTEMPT" >&2; exit 4; }`), 3)
	run := n.submit(t, "run", spec)
	for attempt := int32(2); attempt <= 3; attempt++ {
		back := awaitAttempt(t, run, attempt)
		s := back.Status
		want := outcome{Phase: corev1alpha1.RunPending, Reason: corev1alpha1.RunReasonScriptFailed, ExitCode: ptr.To[int32](4),
			Message: fmt.Sprintf("Exit code 4\nno %d", attempt-1)}
		if diff := cmp.Diff(want, outcomeOf(back)); diff != "" {
			t.Errorf("handed back for attempt %d, -want +got:\n%s", attempt, diff)
		}
		if s.AssignedPod != "" || s.AssignedPodUID != "" || s.StartTime != nil || s.ScheduledTime != nil || s.CompletionTime != nil {
			t.Errorf("something of the old attempt is left: %+v", s)
		}
		wait := time.Until(s.NextAttemptTime.Time)
		if most := back.RetryWait(attempt); wait > most || wait < most-time.Minute {
			t.Errorf("attempt %d is made in %s, want %s", attempt, wait, most)
		}
		records := n.records(t, run)
		if last := records[len(records)-1]; !last.End || last.Attempt != attempt-1 {
			t.Errorf("the log ends with %+v when attempt %d is handed back", last, attempt-1)
		}
		for directory := range strings.Lines(readFile(t, n.path("directories"))) {
			if _, err := os.Stat(strings.TrimSpace(directory)); !os.IsNotExist(err) {
				t.Errorf("the directory of attempt %d is left: %v", attempt-1, err)
			}
		}
		n.rebind(t, back)
	}
	if diff := cmp.Diff(succeeded(map[string]corev1alpha1.OutputValue{"from": "3"}), outcomeOf(awaitEnd(t, run))); diff != "" {
		t.Errorf("end, -want +got:\n%s", diff)
	}
	texts := map[int32]string{}
	for _, r := range n.records(t, run) {
		if !r.End && r.Stream == "stdout" {
			texts[r.Attempt] += r.Line
		}
	}
	if diff := cmp.Diff(map[int32]string{1: "this is 1", 2: "this is 2", 3: "this is 3"}, texts); diff != "" {
		t.Errorf("log by attempt, -want +got:\n%s", diff)
	}
	n.awaitClean(t)
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRetryReasons(t *testing.T) {
	n := startNode(t)
	timeout := func(spec corev1alpha1.RunSpec) corev1alpha1.RunSpec {
		spec.Timeout = &metav1.Duration{Duration: 100 * time.Millisecond}
		return spec
	}
	type end struct {
		Phase   corev1alpha1.RunPhase
		Reason  corev1alpha1.RunReason
		Attempt int32
	}
	cases := map[string]struct {
		spec corev1alpha1.RunSpec
		want end
	}{
		"fails":                       {retried(script("exit 1"), 2), end{"Pending", "ScriptFailed", 2}},
		"fails in its only attempt":   {retried(script("exit 1"), 1), end{"Failed", "ScriptFailed", 1}},
		"fails when others are meant": {retried(script("exit 1"), 2, "OOMKilled"), end{"Failed", "ScriptFailed", 1}},
		"takes too long":              {timeout(retried(script("sleep 60"), 2)), end{"Pending", "Timeout", 2}},
		"too long, others are meant":  {timeout(retried(script("sleep 60"), 2, "ScriptFailed")), end{"Timeout", "Timeout", 1}},
		"has bad outputs":             {retried(script("echo x >>$KRUNTIME_OUTPUTS"), 2, "OutputsInvalid"), end{"Pending", "OutputsInvalid", 2}},
		"succeeds":                    {retried(script("true"), 9), end{"Succeeded", "", 1}},
	}
	t.Run("all", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run := n.submit(t, strings.NewReplacer(" ", "-", ",", "").Replace(name), tc.spec)
				s := await(t, run, "over or handed back", func(r *corev1alpha1.Run) bool { return !r.Status.Phase.IsActive() }).Status
				if diff := cmp.Diff(tc.want, end{s.Phase, s.Reason, s.Attempt}); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	})
	n.awaitClean(t)
}

func TestCancelIsNotRetried(t *testing.T) {
	n := startNode(t)
	run := n.submit(t, "run", retried(script("sleep 60"), 5))
	awaitPhase(t, run, corev1alpha1.RunRunning)
	requestCancel(t, run)
	if got := awaitEnd(t, run).Status; got.Phase != corev1alpha1.RunCancelled || got.Attempt != 1 {
		t.Errorf("%s in attempt %d, want Cancelled in the first", got.Phase, got.Attempt)
	}
}

func TestShutdownHandsBack(t *testing.T) {
	n := startNode(t)
	run := n.submit(t, "run", retried(script("sleep 60"), 2))
	awaitPhase(t, run, corev1alpha1.RunRunning)
	n.terminate(t, 15*time.Second)
	if got := awaitAttempt(t, run, 2).Status; got.Reason != corev1alpha1.RunReasonPodTerminated {
		t.Errorf("handed back for %s, want PodTerminated", got.Reason)
	}
}

// TestHundredAttempts makes as many attempts as there can be, each as soon as the one before is handed back.
func TestHundredAttempts(t *testing.T) {
	n := startNode(t)
	file := n.path("executed")
	run := n.submit(t, "run", retried(appending(file, "exit 9"), 100))
	for attempt := int32(2); attempt <= 100; attempt++ {
		n.rebind(t, awaitAttempt(t, run, attempt))
	}
	got := awaitEnd(t, run)
	if diff := cmp.Diff(failed(corev1alpha1.RunReasonScriptFailed, 9, "Exit code 9"), outcomeOf(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := executions(t, file)["run"]; got != 100 {
		t.Errorf("executed %d times in 100 attempts", got)
	}
	n.awaitClean(t)
}

// TestKilledWhileHandingBack kills runtimed at each of its writes of an attempt that fails. Whatever the API server has
// stored by then, no attempt is executed twice and none is skipped.
func TestKilledWhileHandingBack(t *testing.T) {
	cases := map[string]struct {
		more string
		plan crashPlan
	}{
		"before Running is written":         {"sleep 0.5; exit 1", crashPlan{Write: 1}},
		"after Running is written":          {"sleep 0.5; exit 1", crashPlan{Write: 1, After: true}},
		"before a long one is handed back":  {"sleep 0.5; exit 1", crashPlan{Write: 2}},
		"after a long one is handed back":   {"sleep 0.5; exit 1", crashPlan{Write: 2, After: true}},
		"before a short one is handed back": {"exit 1", crashPlan{Write: 1}},
		"after a short one is handed back":  {"exit 1", crashPlan{Write: 1, After: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.startServer(t)
			crashing := n.startCrashing(t, tc.plan)
			file := n.path("executed")
			more := `[ "$KRUNTIME_ATTEMPT" = 1 ] || exit 0; ` + tc.more
			run := n.submit(t, "run", retried(appending(file, more), 2))
			crashing.awaitExit(t)
			n.startRuntimed(t)
			back := awaitAttempt(t, run, 2)
			if back.Status.Reason != corev1alpha1.RunReasonScriptFailed {
				t.Errorf("handed back for %s, want ScriptFailed", back.Status.Reason)
			}
			if got := executions(t, file)["run"]; got != 1 {
				t.Errorf("the first attempt was executed %d times", got)
			}
			n.rebind(t, back)
			if diff := cmp.Diff(succeeded(nil), outcomeOf(awaitEnd(t, run))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := executions(t, file)["run"]; got != 2 {
				t.Errorf("executed %d times in two attempts", got)
			}
			n.awaitClean(t)
		})
	}
}

// TestLateEndOfAnOldAttempt takes the Run away while its first attempt executes, as the lifecycle controller does with a
// Pod that it holds for lost, and brings the second attempt to the same Pod.
func TestLateEndOfAnOldAttempt(t *testing.T) {
	n := startNode(t)
	file := n.path("executed")
	run := n.submit(t, "run", retried(appending(file, `[ "$KRUNTIME_ATTEMPT" = 1 ] || { sleep 1; exit 0; }
trap 'echo stopped >>`+n.path("stopped")+`; exit 0' TERM; while :; do sleep 0.05; done`), 2))
	running := awaitPhase(t, run, corev1alpha1.RunRunning)
	after, ok := running.HandedBack(corev1alpha1.AttemptEnd{Reason: corev1alpha1.RunReasonRuntimePodLost, Message: "lost", Time: time.Now()})
	if !ok {
		t.Fatal("the policy does not allow a second attempt")
	}
	if err := shared.Admin().Status().Patch(t.Context(), after, client.MergeFrom(running)); err != nil {
		t.Fatal(err)
	}
	n.rebind(t, after)
	end := awaitEnd(t, run)
	if end.Status.Attempt != 2 || end.Status.StartTime.Before(end.Status.ScheduledTime) {
		t.Errorf("the end is not that of the second attempt: %+v", end.Status)
	}
	if diff := cmp.Diff(succeeded(nil), outcomeOf(end)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	n.awaitClean(t)
	if got := readFile(t, n.path("stopped")); got != "stopped\n" {
		t.Errorf("the first attempt was stopped %q", got)
	}
	ends := map[int32]int{}
	for _, r := range n.records(t, run) {
		if r.End {
			ends[r.Attempt]++
		}
	}
	if diff := cmp.Diff(map[int32]int{1: 1, 2: 1}, ends); diff != "" {
		t.Errorf("end records by attempt, -want +got:\n%s", diff)
	}
}
