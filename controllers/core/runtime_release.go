package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// release ends the life of the ServiceAccount and the RoleBindings of a Runtime that is gone, once no Pod of it is left
// that needs them to report how its Runs ended. Until then they have no owner; now they get the one that is gone, and the
// garbage collector does the rest. See docs/decisions/0011-rights-outlive-pods.md.
func (r *RuntimeReconciler) release(ctx context.Context, runtime types.NamespacedName) error {
	rights, err := r.rightsOf(ctx, runtime)
	if err != nil || len(rights) == 0 {
		return err
	}
	needed, err := r.areNeeded(ctx, runtime)
	if err != nil || needed {
		return err // The end of a Pod, and a new Runtime, come back to this.
	}
	var errs []error
	for _, o := range rights {
		if err := r.handOver(ctx, o, runtime.Name); err != nil {
			errs = append(errs, fmt.Errorf("handing %T %s over: %w", o, o.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// rightsOf lists the ServiceAccount and the RoleBindings that were made for a Runtime and still have no owner.
func (r *RuntimeReconciler) rightsOf(ctx context.Context, runtime types.NamespacedName) ([]client.Object, error) {
	var accounts corev1.ServiceAccountList
	var bindings rbacv1.RoleBindingList
	for _, list := range []client.ObjectList{&accounts, &bindings} {
		if err := r.Client.List(ctx, list, client.InNamespace(runtime.Namespace), client.MatchingLabels(childLabels(runtime.Name))); err != nil {
			return nil, fmt.Errorf("listing what is left of the Runtime: %w", err)
		}
	}
	var rights []client.Object
	for i := range accounts.Items {
		if o := &accounts.Items[i]; o.Name == childName(runtime.Name) {
			rights = append(rights, o)
		}
	}
	for i := range bindings.Items {
		if o := &bindings.Items[i]; strings.HasPrefix(o.Name, bindingName(runtime.Name, "")) {
			rights = append(rights, o)
		}
	}
	// The label is shortened where the name is long, so the annotation decides.
	return slices.DeleteFunc(rights, func(o client.Object) bool {
		a := o.GetAnnotations()
		return a[corev1alpha1.AnnotationRuntime] != runtime.Name || a[annotationRuntimeUID] == "" || len(o.GetOwnerReferences()) > 0
	}), nil
}

// areNeeded tells whether there is a Pod of a Runtime that may still have to report, or the Runtime itself. The cache
// may lag behind: before it is believed that there is none, the API server is asked.
func (r *RuntimeReconciler) areNeeded(ctx context.Context, runtime types.NamespacedName) (bool, error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(runtime.Namespace), client.MatchingFields{indexPodRuntime: runtime.Name}); err != nil {
		return false, fmt.Errorf("listing Pods: %w", err)
	}
	if slices.ContainsFunc(pods.Items, mayReport) {
		return true, nil
	}
	err := r.Live.Get(ctx, runtime, &corev1alpha1.Runtime{})
	if err == nil || !apierrors.IsNotFound(err) {
		return err == nil, client.IgnoreNotFound(err)
	}
	if err := r.Live.List(ctx, &pods, client.InNamespace(runtime.Namespace), client.MatchingLabels(childLabels(runtime.Name))); err != nil {
		return false, fmt.Errorf("listing Pods: %w", err)
	}
	return slices.ContainsFunc(pods.Items, mayReport), nil
}

func mayReport(pod corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// handOver makes an object one that the garbage collector deletes: one whose only owner is gone.
func (r *RuntimeReconciler) handOver(ctx context.Context, o client.Object, runtime string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": o.GetResourceVersion(),
		"ownerReferences": []metav1.OwnerReference{{
			APIVersion: corev1alpha1.GroupVersion.String(), Kind: "Runtime", Name: runtime,
			UID: types.UID(o.GetAnnotations()[annotationRuntimeUID])}},
	}})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	if err := r.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return client.IgnoreNotFound(err)
	}
	ctrl.LoggerFrom(ctx).Info("Handed over to the garbage collector", "kind", fmt.Sprintf("%T", o), "object", o.GetName())
	return nil
}
