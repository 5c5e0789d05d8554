package cluster

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/config"
)

// Namespace makes a namespace for one test and returns its name. What is in there when the test has ended is deleted: components of later
// tests would read it, and work on it.
func (c *Cluster) Namespace(tb testing.TB) string {
	tb.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	c.Create(tb, ns)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), Deadline)
		defer cancel()
		if err := c.empty(ctx, ns.Name); err != nil {
			tb.Errorf("deleting what is in namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}

// empty deletes what components read of a namespace, owners first. Kinds that are not installed are none.
func (c *Cluster) empty(ctx context.Context, namespace string) error {
	for _, kind := range []client.Object{
		&workflowsv1alpha1.WorkflowRun{}, &workflowsv1alpha1.Workflow{}, &workflowsv1alpha1.Action{}, &appsv1.ControllerRevision{},
		&corev1alpha1.Runtime{}, &appsv1.Deployment{}, &corev1alpha1.Run{}, &corev1.Pod{}, &workspacesv1alpha1.PersistentWorkspace{},
		&rbacv1.RoleBinding{}, &corev1.ServiceAccount{},
	} {
		err := c.admin.DeleteAllOf(ctx, kind, client.InNamespace(namespace), client.GracePeriodSeconds(0))
		if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return fmt.Errorf("%T: %w", kind, err)
		}
	}
	var workspaces workspacesv1alpha1.PersistentWorkspaceList
	err := c.admin.List(ctx, &workspaces, client.InNamespace(namespace))
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return fmt.Errorf("listing workspaces: %w", err)
	}
	for i := range workspaces.Items {
		if err := c.unhold(ctx, &workspaces.Items[i]); err != nil {
			return fmt.Errorf("workspace %s: %w", workspaces.Items[i].Name, err)
		}
	}
	return nil
}

// unhold takes the finalizers off an object, whoever holds it.
func (c *Cluster) unhold(ctx context.Context, object client.Object) error {
	if len(object.GetFinalizers()) == 0 {
		return nil
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return client.IgnoreNotFound(c.admin.Patch(ctx, object, patch))
}

// Create creates an object as the administrator, or ends the test.
func (c *Cluster) Create(tb testing.TB, object client.Object) {
	tb.Helper()
	if err := c.admin.Create(tb.Context(), object); err != nil {
		tb.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// Delete deletes an object as the administrator, at once and not with grace, or ends the test.
func (c *Cluster) Delete(tb testing.TB, object client.Object) {
	tb.Helper()
	if err := c.admin.Delete(tb.Context(), object, client.GracePeriodSeconds(0)); err != nil {
		tb.Fatalf("deleting %T %s: %v", object, object.GetName(), err)
	}
}

// RuntimePod makes a ready Pod of a Runtime by hand, as its ReplicaSet and a kubelet would, with the rights of runtimed.
func (c *Cluster) RuntimePod(tb testing.TB, namespace, runtime, name string) *corev1.Pod {
	tb.Helper()
	return c.RuntimePodOn(tb, "node", namespace, runtime, name)
}

// RuntimePodOn is RuntimePod on a Node, which is made where it is not there.
func (c *Cluster) RuntimePodOn(tb testing.TB, node, namespace, runtime, name string) *corev1.Pod {
	tb.Helper()
	err := c.admin.Create(tb.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	if client.IgnoreAlreadyExists(err) != nil {
		tb.Fatalf("creating Node %s: %v", node, err)
	}
	value := corev1alpha1.RuntimeLabelValue(runtime)
	account := "runtime-" + value
	c.bindRuntimed(tb, namespace, account)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels:      map[string]string{corev1alpha1.LabelRuntime: value, corev1alpha1.LabelManagedBy: corev1alpha1.ManagedBy},
			Annotations: map[string]string{corev1alpha1.AnnotationRuntime: runtime}},
		Spec: corev1.PodSpec{ServiceAccountName: account, NodeName: node, Containers: []corev1.Container{
			{Name: corev1alpha1.ContainerRuntime, Image: "runtime"}, {Name: corev1alpha1.ContainerRuntimed, Image: "node"}}},
	}
	c.Create(tb, pod)
	c.SetReady(tb, pod, true)
	return pod
}

// bindRuntimed gives a ServiceAccount the role of runtimed in its namespace, once.
func (c *Cluster) bindRuntimed(tb testing.TB, namespace, account string) {
	tb.Helper()
	c.ServiceAccount(tb, namespace, account)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: config.RuntimedClusterRole},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}}
	if err := client.IgnoreAlreadyExists(c.admin.Create(tb.Context(), binding)); err != nil {
		tb.Fatalf("binding the role of runtimed to %s: %v", account, err)
	}
	c.waitUntilAllowed(tb, "system:serviceaccount:"+namespace+":"+account, namespace, rbacv1.PolicyRule{
		APIGroups: []string{corev1alpha1.GroupVersion.Group}, Resources: []string{"runs/status"}, Verbs: []string{"patch"}})
}

// SetReady reports a Pod as running and ready, or not, as a kubelet would.
func (c *Cluster) SetReady(tb testing.TB, pod *corev1.Pod, ready bool) {
	tb.Helper()
	before := client.MergeFrom(pod.DeepCopy())
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}}
	if err := c.admin.Status().Patch(tb.Context(), pod, before); err != nil {
		tb.Fatalf("reporting Pod %s: %v", pod.Name, err)
	}
}

// Eventually calls condition until it returns true, and ends the test when that takes longer than Deadline. The last
// error of condition is part of the failure.
func Eventually(tb testing.TB, what string, condition func(context.Context) (bool, error)) {
	tb.Helper()
	if err := poll(tb.Context(), condition); err != nil {
		tb.Fatalf("waiting for %s: %v", what, err)
	}
}
