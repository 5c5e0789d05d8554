// Command crds finishes the CRDs that controller-gen writes, in place.
//
// It does five things that no marker can. It removes the descriptions below embedded Kubernetes types (the Pod template
// and the volume source of a Runtime), because the annotations of an object together may hold 262,144 bytes and
// client-side "kubectl apply" keeps the whole object in one of them. It bounds spec.workspace of a Runtime to one volume
// source. It forbids mounts in its template that are reserved (mounts.go). It refuses label selectors in the affinity of a
// Run that can never be valid (selectors.go). And it refuses values that no component could decode (decodable.go). A CRD above the limit of size is an error.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// maxBytes leaves room for other annotations below the 262,144 bytes that an object may carry.
const maxBytes = 250_000

func main() {
	for _, path := range os.Args[1:] {
		if err := finish(path); err != nil {
			fmt.Fprintf(os.Stderr, "finishing %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func finish(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		return err
	}
	var typed apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(raw, &typed); err != nil {
		return err
	}
	for i := range typed.Spec.Versions {
		kind, schema := typed.Spec.Names.Kind, typed.Spec.Versions[i].Schema.OpenAPIV3Schema
		if finishKind := map[string]func(*apiextensionsv1.JSONSchemaProps) error{"Run": checkSelectors, "Runtime": finishRuntime}[kind]; finishKind != nil {
			if err := finishKind(schema); err != nil {
				return err
			}
		}
		goType, ok := kinds[kind]
		if !ok {
			return fmt.Errorf("the Go type of kind %s is not known", kind)
		}
		if err := makeDecodable(schema, goType); err != nil {
			return err
		}
	}
	// Only the versions come from the typed form, which would add an empty status and creationTimestamp of its own.
	spec, ok := crd["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("spec is missing")
	}
	spec["versions"] = typed.Spec.Versions
	compact, err := json.Marshal(crd)
	if err != nil {
		return err
	}
	if len(compact) > maxBytes {
		return fmt.Errorf("%d bytes as compact JSON, more than %d: strip more descriptions", len(compact), maxBytes)
	}
	out, err := yaml.JSONToYAML(compact)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte("---\n"), out...), 0o644)
}

func finishRuntime(schema *apiextensionsv1.JSONSchemaProps) error {
	spec := schema.Properties["spec"]
	one := int64(1)
	for _, name := range []string{"template", "workspace"} {
		field := spec.Properties[name]
		description := field.Description
		strip(&field)
		field.Description = description
		if name == "workspace" {
			field.MaxProperties = &one
		}
		spec.Properties[name] = field
	}
	if err := reserveMounts(spec.Properties["template"]); err != nil {
		return err
	}
	schema.Properties["spec"] = spec
	return nil
}

// strip removes the descriptions of s and of all below it.
func strip(s *apiextensionsv1.JSONSchemaProps) {
	s.Description = ""
	for name, p := range s.Properties {
		strip(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		strip(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		strip(s.AdditionalProperties.Schema)
	}
}
