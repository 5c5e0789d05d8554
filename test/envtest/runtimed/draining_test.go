package runtimed

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// terminate deletes the Pod with a grace period, as an eviction does, and asks both containers to end, as a kubelet does.
func (n *node) terminate(t *testing.T, grace time.Duration) {
	t.Helper()
	n.deletePod(t, grace)
	n.runtimed.signal(t, syscall.SIGTERM)
	n.server.signal(t, syscall.SIGTERM)
}

func (n *node) deletePod(t *testing.T, grace time.Duration) {
	t.Helper()
	if err := shared.Admin().Delete(t.Context(), n.pod.DeepCopy(), client.GracePeriodSeconds(int64(grace/time.Second))); err != nil {
		t.Fatal(err)
	}
}

// awaitDraining waits until runtimed answers that it takes no more Runs.
func (n *node) awaitDraining(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, "runtimed to drain", func(ctx context.Context) (bool, error) {
		ok, why := n.ready(ctx)
		return !ok && why == "shutting down", nil
	})
}

// awaitEndInOrder expects that both containers end well.
func (n *node) awaitEndInOrder(t *testing.T) {
	t.Helper()
	for name, p := range map[string]*process{"runtimed": n.runtimed, "runtime-server": n.server} {
		if code := p.awaitExit(t); code != 0 {
			t.Errorf("%s: exit code %d", name, code)
		}
	}
}

func terminated(code int32) outcome {
	return outcome{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonPodTerminated, ExitCode: ptr.To(code),
		Message: "The Pod was shut down before the execution ended"}
}

// until is a script that goes on until somebody makes the file, and leaves a line in the ledger first.
func until(ledger, file string) corev1alpha1.RunSpec {
	return appending(ledger, fmt.Sprintf("until [ -e %s ]; do sleep 0.05; done", file))
}

