package core

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// applyCondition writes a condition as runtimed does: with server-side apply, and that one only.
func applyCondition(ctx context.Context, c client.Client, r *corev1alpha1.Runtime, kind, message string) error {
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": kind, "status": "False", "reason": "StoreFailed", "message": message, "lastTransitionTime": "2026-07-06T12:00:00Z"}}}}}
	u.SetGroupVersionKind(corev1alpha1.GroupVersion.WithKind("Runtime"))
	u.SetNamespace(r.Namespace)
	u.SetName(r.Name)
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("runtimed"), client.ForceOwnership)
}

// status reads the status of a Runtime.
func status(t *testing.T, r *corev1alpha1.Runtime) corev1alpha1.RuntimeStatus {
	t.Helper()
	stored := &corev1alpha1.Runtime{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(r), stored); err != nil {
		t.Fatal(err)
	}
	return stored.Status
}

// TestPodsWriteOnlyTheConditionOfTheArtifactStore has two Pods with tokens of their own, and people, write the status of a
// Runtime.
func TestPodsWriteOnlyTheConditionOfTheArtifactStore(t *testing.T) {
	ns, elsewhere := shared.Namespace(t), shared.Namespace(t)
	sh, plain := newRuntime(ns, "sh"), newRuntime(ns, "plain")
	sh.Spec.ArtifactStore = &corev1alpha1.ArtifactStore{S3: &corev1alpha1.S3Store{Bucket: "abc"}}
	for _, r := range []*corev1alpha1.Runtime{sh, plain} {
		shared.Create(t, r)
		expectError(t, "the control plane", shared.Admin().Status().Patch(t.Context(), r.DeepCopy(), mergePatch(
			`{"status":{"observedGeneration":1,"replicas":2,"readyReplicas":2,"selector":"a=b","conditions":[
			{"type":"Available","status":"True","reason":"PodsReady","message":"2 of 2 Pods ready","lastTransitionTime":"2026-07-06T12:00:00Z"}]}}`)), "")
	}
	first := cluster.Client(t, shared.Pod(t, shared.RuntimePod(t, ns, "sh", "runtime-sh-a")))
	second := cluster.Client(t, shared.Pod(t, shared.RuntimePod(t, ns, "sh", "runtime-sh-b")))
	account := cluster.Client(t, shared.ServiceAccount(t, ns, "runtime-sh"))
	foreign := shared.RuntimePod(t, elsewhere, "sh", "runtime-sh-a")
	grantStatus(t, ns, elsewhere, foreign.Spec.ServiceAccountName)
	stranger := cluster.Client(t, shared.Pod(t, foreign))
	editor := cluster.Client(t, shared.User(t, ns, "editor", rbacv1.PolicyRule{
		APIGroups: []string{"kruntimes.io"}, Resources: []string{"runtimes/status"}, Verbs: []string{"patch", "update"}}))

	const kind = corev1alpha1.RuntimeConditionArtifactStoreReady
	const others, own = "is written only by the control plane, and its condition ArtifactStoreReady by the Pods", "and in its own name"
	expectError(t, "a Pod", applyCondition(t.Context(), first, sh, kind, "Pod runtime-sh-a: no such bucket"), "")
	before := status(t, sh)
	if len(before.Conditions) != 2 || before.Conditions[1].Message != "Pod runtime-sh-a: no such bucket" || before.Replicas != 2 {
		t.Errorf("got status %+v", before)
	}
	patch := func(c client.Client, text string) error {
		return c.Status().Patch(t.Context(), sh.DeepCopy(), mergePatch(`{"status":`+text+`}`))
	}
	for what, refused := range map[string]struct {
		err     error
		message string
	}{
		"in another's name":               {applyCondition(t.Context(), second, sh, kind, "Pod runtime-sh-a: no such bucket at all"), own},
		"in no name":                      {applyCondition(t.Context(), first, sh, kind, "no such bucket"), own},
		"taking another Pod's word away":  {patch(second, `{"conditions":[{"type":"Available","status":"True","reason":"PodsReady","message":"2 of 2 Pods ready","lastTransitionTime":"2026-07-06T12:00:00Z"}]}`), own},
		"where there is no store":         {applyCondition(t.Context(), first, plain, kind, "Pod runtime-sh-a: ready"), own},
		"another condition":               {applyCondition(t.Context(), first, sh, "Available", "Pod runtime-sh-a: not at all"), others},
		"a condition of its own":          {applyCondition(t.Context(), first, sh, "Mine", "Pod runtime-sh-a: x"), others},
		"the replicas":                    {patch(first, `{"replicas":3}`), others},
		"the ready replicas":              {patch(first, `{"readyReplicas":0}`), others},
		"the selector":                    {patch(first, `{"selector":"x=y"}`), others},
		"the generation":                  {patch(first, `{"observedGeneration":2}`), others},
		"everything":                      {patch(first, `null`), others},
		"the account without its Pod":     {applyCondition(t.Context(), account, sh, kind, "Pod runtime-sh-a: x"), others},
		"a Pod of another namespace":      {applyCondition(t.Context(), stranger, sh, kind, "Pod runtime-sh-a: x"), others},
		"a person with the right":         {applyCondition(t.Context(), editor, sh, kind, "Pod runtime-sh-a: x"), others},
		"a person who names no Pod":       {applyCondition(t.Context(), editor, sh, kind, "Pod : x"), others},
		"the spec, which is not its role": {first.Patch(t.Context(), sh.DeepCopy(), mergePatch(`{"spec":{"replicas":0}}`)), "cannot patch resource"},
	} {
		expectError(t, what, refused.err, refused.message)
	}
	if diff := cmp.Diff(before, status(t, sh)); diff != "" {
		t.Errorf("what was refused has changed the status (-before +after):\n%s", diff)
	}
	expectError(t, "the other Pod in its own name", applyCondition(t.Context(), second, sh, kind, "Pod runtime-sh-b: access denied"), "")
	controller := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	expectError(t, "the manager", patch(controller, `{"replicas":3}`), "")
}

