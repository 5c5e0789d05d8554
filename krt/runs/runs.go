// Package runs holds what several commands do with Runs: find one, cancel, delete, and put into words how it ended.
package runs

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// Get reads one Run.
func Get(ctx context.Context, c client.Reader, namespace, name string) (*corev1alpha1.Run, error) {
	run := &corev1alpha1.Run{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, run); err != nil {
		return nil, cli.Missing(err, cli.KindRun, namespace, name)
	}
	return run, nil
}

// chunk is how many Runs are read with one request.
const chunk = 500

// Each reads Runs page by page and hands each one to visit.
func Each(ctx context.Context, c client.Reader, opts *client.ListOptions, visit func(*corev1alpha1.Run)) error {
	opts.Limit = chunk
	for {
		var list corev1alpha1.RunList
		if err := c.List(ctx, &list, opts); err != nil {
			return fmt.Errorf("listing Runs: %w", err)
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return nil
		}
	}
}

// Unfinished selects the Runs that are in no terminal phase.
func Unfinished() fields.Selector {
	var terms []fields.Selector
	for _, phase := range corev1alpha1.RunPhases() {
		if phase.IsTerminal() {
			terms = append(terms, fields.OneTermNotEqualSelector("status.phase", string(phase)))
		}
	}
	return fields.AndSelectors(terms...)
}

// CancelMode says what else a request to cancel asks for.
type CancelMode string

// The modes are merge patches that change nothing else, and may be sent again.
const (
	// CancelOnly asks for the end of a Run.
	CancelOnly CancelMode = `{"spec":{"cancelRequested":true}}`
	// CancelAndDelete asks for the end of a Run, and that the cluster deletes it then.
	CancelAndDelete CancelMode = `{"spec":{"cancelRequested":true,"ttlSecondsAfterFinished":0}}`
)

// RequestCancel asks for the end of a Run.
func RequestCancel(ctx context.Context, c client.Writer, namespace, name string, mode CancelMode) error {
	run := &corev1alpha1.Run{}
	run.Namespace, run.Name = namespace, name
	err := c.Patch(ctx, run, client.RawPatch(types.MergePatchType, []byte(mode)))
	return cli.Missing(err, cli.KindRun, namespace, name)
}

// Delete deletes exactly this Run, not a later one of its name. A Run that is gone already is no error.
func Delete(ctx context.Context, c client.Writer, run *corev1alpha1.Run) error {
	err := c.Delete(ctx, run, client.Preconditions{UID: ptr.To(run.UID)})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
