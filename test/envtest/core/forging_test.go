package core

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

const report = `{"status":{"message":"forged"}}`

// assigned makes a Run that is assigned to a Pod of the namespace, and returns both.
func assigned(t *testing.T, ns string) (run *corev1alpha1.Run, pod *rest.Config, end func()) {
	t.Helper()
	made := shared.RuntimePod(t, ns, "sh", "runtime-sh-0")
	run = newRun(ns, "r")
	shared.Create(t, run)
	expectError(t, "assigning", patchStatus(t, shared.Admin(), run, assignment(string(made.UID))), "")
	return run, shared.Pod(t, made), func() { shared.Delete(t, made) }
}

// TestATokenEndsWithItsPod takes the Pod away from under its token.
func TestATokenEndsWithItsPod(t *testing.T) {
	run, cfg, end := assigned(t, shared.Namespace(t))
	pod := cluster.Client(t, cfg)
	expectError(t, "the Pod", patchStatus(t, pod, run, `{"status":{"phase":"Running"}}`), "")
	end()
	cluster.Eventually(t, "the token of the deleted Pod to be refused", func(context.Context) (bool, error) {
		err := patchStatus(t, pod, run, report)
		if apierrors.IsUnauthorized(err) {
			return true, nil
		}
		return false, err
	})
}

// TestAPodOfAnotherNamespaceIsNotTheAssignedOne gives a Pod of the same name elsewhere the rights of runtimed in this namespace.
func TestAPodOfAnotherNamespaceIsNotTheAssignedOne(t *testing.T) {
	ns, elsewhere := shared.Namespace(t), shared.Namespace(t)
	run, _, _ := assigned(t, ns)
	shared.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "strangers"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: config.RuntimedClusterRole},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: elsewhere, Name: "runtime-sh"}}})
	stranger := cluster.Client(t, shared.Pod(t, shared.RuntimePod(t, elsewhere, "sh", "runtime-sh-0")))
	cluster.Eventually(t, "the policy, and not RBAC, to refuse it", func(context.Context) (bool, error) {
		err := patchStatus(t, stranger, run, report)
		return refusedWith(err, "is written only by the Pod it is assigned to (runtime-sh-0)")
	})
}

// TestImpersonatingTheAccountIsNotBeingThePod lets a user be the ServiceAccount of the assigned Pod. What tells the Pod is in
// extra, which needs a right of its own to impersonate; who has that too is the Pod.
func TestImpersonatingTheAccountIsNotBeingThePod(t *testing.T) {
	ns := shared.Namespace(t)
	run, _, _ := assigned(t, ns)
	pod := run.DeepCopy()
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(run), pod); err != nil {
		t.Fatal(err)
	}
	account := cluster.Client(t, impersonating(shared.Config(), ns, nil))
	expectError(t, "the account without a Pod", patchStatus(t, account, run, report), "assigned to (runtime-sh-0)")
	extra := map[string][]string{"authentication.kubernetes.io/pod-name": {pod.Status.AssignedPod},
		"authentication.kubernetes.io/pod-uid": {pod.Status.AssignedPodUID}}
	mallory := shared.ServiceAccount(t, ns, "mallory")
	shared.Create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "impersonate"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}}}})
	shared.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "impersonate"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "impersonate"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "mallory"}}})
	cluster.Eventually(t, "mallory to be the account, and no Pod", func(context.Context) (bool, error) {
		err := patchStatus(t, cluster.Client(t, impersonating(mallory, ns, nil)), run, report)
		return refusedWith(err, "assigned to (runtime-sh-0)")
	})
	if err := patchStatus(t, cluster.Client(t, impersonating(mallory, ns, extra)), run, report); err == nil {
		t.Error("mallory pretends to be the Pod, without a right to its extra")
	}
}

// impersonating is a configuration that acts as the account of the Runtime sh.
func impersonating(cfg *rest.Config, namespace string, extra map[string][]string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":runtime-sh", Extra: extra}
	return cfg
}

