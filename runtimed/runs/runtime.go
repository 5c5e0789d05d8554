package runs

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

const (
	runtimes = "runtimes"
	// fieldManager owns what runtimed writes to a Runtime.
	fieldManager = "runtimed"
)

// NamespaceUID returns the UID of the namespace, which is read once: it outlives this Pod.
func (c *Client) NamespaceUID(ctx context.Context) (types.UID, error) {
	c.mu.Lock()
	known := c.namespaceUID
	c.mu.Unlock()
	if known != "" {
		return known, nil
	}
	namespace, err := c.Namespace(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.namespaceUID = namespace.UID
	return c.namespaceUID, nil
}

// Runtime reads a Runtime.
func (c *Client) Runtime(ctx context.Context, name string) (*corev1alpha1.Runtime, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r := &corev1alpha1.Runtime{}
	err := c.rest.Get().Namespace(c.namespace).Resource(runtimes).Name(name).Do(ctx).Into(r)
	if err != nil {
		return nil, fmt.Errorf("reading Runtime %s: %w", name, err)
	}
	return r, nil
}

// ApplyRuntimeCondition writes one condition of a Runtime, and nothing else of it. It fails when the Runtime is another one
// of its name.
func (c *Client) ApplyRuntimeCondition(ctx context.Context, r *corev1alpha1.Runtime, condition metav1.Condition) error {
	patch, err := json.Marshal(map[string]any{
		"apiVersion": corev1alpha1.GroupVersion.String(), "kind": "Runtime",
		"metadata": map[string]any{"name": r.Name, "uid": r.UID},
		"status":   map[string]any{"conditions": []metav1.Condition{condition}},
	})
	if err != nil {
		return fmt.Errorf("building the patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err = c.rest.Patch(types.ApplyPatchType).Namespace(c.namespace).Resource(runtimes).Name(r.Name).SubResource("status").
		Param("fieldManager", fieldManager).Param("force", "true").Body(patch).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("writing the condition %s of Runtime %s: %w", condition.Type, r.Name, err)
	}
	return nil
}
