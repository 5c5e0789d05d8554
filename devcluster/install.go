package devcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/config"
)

// install creates what a real cluster gets from the same manifests: kinds first, then namespaces, then the rest.
func (c *Cluster) install(ctx context.Context) error {
	manifests, err := config.Render(config.DevOverlay(c.options.Groups))
	if err != nil {
		return err
	}
	objects, err := config.Objects(manifests)
	if err != nil {
		return err
	}
	if objects, err = c.adaptAdmission(objects); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(apiextensionsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("registering kinds: %w", err)
	}
	api, err := client.New(c.config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, wave := range waves(objects) {
		for _, object := range wave {
			if err := api.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return c.waitEstablished(ctx, api, objects) // while the API server took the new kinds in, the rest was created
}

// waves puts the objects into the order in which they can be created.
func waves(objects []*unstructured.Unstructured) [][]*unstructured.Unstructured {
	sorted := make([][]*unstructured.Unstructured, 3)
	for _, object := range objects {
		wave := 2
		switch object.GetKind() {
		case "CustomResourceDefinition":
			wave = 0
		case "Namespace":
			wave = 1
		}
		sorted[wave] = append(sorted[wave], object)
	}
	return sorted
}

// waitEstablished returns when the API server serves the kinds among objects.
func (c *Cluster) waitEstablished(ctx context.Context, api client.Client, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		err := c.poll(ctx, pollInterval, func() (bool, error) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := api.Get(ctx, client.ObjectKeyFromObject(object), crd); err != nil {
				return false, fmt.Errorf("reading kind %s: %w", object.GetName(), err)
			}
			return slices.ContainsFunc(crd.Status.Conditions, func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
			}), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for kind %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// sortedKeys returns the keys of m in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
