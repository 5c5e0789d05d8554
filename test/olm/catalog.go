package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/operator-framework/api/crds"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/install"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver"
	"github.com/operator-framework/operator-registry/pkg/api"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// group names the OperatorGroup, and what the objects of OLM belong to.
const (
	group        = "kruntimes"
	operatorsV1  = "operators.coreos.com/v1"
	operatorsV1a = "operators.coreos.com/v1alpha1"
)

// catalog installs into a cluster.
type catalog struct{ client client.Client }

// crds creates the kinds of OLM and waits until they are served.
func (c *catalog) crds(ctx context.Context) error {
	for _, definition := range []*apiextensionsv1.CustomResourceDefinition{crds.CatalogSource(), crds.ClusterServiceVersion(), crds.InstallPlan(),
		crds.OLMConfig(), crds.Operator(), crds.OperatorCondition(), crds.OperatorGroup(), crds.Subscription()} {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(definition)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", definition.Name, err)
		}
		made := &unstructured.Unstructured{Object: raw}
		made.SetAPIVersion("apiextensions.k8s.io/v1")
		made.SetKind("CustomResourceDefinition")
		if err := c.create(ctx, made); err != nil {
			return err
		}
		if err := c.established(ctx, definition.Name); err != nil {
			return err
		}
	}
	// The operator wants one to be there.
	return c.create(ctx, object(operatorsV1, "OLMConfig", "", "cluster"))
}

func (c *catalog) established(ctx context.Context, name string) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		live := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name)
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, condition := range conditions {
			if one, ok := condition.(map[string]any); ok && one["type"] == "Established" && one["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be served: %w", name, err)
	}
	return nil
}

// create creates what is not there.
func (c *catalog) create(ctx context.Context, made *unstructured.Unstructured) error {
	if err := c.client.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s %s: %w", made.GetKind(), made.GetName(), err)
	}
	return nil
}

// install creates everything, in the order of an InstallPlan: first the kinds, then the ClusterServiceVersion, then what it owns.
func (c *catalog) install(ctx context.Context, namespace, dir string) error {
	steps, err := stepsOf(namespace, dir)
	if err != nil {
		return err
	}
	operatorGroup := object(operatorsV1, "OperatorGroup", namespace, group)
	operatorGroup.Object["spec"] = map[string]any{"upgradeStrategy": "Default"}
	for _, first := range []*unstructured.Unstructured{object("v1", "Namespace", "", namespace), operatorGroup} {
		if err := c.create(ctx, first); err != nil {
			return err
		}
	}
	for _, turn := range []func(kind string) bool{
		func(kind string) bool { return kind == "CustomResourceDefinition" },
		func(kind string) bool { return kind == v1alpha1.ClusterServiceVersionKind },
		func(kind string) bool {
			return kind != "CustomResourceDefinition" && kind != v1alpha1.ClusterServiceVersionKind
		},
	} {
		for _, step := range steps {
			if !turn(step.GetKind()) {
				continue
			}
			if err := c.carryOut(ctx, step, namespace); err != nil {
				return err
			}
		}
	}
	return nil
}

// stepsOf are the objects of a bundle, and the ServiceAccounts and roles that OLM makes for it.
func stepsOf(namespace, dir string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(dir, "manifests", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("no manifests are in %s", dir), err)
	}
	bundle := &api.Bundle{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		manifest, err := yaml.YAMLToJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		bundle.Object = append(bundle.Object, string(manifest))
		var csv v1alpha1.ClusterServiceVersion
		if err := json.Unmarshal(manifest, &csv); err == nil && csv.Kind == v1alpha1.ClusterServiceVersionKind {
			bundle.CsvName, bundle.CsvJson = csv.Name, string(manifest)
		}
	}
	resources, err := resolver.NewStepResourceFromBundle(bundle, namespace, "", "directory", namespace)
	if err != nil {
		return nil, fmt.Errorf("planning the installation: %w", err)
	}
	steps := make([]*unstructured.Unstructured, len(resources))
	for i, resource := range resources {
		// What OLM makes itself says its kind beside the manifest only.
		steps[i] = &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(resource.Manifest), &steps[i].Object); err != nil {
			return nil, fmt.Errorf("decoding %s %s: %w", resource.Kind, resource.Name, err)
		}
		steps[i].SetGroupVersionKind(schema.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: resource.Kind})
	}
	return steps, nil
}

// clusterScoped are the kinds of bundles that have no namespace.
var clusterScoped = map[string]bool{"CustomResourceDefinition": true, "ClusterRole": true, "ClusterRoleBinding": true}

// carryOut creates one object, labelled and owned as the catalog operator does it.
func (c *catalog) carryOut(ctx context.Context, step *unstructured.Unstructured, namespace string) error {
	step.SetNamespace(namespace)
	if clusterScoped[step.GetKind()] {
		step.SetNamespace("")
	}
	labels := step.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[install.OLMManagedLabelKey] = install.OLMManagedLabelValue
	step.SetLabels(labels)
	references := step.GetOwnerReferences()
	for i := range references {
		owner := object(operatorsV1a, references[i].Kind, namespace, references[i].Name)
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(owner), owner); err != nil {
			return fmt.Errorf("reading the owner of %s %s: %w", step.GetKind(), step.GetName(), err)
		}
		references[i].UID = owner.GetUID()
	}
	step.SetOwnerReferences(references)
	if err := c.create(ctx, step); err != nil {
		return err
	}
	if step.GetKind() == "CustomResourceDefinition" {
		return c.established(ctx, step.GetName())
	}
	return nil
}

// uninstall deletes what people delete, and waits until it is gone: OLM has a finalizer on ClusterServiceVersions.
func (c *catalog) uninstall(ctx context.Context, namespace string) error {
	for _, kind := range []string{operatorsV1a + "/" + v1alpha1.ClusterServiceVersionKind, operatorsV1 + "/OperatorGroup"} {
		apiVersion, kind := filepath.Split(kind)
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(filepath.Clean(apiVersion))
		list.SetKind(kind + "List")
		err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			if err := c.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return false, err
			}
			for i := range list.Items {
				if err := client.IgnoreNotFound(c.client.Delete(ctx, &list.Items[i])); err != nil {
					return false, err
				}
			}
			return len(list.Items) == 0, nil
		})
		if err != nil {
			return fmt.Errorf("deleting the %ss of %s: %w", kind, namespace, err)
		}
	}
	return nil
}
