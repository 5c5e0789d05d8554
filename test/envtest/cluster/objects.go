package cluster

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/config"
)

// Namespace makes a namespace for one test and returns its name.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	c.Create(t, ns)
	return ns.Name
}

// Create creates an object as the administrator, or ends the test.
func (c *Cluster) Create(t testing.TB, object client.Object) {
	t.Helper()
	if err := c.admin.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// Delete deletes an object as the administrator, at once and not with grace, or ends the test.
func (c *Cluster) Delete(t testing.TB, object client.Object) {
	t.Helper()
	if err := c.admin.Delete(t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
		t.Fatalf("deleting %T %s: %v", object, object.GetName(), err)
	}
}

// RuntimePod makes a ready Pod of a Runtime by hand, as its ReplicaSet and a kubelet would, with the rights of runtimed.
func (c *Cluster) RuntimePod(t testing.TB, namespace, runtime, name string) *corev1.Pod {
	t.Helper()
	value := corev1alpha1.RuntimeLabelValue(runtime)
	account := "runtime-" + value
	c.bindRuntimed(t, namespace, account)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels:      map[string]string{corev1alpha1.LabelRuntime: value, corev1alpha1.LabelManagedBy: corev1alpha1.ManagedBy},
			Annotations: map[string]string{corev1alpha1.AnnotationRuntime: runtime}},
		Spec: corev1.PodSpec{ServiceAccountName: account, NodeName: "node", Containers: []corev1.Container{
			{Name: corev1alpha1.ContainerRuntime, Image: "runtime"}, {Name: corev1alpha1.ContainerRuntimed, Image: "node"}}},
	}
	c.Create(t, pod)
	c.SetReady(t, pod, true)
	return pod
}

// bindRuntimed gives a ServiceAccount the role of runtimed in its namespace, once.
func (c *Cluster) bindRuntimed(t testing.TB, namespace, account string) {
	t.Helper()
	c.ServiceAccount(t, namespace, account)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: config.RuntimedClusterRole},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}}
	if err := client.IgnoreAlreadyExists(c.admin.Create(t.Context(), binding)); err != nil {
		t.Fatalf("binding the role of runtimed to %s: %v", account, err)
	}
	c.waitUntilAllowed(t, "system:serviceaccount:"+namespace+":"+account, namespace, rbacv1.PolicyRule{
		APIGroups: []string{corev1alpha1.GroupVersion.Group}, Resources: []string{"runs/status"}, Verbs: []string{"patch"}})
}

// SetReady reports a Pod as running and ready, or not, as a kubelet would.
func (c *Cluster) SetReady(t testing.TB, pod *corev1.Pod, ready bool) {
	t.Helper()
	before := client.MergeFrom(pod.DeepCopy())
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}}
	if err := c.admin.Status().Patch(t.Context(), pod, before); err != nil {
		t.Fatalf("reporting Pod %s: %v", pod.Name, err)
	}
}

// Eventually calls condition until it returns true, and ends the test when that takes longer than Deadline. The last
// error of condition is part of the failure.
func Eventually(t testing.TB, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	if err := poll(t.Context(), condition); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}
