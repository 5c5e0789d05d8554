// Package definitions reads the Workflows and Actions that others call.
package definitions

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/workflow/calls"
)

// Reader finds the definitions of one namespace in the cluster, and reads each of them once. One goroutine may use it.
type Reader struct {
	get       func(name string, into client.Object) error
	workflows map[string]*workflowsv1alpha1.WorkflowSpec
	actions   map[string]*workflowsv1alpha1.ActionSpec
}

var _ calls.Definitions = (*Reader)(nil)

// NewReader returns a Reader that asks c, until ctx ends.
func NewReader(ctx context.Context, c client.Reader, namespace string) *Reader {
	return &Reader{
		get: func(name string, into client.Object) error {
			return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
		},
		workflows: map[string]*workflowsv1alpha1.WorkflowSpec{}, actions: map[string]*workflowsv1alpha1.ActionSpec{},
	}
}

// Workflow returns the Workflow of a name, or nil where there is none.
func (r *Reader) Workflow(name string) (*workflowsv1alpha1.WorkflowSpec, error) {
	if spec, known := r.workflows[name]; known {
		return spec, nil
	}
	var found workflowsv1alpha1.Workflow
	exists, err := r.read(name, &found)
	if err != nil {
		return nil, err
	}
	r.workflows[name] = nil
	if exists {
		r.workflows[name] = &found.Spec
	}
	return r.workflows[name], nil
}

// Action returns the Action of a name, or nil where there is none.
func (r *Reader) Action(name string) (*workflowsv1alpha1.ActionSpec, error) {
	if spec, known := r.actions[name]; known {
		return spec, nil
	}
	var found workflowsv1alpha1.Action
	exists, err := r.read(name, &found)
	if err != nil {
		return nil, err
	}
	r.actions[name] = nil
	if exists {
		r.actions[name] = &found.Spec
	}
	return r.actions[name], nil
}

// read tells whether there is an object of the name. Words that are no name of an object name none.
func (r *Reader) read(name string, into client.Object) (exists bool, err error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return false, nil
	}
	err = r.get(name, into)
	switch {
	case apierrors.IsNotFound(err) && !cli.IsNotInstalled(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("asking the cluster: %w", err)
	}
	return true, nil
}
