package core

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// apply writes all that the plan holds, and joins what went wrong. An object that can never be accepted as it is makes
// the error terminal: trying again before the Runtime changes would be in vain.
func (r *RuntimeReconciler) apply(ctx context.Context, p plan) error {
	var errs []error
	hopeless := true
	for _, c := range p.apply {
		err := r.applyOne(ctx, c)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			hopeless = hopeless && apierrors.IsInvalid(err)
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Applied object", "kind", c.object.GetObjectKind().GroupVersionKind().Kind, "object", c.object.GetName())
	}
	err := errors.Join(errs...)
	if err != nil && hopeless {
		return reconcile.TerminalError(err)
	}
	return err
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

// refusal says in one sentence why the API server or another owner keeps a Runtime from having what it should; empty
// when nothing does, or when trying again is expected to help.
func refusal(p plan, applyErr error) string {
	var reasons []string
	for _, name := range p.foreign {
		reasons = append(reasons, name+" exists and belongs to somebody else: delete it, or give the Runtime another name")
	}
	if joined, ok := unwrapAll(applyErr); ok {
		for _, err := range joined {
			if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsConflict(err) || apierrors.IsBadRequest(err) {
				reasons = append(reasons, err.Error())
			}
		}
	}
	return strings.Join(reasons, "; ")
}

// unwrapAll returns the errors that were joined, also below the mark of a terminal error.
func unwrapAll(err error) ([]error, bool) {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return nil, false
	}
	return joined.Unwrap(), true
}

// patchStatus writes status where it differs from what the Runtime has.
func (r *RuntimeReconciler) patchStatus(ctx context.Context, seen *corev1alpha1.Runtime, status corev1alpha1.RuntimeStatus) error {
	after := seen.DeepCopy()
	after.Status = status
	patch, err := statuspatch.ForRuntime(seen, after)
	if err != nil || patch == nil {
		return err
	}
	return r.Client.Status().Patch(ctx, after, client.RawPatch("application/merge-patch+json", patch))
}
