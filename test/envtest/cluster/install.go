package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/config"
)

// install applies the dev overlay and waits until the definitions are served and the policies decide.
func (c *Cluster) install(ctx context.Context) error {
	manifests, err := config.Render(config.OverlayDev)
	if err != nil {
		return err
	}
	objects, err := Decode(manifests)
	if err != nil {
		return err
	}
	for _, u := range objects {
		if u.GetKind() == config.KindWebhooks {
			c.admission.webhooks[u.GetName()] = u
			continue
		}
		if err := c.apply(ctx, u); err != nil {
			return err
		}
	}
	if err := c.waitForDefinitions(ctx, objects); err != nil {
		return err
	}
	return c.waitForPolicies(ctx)
}

// apply applies a copy of an object, with force.
func (c *Cluster) apply(ctx context.Context, object *unstructured.Unstructured) error {
	err := c.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("test"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// applyTimeout is how long one request may take: a definition is much work for a machine that is busy otherwise.
const applyTimeout = 30 * time.Second

// Apply applies objects in their order, exactly as they are, or ends the test. An object is tried again until its kind is served.
func (c *Cluster) Apply(tb testing.TB, objects []*unstructured.Unstructured) {
	tb.Helper()
	for _, object := range objects {
		Eventually(tb, "the apply of "+object.GetKind()+" "+object.GetName(), func(ctx context.Context) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, applyTimeout)
			defer cancel()
			return true, c.apply(ctx, object)
		})
	}
}

// Decode returns the objects of YAML documents in an order in which they can be applied.
func Decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	all, err := config.Objects(manifests)
	if err != nil {
		return nil, err
	}
	first := []string{"CustomResourceDefinition", "Namespace"}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int {
		return slices.Index(first, b.GetKind()) - slices.Index(first, a.GetKind())
	})
	return all, nil
}

func (c *Cluster) waitForDefinitions(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, u := range objects {
		if u.GetKind() != "CustomResourceDefinition" {
			continue
		}
		err := poll(ctx, func(ctx context.Context) (bool, error) {
			seen := &unstructured.Unstructured{}
			seen.SetGroupVersionKind(u.GroupVersionKind())
			if err := c.admin.Get(ctx, client.ObjectKeyFromObject(u), seen); err != nil {
				return false, err
			}
			var crd apiextensionsv1.CustomResourceDefinition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(seen.Object, &crd); err != nil {
				return false, err
			}
			return slices.ContainsFunc(crd.Status.Conditions, func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
			}), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be served: %w", u.GetName(), err)
		}
	}
	return nil
}

// poll calls f until it is done or ctx ends. An error of f is tried again, and reported when time is up.
func poll(ctx context.Context, f func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, Deadline, true, func(ctx context.Context) (bool, error) {
		done, err := f(ctx)
		last = err
		return done && err == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
