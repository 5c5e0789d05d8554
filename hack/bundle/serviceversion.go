package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// manager is the Deployment that answers the API server.
const manager = "kruntimes-manager"

// semantic matches a semantic version.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// serviceVersion completes the base.
func serviceVersion(in input, p *parts, r release) (*unstructured.Unstructured, error) {
	if !semantic.MatchString(r.version) {
		return nil, fmt.Errorf("--version: %q is no semantic version", r.version)
	}
	if err := checkOwned(in.base, p.objects); err != nil {
		return nil, err
	}
	csv := in.base.DeepCopy()
	csv.SetName("kruntimes.v" + r.version)
	annotations := csv.GetAnnotations()
	examples, err := examplesOf(in.samples)
	if err != nil {
		return nil, err
	}
	annotations["alm-examples"] = examples
	images, err := imagesOf(p.deployments)
	if err != nil {
		return nil, err
	}
	annotations["containerImage"] = images["controlplane"]
	if r.skipRange != "" {
		annotations["olm.skipRange"] = r.skipRange
	}
	csv.SetAnnotations(annotations)
	spec := csv.Object["spec"].(map[string]any)
	spec["version"] = r.version
	if r.replaces != "" {
		spec["replaces"] = r.replaces
	}
	spec["icon"] = []any{map[string]any{"base64data": base64.StdEncoding.EncodeToString(in.icon), "mediatype": "image/svg+xml"}}
	related := []any{}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		related = append(related, map[string]any{"name": name, "image": images[name]})
	}
	spec["relatedImages"] = related
	spec["webhookdefinitions"] = p.webhooks
	spec["install"] = map[string]any{"strategy": "deployment", "spec": map[string]any{
		"deployments": deploymentsOf(p.deployments), "permissions": rightsOf(p.permissions), "clusterPermissions": rightsOf(p.clusterPermissions),
	}}
	return csv, nil
}

// checkOwned holds the kinds that the base describes against those that are installed.
func checkOwned(base *unstructured.Unstructured, objects []*unstructured.Unstructured) error {
	owned, _, err := unstructured.NestedSlice(base.Object, "spec", "customresourcedefinitions", "owned")
	if err != nil {
		return fmt.Errorf("reading the owned kinds: %w", err)
	}
	described, installed := []string{}, []string{}
	for _, kind := range owned {
		name, _, _ := unstructured.NestedString(kind.(map[string]any), "name")
		described = append(described, name)
	}
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			installed = append(installed, object.GetName())
		}
	}
	slices.Sort(described)
	slices.Sort(installed)
	if !slices.Equal(described, installed) {
		return fmt.Errorf("described are the kinds %v, installed %v", described, installed)
	}
	return nil
}

// examplesOf is a list of the samples, as JSON that people can read.
func examplesOf(samples []*unstructured.Unstructured) (string, error) {
	list := make([]any, len(samples))
	for i, sample := range samples {
		list[i] = sample.Object
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(list); err != nil {
		return "", fmt.Errorf("encoding the samples: %w", err)
	}
	return strings.TrimSpace(out.String()), nil
}

// imagesOf are the images that an installation needs: those of the containers, and the one that the manager hands on.
func imagesOf(deployments []*unstructured.Unstructured) (map[string]string, error) {
	images := map[string]string{}
	for _, deployment := range deployments {
		containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
		if err != nil {
			return nil, fmt.Errorf("reading Deployment %s: %w", deployment.GetName(), err)
		}
		for _, container := range containers {
			image, _, _ := unstructured.NestedString(container.(map[string]any), "image")
			images["controlplane"] = image
			env, _, _ := unstructured.NestedSlice(container.(map[string]any), "env")
			for _, variable := range env {
				if name, _, _ := unstructured.NestedString(variable.(map[string]any), "name"); name == "NODE_IMAGE" {
					images["node"], _, _ = unstructured.NestedString(variable.(map[string]any), "value")
				}
			}
		}
	}
	if len(images) != 2 {
		return nil, fmt.Errorf("want the images of control plane and node, found %v", images)
	}
	return images, nil
}

func deploymentsOf(deployments []*unstructured.Unstructured) []any {
	list := []any{}
	for _, deployment := range deployments {
		labels := map[string]any{}
		for key, value := range deployment.GetLabels() {
			labels[key] = value
		}
		list = append(list, map[string]any{"name": deployment.GetName(), "label": labels, "spec": deployment.Object["spec"]})
	}
	return list
}

func rightsOf(rulesByAccount map[string][]any) []any {
	list := []any{}
	for _, account := range slices.Sorted(maps.Keys(rulesByAccount)) {
		list = append(list, map[string]any{"serviceAccountName": account, "rules": rulesByAccount[account]})
	}
	return list
}
