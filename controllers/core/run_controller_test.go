package core

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TestThePodOfARunMayEndUnheard has a Pod that the cache does not show, as one whose labels somebody has removed: its Run
// is looked at again, and is ended once the API server says that the Pod is gone, and no event of that has come for a while.
func TestThePodOfARunMayEndUnheard(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), corev1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	run := runIn(corev1alpha1.RunScheduled, func(r *corev1alpha1.Run) { r.Namespace, r.UID = "ns", "r-uid" })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p-uid"}}
	seen := fake.NewClientBuilder().WithScheme(scheme).WithObjects(run).WithStatusSubresource(run).Build()
	stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod).Build()
	clock := testingclock.NewFakePassiveClock(epoch)
	r := &RunReconciler{Client: seen, Live: stored, Clock: clock}
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(run)}
	type outcome struct {
		Phase   corev1alpha1.RunPhase
		Recheck time.Duration
	}
	look := func(want outcome) {
		t.Helper()
		result, err := r.Reconcile(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		got := &corev1alpha1.Run{}
		if err := seen.Get(t.Context(), request.NamespacedName, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, outcome{got.Status.Phase, result.RequeueAfter}); diff != "" {
			t.Errorf("after a look (-want +got):\n%s", diff)
		}
	}
	look(outcome{corev1alpha1.RunScheduled, podRecheck})
	if err := stored.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	look(outcome{corev1alpha1.RunScheduled, endSettle})
	clock.SetTime(epoch.Add(endSettle))
	look(outcome{corev1alpha1.RunFailed, 0})
}

// TestTheNodeOfARunMayBeGone has a healthy Pod on a Node that the cache, or the API server, shows or not.
func TestTheNodeOfARunMayBeGone(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), corev1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		node string
		// cached and stored are the Nodes that cache and API server show.
		cached, stored []string
		want           corev1alpha1.RunPhase
	}{
		"the Node is there":              {"n", []string{"n"}, []string{"n"}, corev1alpha1.RunRunning},
		"the cache does not show it yet": {"n", nil, []string{"n"}, corev1alpha1.RunRunning},
		"it is gone":                     {"n", []string{"m"}, []string{"m"}, corev1alpha1.RunFailed},
		"the Pod has no Node":            {"", nil, nil, corev1alpha1.RunRunning},
		"the cache shows it still":       {"n", []string{"n"}, nil, corev1alpha1.RunRunning},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := runIn(corev1alpha1.RunRunning, func(r *corev1alpha1.Run) { r.Namespace, r.UID = "ns", "r-uid" })
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p-uid"}, Spec: corev1.PodSpec{NodeName: tc.node}}
			with := func(nodes []string, objects ...client.Object) client.Client {
				for _, n := range nodes {
					objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
				}
				return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(run).Build()
			}
			seen := with(tc.cached, run, pod)
			r := &RunReconciler{Client: seen, Live: with(tc.stored, pod.DeepCopy()), Clock: testingclock.NewFakePassiveClock(epoch)}
			key := client.ObjectKeyFromObject(run)
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			got := &corev1alpha1.Run{}
			if err := seen.Get(t.Context(), key, got); err != nil {
				t.Fatal(err)
			}
			if got.Status.Phase != tc.want {
				t.Errorf("phase %s (%s), want %s", got.Status.Phase, got.Status.Reason, tc.want)
			}
		})
	}
}
