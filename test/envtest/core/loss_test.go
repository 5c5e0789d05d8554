package core

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// verdictBound is how long it may take from the API server's knowing to the verdict.
const verdictBound = 10 * time.Second

// TestFromLossToVerdict loses what executes Runs, in every way, and takes the time until the Run says so.
func TestFromLossToVerdict(t *testing.T) {
	const times = 10
	startManager(t)
	ways := map[string]func(t *testing.T, pod *corev1.Pod){
		"the Pod is deleted": func(t *testing.T, pod *corev1.Pod) { shared.Delete(t, pod) },
		"the Pod is replaced": func(t *testing.T, pod *corev1.Pod) {
			shared.Delete(t, pod)
			shared.RuntimePodOn(t, pod.Spec.NodeName, pod.Namespace, "sh", pod.Name)
		},
		"the Pod has failed": func(t *testing.T, pod *corev1.Pod) {
			before := client.MergeFrom(pod.DeepCopy())
			pod.Status.Phase = corev1.PodFailed
			if err := shared.Admin().Status().Patch(t.Context(), pod, before); err != nil {
				t.Fatal(err)
			}
		},
		"the Node is deleted": func(t *testing.T, pod *corev1.Pod) {
			shared.Delete(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}})
		},
	}
	for name, lose := range ways {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			var took []time.Duration
			for i := range times {
				pod := shared.RuntimePodOn(t, fmt.Sprintf("%s-%d", ns, i), ns, "sh", "a")
				run := newRun(ns, fmt.Sprintf("r%d", i))
				shared.Create(t, run)
				assign(t, run, pod, corev1alpha1.RunRunning)
				began := time.Now()
				lose(t, pod)
				if diff := cmp.Diff(lost, endingOf(awaitEnd(t, ns, run.Name))); diff != "" {
					t.Fatalf("end (-want +got):\n%s", diff)
				}
				took = append(took, time.Since(began))
				_ = client.IgnoreNotFound(shared.Admin().Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
			}
			slices.Sort(took)
			t.Logf("from loss to verdict: median %s, longest of %d %s", took[times/2].Round(time.Millisecond), times, took[times-1].Round(time.Millisecond))
			if longest := took[times-1]; longest > verdictBound {
				t.Errorf("a verdict took %s, want at most %s", longest, verdictBound)
			}
		})
	}
}

// TestANodeThatWasGoneBeforeTheManagerCame has nobody who sees the Node go.
func TestANodeThatWasGoneBeforeTheManagerCame(t *testing.T) {
	ns := shared.Namespace(t)
	pod := shared.RuntimePodOn(t, ns, ns, "sh", "a")
	run := newRun(ns, "r")
	shared.Create(t, run)
	assign(t, run, pod, corev1alpha1.RunRunning)
	shared.Delete(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	startManager(t)
	if diff := cmp.Diff(lost, endingOf(awaitEnd(t, ns, "r"))); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
}

// TestADeletedRunThatAFinalizerKeepsEnds deletes Runs that nobody executes, or not any more.
func TestADeletedRunThatAFinalizerKeepsEnds(t *testing.T) {
	startManager(t)
	cases := map[string]struct {
		prepare func(*testing.T, *corev1alpha1.Run, *corev1.Pod)
		want    ending
	}{
		"it waits": {func(t *testing.T, run *corev1alpha1.Run, _ *corev1.Pod) { shared.Delete(t, run) },
			ending{Phase: "Cancelled", Reason: "Cancelled", Message: "deleted before it was assigned to a Pod", Condition: "False Cancelled"}},
		"its Pod is lost": {func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
			assign(t, run, pod, corev1alpha1.RunRunning)
			shared.Delete(t, run)
			shared.Delete(t, pod)
		}, ending{Phase: "Cancelled", Reason: "Cancelled", Message: "deleted; its Pod a is gone", Condition: "False Cancelled", AssignedPod: "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			pod := shared.RuntimePod(t, ns, "sh", "a")
			run := newRun(ns, "r")
			run.Finalizers = []string{"test.kruntimes.io/stay"}
			shared.Create(t, run)
			tc.prepare(t, run, pod)
			got := awaitEnd(t, ns, "r")
			if diff := cmp.Diff(tc.want, endingOf(got)); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
			if err := shared.Admin().Patch(t.Context(), got, mergePatch(`{"metadata":{"finalizers":null}}`)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestARunIsHandedBackOnce lets the Pod of a Run report a failed attempt while the manager is about to hand the Run back
// because the Pod is gone. Whoever is first counts, and the attempt is counted once.
func TestARunIsHandedBackOnce(t *testing.T) {
	const report = `{"metadata":{"resourceVersion":%q},"status":{"phase":"Pending","attempt":2,"assignedPod":null,"assignedPodUID":null,` +
		`"nextAttemptTime":"2100-01-01T00:00:00.000000Z","reason":"ScriptFailed","message":"Exit code 3"}}`
	cases := map[string]struct {
		podFirst bool
		want     corev1alpha1.RunReason
	}{
		"the Pod is first":     {true, corev1alpha1.RunReasonScriptFailed},
		"the manager is first": {false, corev1alpha1.RunReasonRuntimePodLost},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			pod := shared.RuntimePod(t, ns, "sh", "a")
			run := retryRun(t, ns, "r", time.Hour)
			assign(t, run, pod, corev1alpha1.RunRunning)
			seen := eventually(t, "Run r", ns, "r", &corev1alpha1.Run{}, func(r *corev1alpha1.Run) bool { return r.Status.Phase.IsActive() })
			asPod := cluster.Client(t, shared.Pod(t, pod))
			patch := fmt.Sprintf(report, seen.ResourceVersion)
			var once sync.Once
			var reported error
			sent := make(chan struct{})
			startManager(t, func(o *manager.Options) {
				o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return cluster.RoundTripper(func(r *http.Request) (*http.Response, error) {
						if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/namespaces/"+ns+"/runs/") {
							return next.RoundTrip(r)
						}
						if tc.podFirst {
							once.Do(func() { reported = patchStatus(t, asPod, run, patch); close(sent) })
						}
						response, err := next.RoundTrip(r)
						if !tc.podFirst {
							once.Do(func() { reported = patchStatus(t, asPod, run, patch); close(sent) })
						}
						return response, err
					})
				})
			})
			// The Pod's token dies with the Pod, so the Pod ends without being deleted.
			before := client.MergeFrom(pod.DeepCopy())
			pod.Status.Phase = corev1.PodFailed
			if err := shared.Admin().Status().Patch(t.Context(), pod, before); err != nil {
				t.Fatal(err)
			}
			<-sent
			if (reported == nil) != tc.podFirst {
				t.Fatalf("the Pod's report: %v", reported)
			}
			awaitHandedBack(t, run, 2)
			// Another Run that is ended shows that the manager has looked again.
			other := newRun(ns, "other")
			shared.Create(t, other)
			cancel(t, other)
			awaitEnd(t, ns, "other")
			got := awaitHandedBack(t, run, 2)
			if got.Status.Reason != tc.want || got.Status.AssignedPod != "" {
				t.Errorf("handed back for %s with Pod %q, want %s", got.Status.Reason, got.Status.AssignedPod, tc.want)
			}
		})
	}
}