// TestThereIsNoOtherWayToTheStatus tries the requests that are not the patch of a merge.
func TestThereIsNoOtherWayToTheStatus(t *testing.T) {
	ns := shared.Namespace(t)
	run, cfg, _ := assigned(t, ns)
	user := cluster.Client(t, shared.User(t, ns, "editor", append([]rbacv1.PolicyRule{
		{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runtimes/scale"}, Verbs: []string{"get", "update", "patch"}},
		{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runtimes"}, Verbs: []string{"get", "create", "update", "patch"}}}, everyVerb...)...))
	if err := user.Get(t.Context(), client.ObjectKeyFromObject(run), run); err != nil {
		t.Fatal(err)
	}
	forged := run.DeepCopy()
	forged.Status.Message = "forged"
	expectError(t, "a PUT to the status", user.Status().Update(t.Context(), forged.DeepCopy()), "assigned to (runtime-sh-0)")
	expectError(t, "an apply to the status", user.Status().Patch(t.Context(), run.DeepCopy(), client.RawPatch("application/apply-patch+yaml",
		[]byte(`{"apiVersion":"kruntimes.io/v1alpha1","kind":"Run","metadata":{"name":"r","namespace":"`+ns+`"},"status":{"message":"forged"}}`)),
		&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{FieldManager: "x"}}), "assigned to (runtime-sh-0)")
	expectError(t, "a JSON patch of the status", user.Status().Patch(t.Context(), run.DeepCopy(), client.RawPatch("application/json-patch+json",
		[]byte(`[{"op":"add","path":"/status/message","value":"forged"}]`))), "assigned to (runtime-sh-0)")
	expectError(t, "a PUT to the Run", user.Update(t.Context(), forged.DeepCopy()), "")
	expectError(t, "reading", user.Get(t.Context(), client.ObjectKeyFromObject(run), forged), "")
	if forged.Status.Message != "" {
		t.Errorf("the message is %q", forged.Status.Message)
	}
	pod := cluster.Client(t, cfg)
	expectError(t, "the Pod with a PUT", pod.Status().Update(t.Context(), run.DeepCopy()), "cannot update resource")
	expectError(t, "the Pod that deletes", pod.Delete(t.Context(), run.DeepCopy()), "cannot delete resource")
	expectError(t, "the Pod that deletes all", pod.DeleteAllOf(t.Context(), &corev1alpha1.Run{}, client.InNamespace(ns)), "cannot deletecollection resource")
	scheduler := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.SchedulerServiceAccount))
	expectError(t, "the scheduler that deletes all", scheduler.DeleteAllOf(t.Context(), &corev1alpha1.Run{}, client.InNamespace(ns)), "cannot deletecollection resource")

	runtime := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "scaled"}}
	runtime.Spec.Template.Spec.Containers = []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: "debian:12-slim"}}
	expectError(t, "creating a Runtime", user.Create(t.Context(), runtime), "")
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}, Status: autoscalingv1.ScaleStatus{Replicas: 99, Selector: "a=b"}}
	scale.Name, scale.Namespace = runtime.Name, ns
	expectError(t, "scaling it", user.SubResource("scale").Update(t.Context(), runtime, client.WithSubResourceBody(scale)), "")
	expectError(t, "reading it", user.Get(t.Context(), client.ObjectKeyFromObject(runtime), runtime), "")
	if runtime.Spec.Replicas == nil || *runtime.Spec.Replicas != 3 || runtime.Status.Replicas != 0 || runtime.Status.Selector != "" {
		t.Errorf("after scaling it has spec.replicas %v and status %+v", runtime.Spec.Replicas, runtime.Status)
	}
}

// refusedWith is for conditions that wait for a refusal; any other answer is told when it does not come.
func refusedWith(err error, want string) (bool, error) {
	if err != nil && strings.Contains(err.Error(), want) {
		return true, nil
	}
	return false, err
}

// TestAFinishedRunIsSettled has the Pod change what it has reported, as long as the Pod is there.
func TestAFinishedRunIsSettled(t *testing.T) {
	for _, phase := range []corev1alpha1.RunPhase{corev1alpha1.RunSucceeded, corev1alpha1.RunFailed, corev1alpha1.RunTimeout, corev1alpha1.RunCancelled} {
		t.Run(string(phase), func(t *testing.T) { isSettled(t, phase) })
	}
}

func isSettled(t *testing.T, phase corev1alpha1.RunPhase) {
	run, cfg, _ := assigned(t, shared.Namespace(t))
	pod := cluster.Client(t, cfg)
	const settled = "the status of a Run that has ended does not change any more"
	result := fmt.Sprintf(`{"status":{"phase":%q,"reason":"ScriptFailed","exitCode":0,"outputs":{"answer":"42"}}}`, phase)
	expectError(t, "the Pod begins", patchStatus(t, pod, run, `{"status":{"phase":"Running"}}`), "")
	expectError(t, "the Pod reports", patchStatus(t, pod, run, result), "")
	expectError(t, "the Pod reports once more", patchStatus(t, pod, run, result), "")
	for _, text := range []string{
		`{"status":{"outputs":{"answer":"43"}}}`, `{"status":{"outputs":null}}`, `{"status":{"exitCode":1}}`, `{"status":{"message":"x"}}`,
		`{"status":{"startTime":"2026-07-06T12:00:00.000000Z"}}`,
	} {
		expectError(t, text, patchStatus(t, pod, run, text), settled)
	}
	expectError(t, "the control plane", patchStatus(t, shared.Admin(), run, `{"status":{"message":"x"}}`), "")
}

// TestPeopleMakeNoTokenOfARuntimesPod gives them the right to make tokens in a namespace, as Kubernetes' role edit does.
func TestPeopleMakeNoTokenOfARuntimesPod(t *testing.T) {
	ns := shared.Namespace(t)
	pod := shared.RuntimePod(t, ns, "sh", "runtime-sh-0")
	rules := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}}
	person := shared.User(t, ns, "person", rules)
	kubelet := shared.User(t, ns, "system:node:n", rules)
	kubelet.Impersonate.Groups = append(kubelet.Impersonate.Groups, "system:nodes")
	request := func(by client.Client, account string, bound *authenticationv1.BoundObjectReference) error {
		return by.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}},
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}})
	}
	toPod := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "plain"}, Spec: corev1.PodSpec{ServiceAccountName: "theirs",
		Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}}
	shared.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "theirs"}})
	shared.Create(t, plain)
	toPlain := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: plain.Name, UID: plain.UID}

	for who, by := range map[string]*rest.Config{"a person": person, "the kubelet": kubelet, "an administrator": shared.Config()} {
		want := ""
		if who == "a person" {
			want = "ServiceAccounts named runtime-… belong to Runtimes, and their tokens that are bound to a Pod are made by the kubelet; leave spec.boundObjectRef out"
		}
		c := cluster.Client(t, by)
		expectError(t, who+", for the Pod of a Runtime", request(c, pod.Spec.ServiceAccountName, toPod), want)
		expectError(t, who+", for its account", request(c, pod.Spec.ServiceAccountName, nil), "")
		expectError(t, who+", for a Pod of theirs", request(c, "theirs", toPlain), "")
	}
}