// TestWhatExecutesGoesOnWhileThePodDrains also shows that runtimed ends with the last execution, long before its grace
// period is over.
func TestWhatExecutesGoesOnWhileThePodDrains(t *testing.T) {
	n := startNode(t)
	var runs []*corev1alpha1.Run
	for i := range 3 {
		runs = append(runs, n.submit(t, fmt.Sprintf("run-%d", i), until(n.path("executed"), n.path("go"))))
	}
	for _, run := range runs {
		awaitPhase(t, run, corev1alpha1.RunRunning)
	}
	n.terminate(t, 600*time.Second)
	n.awaitDraining(t)
	n.write(t, "go", "")
	for _, run := range runs {
		if diff := cmp.Diff(succeeded(nil), outcomeOf(awaitEnd(t, run))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	n.awaitEndInOrder(t)
	n.awaitClean(t)
}

// TestRunsThatComeLateAreHandedBack has Runs that the scheduler assigns before it has seen that the Pod is being deleted.
func TestRunsThatComeLateAreHandedBack(t *testing.T) {
	n := startNode(t)
	early := n.submit(t, "early", until(n.path("executed"), n.path("go")))
	awaitPhase(t, early, corev1alpha1.RunRunning)
	n.terminate(t, 600*time.Second)
	n.awaitDraining(t)
	var late []*corev1alpha1.Run
	for i := range 10 {
		late = append(late, n.submit(t, fmt.Sprintf("late-%d", i), appending(n.path("executed"), "true")))
	}
	cancelled := n.create(t, "cancelled", appending(n.path("executed"), "true"))
	requestCancel(t, cancelled)
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(cancelled), cancelled); err != nil {
		t.Fatal(err)
	}
	n.bind(t, cancelled)
	for _, run := range late {
		status := await(t, run, "handed back", func(r *corev1alpha1.Run) bool { return r.Status.Attempt == 2 }).Status
		if status.Phase != corev1alpha1.RunPending || status.Reason != corev1alpha1.RunReasonPodTerminated || status.AssignedPod != "" || status.NextAttemptTime != nil {
			t.Errorf("Run %s: %+v", run.Name, status)
		}
	}
	want := outcome{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, Message: "Cancelled before the execution started"}
	if diff := cmp.Diff(want, outcomeOf(awaitEnd(t, cancelled))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	n.write(t, "go", "")
	awaitEnd(t, early)
	n.awaitEndInOrder(t)
	if diff := cmp.Diff(map[string]int{"early": 1}, executions(t, n.path("executed"))); diff != "" {
		t.Errorf("executions (-want +got):\n%s", diff)
	}
}

// TestRunsThatHaveNotBegunAreHandedBack has a runtime server that died with its Pod's end: nobody starts it again.
func TestRunsThatHaveNotBegunAreHandedBack(t *testing.T) {
	n := newNode(t)
	n.startRuntimed(t)
	run := n.submit(t, "run", appending(n.path("executed"), "true"))
	cluster.Eventually(t, "runtimed to have the Run", func(context.Context) (bool, error) {
		entries, err := os.ReadDir(n.path("scratch"))
		return len(entries) > 0, err
	})
	n.deletePod(t, 600*time.Second)
	n.runtimed.signal(t, syscall.SIGTERM)
	await(t, run, "handed back", func(r *corev1alpha1.Run) bool {
		return r.Status.Attempt == 2 && r.Status.Phase == corev1alpha1.RunPending
	})
	if code := n.runtimed.awaitExit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := executions(t, n.path("executed")); len(got) > 0 {
		t.Errorf("it was executed: %v", got)
	}
}

// TestTheRestIsReportedBeforeTheGraceIsOver has executions that go on for too long, of which one does not care for
// SIGTERM, one has a policy, and one is being cancelled with more time than is left.
func TestTheRestIsReportedBeforeTheGraceIsOver(t *testing.T) {
	n := startNode(t)
	plain := n.submit(t, "plain", script("exec sleep 3600"))
	stubborn := n.submit(t, "stubborn", script("trap '' TERM; while :; do sleep 0.05; done"))
	policy := n.submit(t, "policy", retried(script("exec sleep 3600"), 2))
	cancelled := n.submit(t, "cancelled", script("trap '' TERM; touch "+n.path("trapped")+"; while :; do sleep 0.05; done"))
	for _, run := range []*corev1alpha1.Run{plain, stubborn, policy, cancelled} {
		awaitPhase(t, run, corev1alpha1.RunRunning)
	}
	n.awaitFile(t, "trapped") // a phase does not say how far a script is
	const grace = 18 * time.Second
	n.terminate(t, grace)
	began := time.Now()
	n.awaitDraining(t)
	requestCancel(t, cancelled)
	if diff := cmp.Diff(terminated(143), outcomeOf(awaitEnd(t, plain))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(terminated(137), outcomeOf(awaitEnd(t, stubborn))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := awaitAttempt(t, policy, 2).Status; got.Reason != corev1alpha1.RunReasonPodTerminated || got.NextAttemptTime == nil {
		t.Errorf("handed back as %+v", got)
	}
	if diff := cmp.Diff(cancelledWith(137), outcomeOf(awaitEnd(t, cancelled))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	n.awaitEndInOrder(t)
	if took := time.Since(began); took < grace-corev1alpha1.StopLead(grace) || took > grace {
		t.Errorf("it took %s of a grace period of %s", took, grace)
	}
	n.awaitClean(t)
}

// TestASecondDeletionMayLeaveLessTime first gives the Pod more time than the test has.
func TestASecondDeletionMayLeaveLessTime(t *testing.T) {
	n := startNode(t)
	run := n.submit(t, "run", script("exec sleep 3600"))
	awaitPhase(t, run, corev1alpha1.RunRunning)
	n.terminate(t, 3600*time.Second)
	n.awaitDraining(t)
	n.deletePod(t, 25*time.Second)
	if diff := cmp.Diff(terminated(143), outcomeOf(awaitEnd(t, run))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	n.awaitEndInOrder(t)
}

// TestCancelAndDeletionWhileThePodDrains end what executes, and with it the Pod.
func TestCancelAndDeletionWhileThePodDrains(t *testing.T) {
	n := startNode(t)
	cancelled, deleted := n.submit(t, "cancelled", script("exec sleep 3600")), n.submit(t, "deleted", script("exec sleep 3600"))
	for _, run := range []*corev1alpha1.Run{cancelled, deleted} {
		awaitPhase(t, run, corev1alpha1.RunRunning)
	}
	n.terminate(t, 600*time.Second)
	n.awaitDraining(t)
	requestCancel(t, cancelled)
	if diff := cmp.Diff(cancelledWith(143), outcomeOf(awaitEnd(t, cancelled))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	shared.Delete(t, deleted)
	n.awaitEndInOrder(t)
	n.awaitClean(t)
}

// TestDrainingInANamespaceThatIsDeleted keeps the namespace and its Runs, as the namespace controller does until the Pods
// are gone: nobody will see what becomes of the Runs.
func TestDrainingInANamespaceThatIsDeleted(t *testing.T) {
	n := startNode(t)
	run := n.submit(t, "run", script("exec sleep 3600"))
	awaitPhase(t, run, corev1alpha1.RunRunning)
	shared.Delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.namespace}})
	n.terminate(t, 3600*time.Second)
	if diff := cmp.Diff(terminated(143), outcomeOf(awaitEnd(t, run))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	n.awaitEndInOrder(t)
}

// TestDrainingWithoutRights takes the rights of runtimed away, as the deletion of its namespace may: there is nobody left
// to report to, and it ends once nothing executes.
func TestDrainingWithoutRights(t *testing.T) {
	n := startNode(t)
	binding := &rbacv1.RoleBinding{}
	key := client.ObjectKey{Namespace: n.namespace, Name: n.pod.Spec.ServiceAccountName}
	if err := shared.Admin().Get(t.Context(), key, binding); err != nil {
		t.Fatal(err)
	}
	shared.Delete(t, binding)
	awaitForbidden(t, cluster.Client(t, n.config), n.pod)
	n.terminate(t, 600*time.Second)
	n.awaitEndInOrder(t)
}

// awaitForbidden waits until the Pod may not read itself any more.
func awaitForbidden(t *testing.T, asPod client.Client, pod *corev1.Pod) {
	t.Helper()
	cluster.Eventually(t, "the rights to be gone", func(ctx context.Context) (bool, error) {
		return asPod.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}) != nil, nil
	})
}
