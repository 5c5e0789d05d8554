package workflows

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// definitions reads the definitions of a namespace from the API server, for one action of the controller: what somebody has
// changed a moment ago counts.
type definitions struct {
	// ctx is that of the action.
	ctx       context.Context
	client    client.Reader
	namespace string
	// actions count in place of what is stored.
	actions map[string]*workflowsv1alpha1.ActionSpec
}

// Workflow returns the spec of a Workflow, nil where there is none.
func (d *definitions) Workflow(name string) (*workflowsv1alpha1.WorkflowSpec, error) {
	var workflow workflowsv1alpha1.Workflow
	if found, err := d.read(name, &workflow); err != nil || !found {
		return nil, err
	}
	return &workflow.Spec, nil
}

// Action returns the spec of an Action, nil where there is none.
func (d *definitions) Action(name string) (*workflowsv1alpha1.ActionSpec, error) {
	if action := d.actions[name]; action != nil {
		return action, nil
	}
	var action workflowsv1alpha1.Action
	if found, err := d.read(name, &action); err != nil || !found {
		return nil, err
	}
	return &action.Spec, nil
}

func (d *definitions) read(name string, into client.Object) (found bool, err error) {
	switch err := d.client.Get(d.ctx, client.ObjectKey{Namespace: d.namespace, Name: name}, into); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", name, err)
	default:
		return true, nil
	}
}
