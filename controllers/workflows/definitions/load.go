package definitions

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/calls"
)

// Of returns the definitions of one namespace as reader has them, until ctx ends. What a cache hands out is shared and must
// not be changed.
func Of(ctx context.Context, reader client.Reader, name string) calls.Definitions {
	return &namespace{ctx: ctx, reader: reader, name: name}
}

type namespace struct {
	ctx    context.Context
	reader client.Reader
	name   string
}

// Workflow returns the Workflow of the given name.
func (n *namespace) Workflow(name string) (*workflowsv1alpha1.WorkflowSpec, error) {
	workflow := &workflowsv1alpha1.Workflow{}
	if found, err := n.get(name, workflow); !found {
		return nil, err
	}
	return &workflow.Spec, nil
}

// Action returns the Action of the given name.
func (n *namespace) Action(name string) (*workflowsv1alpha1.ActionSpec, error) {
	action := &workflowsv1alpha1.Action{}
	if found, err := n.get(name, action); !found {
		return nil, err
	}
	return &action.Spec, nil
}

func (n *namespace) get(name string, into client.Object) (found bool, err error) {
	err = n.reader.Get(n.ctx, types.NamespacedName{Namespace: n.name, Name: name}, into, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