// grantStatus lets an account of another namespace patch the status of Runtimes, as RBAC would have it.
func grantStatus(t *testing.T, namespace, accountNamespace, account string) {
	t.Helper()
	shared.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "foreign"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: config.RuntimedClusterRole},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: accountNamespace, Name: account}}})
	cluster.Eventually(t, "the right of another namespace's account", func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + accountNamespace + ":" + account,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "patch",
				Group: corev1alpha1.GroupVersion.Group, Resource: "runtimes", Subresource: "status"}}}
		err := shared.Admin().Create(ctx, review)
		return review.Status.Allowed, err
	})
}

// writeConfiguration writes a configuration of the manager and returns the name of its file.
func writeConfiguration(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manager.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: config.kruntimes.io/v1alpha1\nkind: ManagerConfiguration\n"+content+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// storeArguments are what runtimed is told of an artifact store.
func storeArguments(d *appsv1.Deployment) []string {
	args := d.Spec.Template.Spec.Containers[1].Args
	return args[slices.Index(args, "--interpreter=-e")+1:]
}

// TestARuntimeWithAnArtifactStore follows one through a claim, a bucket, other limits and none at all.
func TestARuntimeWithAnArtifactStore(t *testing.T) {
	stop := startManager(t)
	ns := shared.Namespace(t)
	shared.Create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "kept"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}})
	sh := newRuntime(ns, "sh")
	sh.Spec.Replicas = new(int32(2))
	sh.Spec.ArtifactStore = &corev1alpha1.ArtifactStore{Filesystem: &corev1alpha1.FilesystemStore{VolumeClaimName: "kept"}}
	shared.Create(t, sh)
	limits := []string{"--artifact-max-bytes=10737418240", "--artifact-max-count=32", "--artifact-sweep-interval=1h0m0s", "--artifact-sweep-grace=15m0s"}
	awaitDeployment := func(what string, want []string) *appsv1.Deployment {
		t.Helper()
		return eventually(t, what, ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return slices.Equal(storeArguments(d), want) })
	}
	awaitDeployment("a Deployment with the claim", append([]string{"--artifact-directory=/artifacts"}, limits...))
	eventually(t, "the Runtime to say that its Pods cannot share the claim", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool {
		return condition(r, corev1alpha1.RuntimeConditionArtifactStoreNotShareable) ==
			"True ClaimNotShareable: PersistentVolumeClaim kept is [ReadWriteOnce] and not ReadWriteMany: of 2 Pods, those on other nodes than the first cannot start"
	})
	change := func(patch string) {
		t.Helper()
		if err := shared.Admin().Patch(t.Context(), sh, mergePatch(patch)); err != nil {
			t.Fatal(err)
		}
	}
	change(`{"spec":{"artifactStore":{"filesystem":null,"s3":{"bucket":"abc","credentialsSecretName":"keys"}}}}`)
	bucket := []string{"--artifact-s3-bucket=abc", "--artifact-credentials=/var/run/kruntimes/artifact-credentials"}
	before := awaitDeployment("a Deployment with the bucket", append(bucket, limits...)).DeepCopy()
	pod := cluster.Client(t, shared.Pod(t, shared.RuntimePod(t, ns, "sh", "a")))
	expectError(t, "a Pod", applyCondition(t.Context(), pod, sh, corev1alpha1.RuntimeConditionArtifactStoreReady, "Pod a: no such bucket"), "")

	stop()
	startManager(t, func(o *manager.Options) {
		o.NodeImage, o.ConfigFile = "example.com/node:2", writeConfiguration(t, "artifacts: {maxCount: 5, sweepGrace: 1m}")
	})
	change(`{"spec":{"replicas":1}}`)
	after := eventually(t, "1 replica", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 1 })
	if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" {
		t.Errorf("other limits roll Pods (-before +after):\n%s", diff)
	}
	eventually(t, "the status", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool {
		if got := condition(r, corev1alpha1.RuntimeConditionArtifactStoreReady); got != "False StoreFailed: Pod a: no such bucket" {
			t.Errorf("the manager made the Pod's condition %q", got)
		}
		return r.Status.ObservedGeneration == r.Generation && condition(r, corev1alpha1.RuntimeConditionArtifactStoreNotShareable) == ""
	})
	change(`{"metadata":{"annotations":{"kruntimes.io/restartedAt":"now"}}}`)
	limits[1], limits[3] = "--artifact-max-count=5", "--artifact-sweep-grace=1m0s"
	awaitDeployment("the new limits", append(bucket, limits...))

	change(`{"spec":{"artifactStore":null}}`)
	awaitDeployment("a Deployment without a store", nil)
	eventually(t, "the condition to go", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool {
		return condition(r, corev1alpha1.RuntimeConditionArtifactStoreReady) == ""
	})
}
