package runtimed

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

func cancelledWith(code int32) outcome {
	return outcome{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, ExitCode: ptr.To(code), Message: "Cancelled"}
}

func TestCancel(t *testing.T) {
	n := startNode(t)
	cases := map[string]struct {
		script string
		want   outcome
	}{
		"a script that just ends":       {script: "sleep 3600", want: cancelledWith(143)},
		"a script that cleans up":       {script: "trap 'exit 0' TERM; while :; do sleep 0.01; done", want: cancelledWith(0)},
		"a tree of background children": {script: "sleep 3600 & setsid sleep 3600 & wait", want: cancelledWith(143)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := n.submit(t, strings.ReplaceAll(name, " ", "-"), script(tc.script))
			awaitPhase(t, run, corev1alpha1.RunRunning)
			requestCancel(t, run)
			if diff := cmp.Diff(tc.want, outcomeOf(awaitEnd(t, run))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	n.awaitClean(t)
}

// TestCancelEarly cancels a hundred Runs as soon as they are bound, wherever that meets them: none of them would ever end
// by itself.
func TestCancelEarly(t *testing.T) {
	n := startNode(t)
	var runs []*corev1alpha1.Run
	for i := range 100 {
		run := n.submit(t, fmt.Sprintf("run-%d", i), script("sleep 3600"))
		requestCancel(t, run)
		runs = append(runs, run)
	}
	started := 0
	for _, run := range runs {
		run = awaitEnd(t, run)
		if s := run.Status; s.Phase != corev1alpha1.RunCancelled || s.Reason != corev1alpha1.RunReasonCancelled {
			t.Errorf("Run %s: %+v", run.Name, outcomeOf(run))
		}
		if run.Status.StartTime != nil {
			started++
		}
	}
	t.Logf("%d of %d had started", started, len(runs))
	n.awaitClean(t)
}

// TestCancelAtTheEnd cancels a hundred Runs at about the time at which they end: each ends, and as what it was.
func TestCancelAtTheEnd(t *testing.T) {
	n := startNode(t)
	var runs []*corev1alpha1.Run
	for i := range 100 {
		run := n.submit(t, fmt.Sprintf("run-%d", i), script(fmt.Sprintf("sleep 0.0%02d", i%20)))
		requestCancel(t, run)
		runs = append(runs, run)
	}
	phases := map[corev1alpha1.RunPhase]int{}
	for _, run := range runs {
		run = awaitEnd(t, run)
		phases[run.Status.Phase]++
		if p := run.Status.Phase; p != corev1alpha1.RunCancelled && p != corev1alpha1.RunSucceeded {
			t.Errorf("Run %s: %+v", run.Name, outcomeOf(run))
		}
	}
	t.Logf("phases: %v", phases)
	n.awaitClean(t)
}

func TestCancelBeforeStart(t *testing.T) {
	n := startNode(t)
	run := n.create(t, "run", appending(n.path("executed"), "true"))
	requestCancel(t, run)
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(run), run); err != nil {
		t.Fatal(err)
	}
	n.bind(t, run)
	want := outcome{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, Message: "Cancelled before the execution started"}
	if diff := cmp.Diff(want, outcomeOf(awaitEnd(t, run))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := executions(t, n.path("executed")); len(got) != 0 {
		t.Errorf("it was executed: %v", got)
	}
}

func TestDeleteEndsTheExecution(t *testing.T) {
	n := startNode(t)
	run := n.submit(t, "run", script("echo $$ >"+n.path("pid")+"; exec sleep 3600"))
	n.awaitFile(t, "pid")
	awaitPhase(t, run, corev1alpha1.RunRunning)
	shared.Delete(t, run)
	n.awaitClean(t)
	pid, err := os.ReadFile(n.path("pid"))
	if err != nil {
		t.Fatal(err)
	}
	var number int
	if _, err := fmt.Sscan(string(pid), &number); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(number, 0); err == nil {
		t.Errorf("process %d is still there", number)
	}
}

func TestServerLost(t *testing.T) {
	n := startNode(t)
	run := n.submit(t, "run", script("sleep 3600"))
	awaitPhase(t, run, corev1alpha1.RunRunning)
	n.server.kill(t)
	cluster.Eventually(t, "the Pod to be unready", func(ctx context.Context) (bool, error) {
		ok, why := n.ready(ctx)
		return !ok && why == "the runtime server is not connected", nil
	})
	n.startServer(t)
	want := outcome{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonServerLost, Message: "The runtime server, and with it the execution, was lost"}
	if diff := cmp.Diff(want, outcomeOf(awaitEnd(t, run))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	waiting := n.submit(t, "waiting", script("true"))
	if got := awaitEnd(t, waiting); got.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("the next Run: %+v", outcomeOf(got))
	}
	n.awaitReady(t)
}

func TestTermination(t *testing.T) {
	n := startNode(t)
	run := n.submit(t, "run", script("sleep 3600"))
	awaitPhase(t, run, corev1alpha1.RunRunning)
	n.terminate(t, 3*time.Second)
	want := outcome{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonPodTerminated,
		ExitCode: ptr.To[int32](143), Message: "The Pod was shut down before the execution ended"}
	if diff := cmp.Diff(want, outcomeOf(awaitEnd(t, run))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if code := n.runtimed.awaitExit(t); code != 0 {
		t.Errorf("runtimed: exit code %d", code)
	}
	if code := n.server.awaitExit(t); code != 0 {
		t.Errorf("runtime server: exit code %d", code)
	}
	n.awaitClean(t)
}
