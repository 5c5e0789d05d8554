package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// release ends the life of the ServiceAccount and the RoleBindings of a Runtime that is gone, once no Pod of it is left
// that needs them to report how its Runs ended. They have no owner, so nobody else does. See
// docs/decisions/0011-rights-outlive-pods.md.
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
		if err := r.deleteRight(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("deleting %T %s: %w", o, o.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// rightsOf lists the ServiceAccount and the RoleBindings that were made for a Runtime. One that has an owner is left to that, and
// one that is being deleted to its finalizers.
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
		return a[corev1alpha1.AnnotationRuntime] != runtime.Name || a[annotationRuntimeUID] == "" ||
			len(o.GetOwnerReferences()) > 0 || o.GetDeletionTimestamp() != nil
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

// deleteRight deletes an object as it was seen: what somebody has changed since is looked at again first.
func (r *RuntimeReconciler) deleteRight(ctx context.Context, o client.Object) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	if err := r.Client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version}); err != nil {
		return client.IgnoreNotFound(err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted right of a Runtime that is gone", "kind", fmt.Sprintf("%T", o), "object", o.GetName())
	return nil
}
