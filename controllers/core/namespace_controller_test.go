package core

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestTheEndOfTheLastPodIsToldToANamespaceInDeletion(t *testing.T) {
	told := func(at time.Time) []corev1.NamespaceCondition {
		return []corev1.NamespaceCondition{
			{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue},
			{Type: "kruntimes.io/RuntimePodsRemaining", Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(at),
				Reason: "RuntimePodsGone", Message: "All Pods of Runtimes are gone"},
		}
	}
	untold := told(epoch)[:1]
	cases := map[string]struct {
		deleted bool
		before  []corev1.NamespaceCondition
		pods    []string // namespaces of Pods
		want    []corev1.NamespaceCondition
		again   time.Duration
	}{
		"the last one is gone":                    {true, untold, []string{"another"}, told(epoch), 0},
		"one is left":                             {true, untold, []string{"ns"}, untold, 0},
		"the namespace stays":                     {false, untold, nil, untold, 0},
		"the namespace stays, and a Pod is there": {false, untold, []string{"ns"}, untold, 0},
		"it was told a moment ago":                {true, told(epoch.Add(-4 * time.Second)), nil, told(epoch.Add(-4 * time.Second)), 6 * time.Second},
		"it was told some time ago":               {true, told(epoch.Add(-10 * time.Second)), nil, told(epoch), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "ns-uid", Finalizers: []string{"example.com/held"}},
				Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive, Conditions: tc.before}}
			objects := []client.Object{namespace}
			for _, ns := range tc.pods {
				objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}})
			}
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithStatusSubresource(namespace).Build()
			if tc.deleted {
				if err := c.Delete(t.Context(), namespace); err != nil {
					t.Fatal(err)
				}
			}
			r := &NamespaceReconciler{Client: c, Live: c, Clock: testingclock.NewFakePassiveClock(epoch)}
			for ns, want := range map[string]time.Duration{"ns": tc.again, "gone": 0} {
				result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: ns}})
				if err != nil || result.RequeueAfter != want {
					t.Errorf("for namespace %s: %+v, %v, want another look after %s", ns, result, err, want)
				}
			}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "ns"}, namespace); err != nil {
				t.Fatal(err)
			}
			byType := cmpopts.SortSlices(func(a, b corev1.NamespaceCondition) bool { return a.Type < b.Type })
			if diff := cmp.Diff(tc.want, namespace.Status.Conditions, byType); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
