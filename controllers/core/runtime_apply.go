package core

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// apply writes all that the plan holds, and returns what went wrong. The Deployment stays as it is while Pods that are to
// go first are not marked.
func (r *RuntimeReconciler) apply(ctx context.Context, p plan) (failed []error) {
	for _, c := range p.apply {
		var err error
		if _, ok := c.object.(*appsv1.Deployment); ok {
			err = r.mark(ctx, p.marks)
		}
		if err == nil {
			err = r.applyOne(ctx, c)
		}
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			continue
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Applied object", "kind", c.object.GetObjectKind().GroupVersionKind().Kind, "object", c.object.GetName())
	}
	return failed
}

// hopeless tells whether trying again before the Runtime changes would be in vain: none of the objects can ever be
// accepted as it is.
func hopeless(failed []error) bool {
	return !slices.ContainsFunc(failed, func(err error) bool { return !apierrors.IsInvalid(err) })
}

func (r *RuntimeReconciler) applyOne(ctx context.Context, c change) error {
	gvk := c.object.GetObjectKind().GroupVersionKind()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.object)
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", gvk.Kind, c.object.GetName(), err)
	}
	delete(content, "status")
	options := []client.ApplyOption{client.FieldOwner(fieldOwner)}
	// Force takes fields back that others changed on an object of ours. An object that was not there a moment ago is
	// applied without, so that one that somebody else made in between leads to a conflict.
	if c.exists {
		options = append(options, client.ForceOwnership)
	}
	u := &unstructured.Unstructured{Object: content}
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), options...); err != nil {
		return fmt.Errorf("applying %s %s: %w", gvk.Kind, c.object.GetName(), err)
	}
	return nil
}

// refusal says in one sentence why the API server or another owner keeps a Runtime from having what it should; empty when
// nothing does. What may pass, such as a webhook that does not answer, is said too: nobody knows how long it lasts.
func refusal(p plan, failed []error) string {
	var reasons []string
	for _, name := range p.foreign {
		reasons = append(reasons, name+" exists and belongs to somebody else: delete it, or give the Runtime another name")
	}
	for _, err := range failed {
		reasons = append(reasons, err.Error())
	}
	return strings.Join(reasons, "; ")
}

// patchStatus writes status where it differs from what the Runtime has.
func (r *RuntimeReconciler) patchStatus(ctx context.Context, seen *corev1alpha1.Runtime, status corev1alpha1.RuntimeStatus) error {
	after := seen.DeepCopy()
	after.Status = status
	patch, err := statuspatch.ForRuntime(seen, after)
	if err != nil {
		return fmt.Errorf("building the patch: %w", err)
	}
	if patch == nil {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, after, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}
	return nil
}
