package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/config"
)

// install applies the dev overlay and waits until the definitions are served and the policies decide.
func (c *Cluster) install(ctx context.Context) error {
	manifests, err := config.Render(config.OverlayDev)
	if err != nil {
		return err
	}
	objects, err := decode(manifests)
	if err != nil {
		return err
	}
	for _, u := range objects {
		if err := c.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	if err := c.waitForDefinitions(ctx, objects); err != nil {
		return err
	}
	return c.waitForPolicies(ctx)
}

// decode returns the objects in an order in which they can be applied.
func decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("decoding the manifests: %w", err)
		}
		objects = append(objects, u)
	}
	first := []string{"CustomResourceDefinition", "Namespace"}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return slices.Index(first, b.GetKind()) - slices.Index(first, a.GetKind())
	})
	return objects, nil
}

func (c *Cluster) waitForDefinitions(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, u := range objects {
		if u.GetKind() != "CustomResourceDefinition" {
			continue
		}
		err := poll(ctx, func(ctx context.Context) (bool, error) {
			seen := &unstructured.Unstructured{}
			seen.SetGroupVersionKind(u.GroupVersionKind())
			if err := c.admin.Get(ctx, client.ObjectKeyFromObject(u), seen); err != nil {
				return false, err
			}
			var crd apiextensionsv1.CustomResourceDefinition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(seen.Object, &crd); err != nil {
				return false, err
			}
			return slices.ContainsFunc(crd.Status.Conditions, func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
			}), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be served: %w", u.GetName(), err)
		}
	}
	return nil
}

// waitForPolicies tries what the policies forbid, without storing anything, until each of them has said no.
func (c *Cluster) waitForPolicies(ctx context.Context) error {
	const prober = "policy-prober"
	meta := metav1.ObjectMeta{Name: prober, Namespace: metav1.NamespaceDefault}
	probe := &corev1alpha1.Run{ObjectMeta: meta, Spec: corev1alpha1.RunSpec{
		Runtime: prober, Mode: corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Args: []string{"true"}}}}}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{corev1alpha1.GroupVersion.Group}, Resources: []string{"runs", "runs/status"}, Verbs: []string{"create", "patch"}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: prober},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: prober}}}
	for _, object := range []client.Object{probe, role, binding} {
		create := func(ctx context.Context) (bool, error) { return true, c.admin.Create(ctx, object) }
		if err := poll(ctx, create); err != nil {
			return fmt.Errorf("preparing to probe the policies: %w", err)
		}
	}
	cfg := c.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: prober}
	user, err := client.New(cfg, client.Options{Scheme: Scheme()})
	if err != nil {
		return fmt.Errorf("making the prober's client: %w", err)
	}
	err = poll(ctx, func(ctx context.Context) (bool, error) {
		forged := probe.DeepCopy()
		forged.ObjectMeta = metav1.ObjectMeta{Name: prober + "-2", Namespace: meta.Namespace, Labels: map[string]string{"workflows.kruntimes.io/job": "x"}}
		roomy := probe.DeepCopy()
		roomy.ObjectMeta = metav1.ObjectMeta{Name: prober + "-3", Namespace: meta.Namespace}
		roomy.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: prober}
		status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"message":"x"}}`))
		return isPolicy(user.Create(ctx, forged, client.DryRunAll)) && isPolicy(user.Create(ctx, roomy, client.DryRunAll)) &&
			isPolicy(user.Status().Patch(ctx, probe.DeepCopy(), status, &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the admission policies to decide: %w", err)
	}
	for _, object := range []client.Object{probe, role, binding} {
		if err := c.admin.Delete(ctx, object); err != nil {
			return fmt.Errorf("cleaning up after probing the policies: %w", err)
		}
	}
	return nil
}

// isPolicy tells whether an admission policy, and not RBAC, refused a request.
func isPolicy(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// poll calls f until it is done or ctx ends. An error of f is tried again, and reported when time is up.
func poll(ctx context.Context, f func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, Deadline, true, func(ctx context.Context) (bool, error) {
		done, err := f(ctx)
		last = err
		return done && err == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
