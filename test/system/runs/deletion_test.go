package runs

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TestADeletedRuntimeReportsTheEndsOfItsRuns lets executions refuse to end, so that their Pods outlast the objects that the
// garbage collector deletes at once. A Runtime of the same name follows, and nothing is left in the end.
func TestADeletedRuntimeReportsTheEndsOfItsRuns(t *testing.T) {
	s := newScene(t)
	r := s.runtime("sh", 1, "4", graceOf(15))
	s.warm(r)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		s.run(name, "sh", "trap '' TERM\n"+s.signs()+"sleep 300; sleep 300\n")
	}
	s.until("all execute", func() (bool, string) { return len(s.signed()) == len(names), fmt.Sprint(s.signed()) })
	if err := admin.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	successor := s.runtime("sh", 1, "4", nil)
	for _, name := range names {
		run := s.phase(name, corev1alpha1.RunFailed, corev1alpha1.RunCancelled)
		if run.Status.Reason != corev1alpha1.RunReasonPodTerminated {
			t.Errorf("Run %s: reason %s (%s), want %s", name, run.Status.Reason, run.Status.Message, corev1alpha1.RunReasonPodTerminated)
		}
	}
	s.warm(successor)
	s.run("after", "sh", "true\n")
	s.phase("after", corev1alpha1.RunSucceeded)
	if err := admin.Delete(t.Context(), successor); err != nil {
		t.Fatal(err)
	}
	s.until("what was made for the Runtimes is gone", func() (bool, string) {
		left := ""
		ours := client.MatchingLabels{corev1alpha1.LabelManagedBy: corev1alpha1.ManagedBy}
		for _, kind := range []schema.GroupVersionKind{
			corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
			rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), appsv1.SchemeGroupVersion.WithKind("Deployment"),
		} {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind)
			if err := admin.List(t.Context(), list, client.InNamespace(s.namespace), ours); err != nil {
				return false, err.Error()
			}
			for _, item := range list.Items {
				left += fmt.Sprintf(" %s %s", kind.Kind, item.Name)
			}
		}
		return left == "", left
	})
}
