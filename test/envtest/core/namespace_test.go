package core

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// deleteNamespace begins the deletion of a namespace. Nothing in it goes by itself: no controller of Kubernetes runs here.
func deleteNamespace(t *testing.T, name string) {
	t.Helper()
	shared.Delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func toldOfPodsGone(namespace *corev1.Namespace) bool {
	return slices.ContainsFunc(namespace.Status.Conditions, func(c corev1.NamespaceCondition) bool {
		return c.Type == "kruntimes.io/RuntimePodsRemaining" && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero()
	})
}

func waitUntilTold(t *testing.T, name string) {
	t.Helper()
	cluster.Eventually(t, "namespace "+name+" is told that its Pods are gone", func(ctx context.Context) (bool, error) {
		namespace := &corev1.Namespace{}
		err := shared.Admin().Get(ctx, client.ObjectKey{Name: name}, namespace)
		return toldOfPodsGone(namespace), err
	})
}

func TestANamespaceInDeletionIsToldWhenItsLastPodIsGone(t *testing.T) {
	during, before, stays, later := shared.Namespace(t), shared.Namespace(t), shared.Namespace(t), shared.Namespace(t)
	first, last := shared.RuntimePod(t, during, "sh", "runtime-sh-a"), shared.RuntimePod(t, during, "sh", "runtime-sh-b")
	other, only := shared.RuntimePod(t, stays, "sh", "runtime-sh-a"), shared.RuntimePod(t, later, "sh", "runtime-sh-a")
	// This one's Pods have ended while no manager ran.
	shared.Create(t, newRuntime(before, "sh"))
	deleteNamespace(t, before)

	shared.StartManager(t)
	waitUntilTold(t, before)
	shared.Delete(t, other)
	deleteNamespace(t, during)
	deleteNamespace(t, later)
	shared.Delete(t, first)
	// The controller begins with namespaces in the order in which it hears of their Pods. It looks at several at once, so when it has
	// told this one it has almost certainly, not certainly, done with the others.
	shared.Delete(t, only)
	waitUntilTold(t, later)
	expectUntold(t, during)
	expectUntold(t, stays)
	shared.Delete(t, last)
	waitUntilTold(t, during)
	expectUntold(t, stays)
}

// expectUntold expects nothing of a namespace with a Pod, or not in deletion.
func expectUntold(t *testing.T, name string) {
	t.Helper()
	namespace := &corev1.Namespace{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Name: name}, namespace); err != nil || toldOfPodsGone(namespace) {
		t.Errorf("namespace %s with a Pod, or not in deletion: %v, %+v", name, err, namespace.Status.Conditions)
	}
}

func TestTheManagerWritesOneConditionOfANamespaceInDeletion(t *testing.T) {
	gone, there := shared.Namespace(t), shared.Namespace(t)
	held := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gone}}
	expectError(t, "holding the namespace", shared.Admin().Patch(t.Context(), held, mergePatch(`{"metadata":{"finalizers":["example.com/held"]}}`)), "")
	deleteNamespace(t, gone)
	manager := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	patch := func(by client.Client, namespace, text string) error {
		return by.Status().Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			client.RawPatch("application/strategic-merge-patch+json", []byte(text)))
	}
	const told = `{"status":{"conditions":[{"type":"kruntimes.io/RuntimePodsRemaining","status":"False"}]}}`
	expectError(t, "a namespace that stays", patch(manager, there, told), "writes only to namespaces that are being deleted")
	for what, text := range map[string]string{
		"a label":           `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`,
		"an annotation":     `{"metadata":{"annotations":{"a":"b"}}}`,
		"a finalizer":       `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/held"]}}`,
		"an owner":          `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}}`,
		"another condition": `{"status":{"conditions":[{"type":"NamespaceContentRemaining","status":"False"}]}}`,
	} {
		expectError(t, what, patch(manager, gone, text), "writes only condition kruntimes.io/RuntimePodsRemaining")
		expectError(t, what+", by an administrator", patch(shared.Admin(), gone, text), "")
	}
	expectError(t, "its condition", patch(manager, gone, told), "")
	expectError(t, "the namespace itself", manager.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gone}}, mergePatch(`{"metadata":{"labels":{"a":"b"}}}`)), "forbidden")
}
