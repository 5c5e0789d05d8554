package definitions

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// indexCalls finds the Workflows that call a Workflow or an Action, by workflowCall or actionCall of its name.
const indexCalls = "workflows.kruntimes.io/calls"

// CacheByObject says what the cache holds for the controllers, and for whoever looks definitions up.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&workflowsv1alpha1.Workflow{}: {Transform: trim}, &workflowsv1alpha1.Action{}: {Transform: trim}}
}

// trim drops what nobody reads: who manages which field, and the second copy that client-side apply leaves.
func trim(o any) (any, error) {
	if object, ok := o.(client.Object); ok {
		object.SetManagedFields(nil)
		delete(object.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	return o, nil
}

// IndexFields registers the index that the controllers read.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &workflowsv1alpha1.Workflow{}, indexCalls, callsOf); err != nil {
		return fmt.Errorf("indexing Workflows by what they call: %w", err)
	}
	return nil
}
