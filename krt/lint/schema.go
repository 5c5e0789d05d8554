package lint

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	sigsyaml "sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/workflow/suggest"
)

// definition checks objects of one kind as the API server does.
type definition struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// knownKinds are the definitions of all kinds, which are read when one is needed first and compiled one by one.
type knownKinds struct {
	kinds map[schema.GroupVersionKind]func() (*definition, error)
}

var loadDefinitions = sync.OnceValues(func() (*knownKinds, error) {
	documents, err := devcluster.Definitions()
	if err != nil {
		return nil, err
	}
	all := &knownKinds{kinds: map[schema.GroupVersionKind]func() (*definition, error){}}
	for _, document := range documents {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := sigsyaml.Unmarshal(document, &crd); err != nil {
			return nil, fmt.Errorf("decoding a definition: %w", err)
		}
		for _, version := range crd.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			all.kinds[gvk] = sync.OnceValues(func() (*definition, error) { return compile(version.Schema.OpenAPIV3Schema) })
		}
	}
	return all, nil
})

func compile(props *apiextensionsv1.JSONSchemaProps) (*definition, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		return nil, fmt.Errorf("converting a schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil, fmt.Errorf("understanding a schema: %w", err)
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, fmt.Errorf("compiling a schema: %w", err)
	}
	return &definition{
		structural: structural, schema: validator, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// check returns what the API server would refuse when the object was created.
func (d *definition) check(ctx context.Context, u *unstructured.Unstructured) field.ErrorList {
	object := u.DeepCopy().Object
	defaulting.Default(object, d.structural)
	errs := validation.ValidateCustomResource(nil, object, d.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if d.rules == nil || slices.ContainsFunc(errs, isBlocking) {
		return errs
	}
	broken, _ := d.rules.Validate(ctx, nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}

// isBlocking tells whether an error keeps rules from being evaluated, as it does in the API server.
func isBlocking(e *field.Error) bool {
	switch e.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return strings.Contains(e.Detail, " in body must be of type ")
}

// unknownFields finds the fields of a document that the schema does not have.
func (d *definition) unknownFields(doc *Document) []Finding {
	var findings []Finding
	for i := 0; i+1 < len(doc.root.Content); i += 2 {
		key, value := doc.root.Content[i], doc.root.Content[i+1]
		known, isKnown := d.structural.Properties[key.Value]
		switch {
		case key.Value == "apiVersion" || key.Value == "kind":
		case key.Value == "metadata":
			findings = append(findings, doc.unknownIn(value, metadataFields())...)
		case !isKnown:
			findings = append(findings, doc.unknown(key, slices.Collect(maps.Keys(d.structural.Properties))))
		default:
			findings = append(findings, doc.unknownBelow(value, &known)...)
		}
	}
	return findings
}

// unknownBelow compares a node and all below it with their schema.
func (d *Document) unknownBelow(n *yaml.Node, s *structuralschema.Structural) []Finding {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	var findings []Finding
	switch {
	case s == nil || s.XPreserveUnknownFields:
	case n.Kind == yaml.SequenceNode && s.Items != nil:
		for _, item := range n.Content {
			findings = append(findings, d.unknownBelow(item, s.Items)...)
		}
	case n.Kind == yaml.MappingNode && s.AdditionalProperties != nil:
		for i := 1; i < len(n.Content); i += 2 {
			findings = append(findings, d.unknownBelow(n.Content[i], s.AdditionalProperties.Structural)...)
		}
	case n.Kind == yaml.MappingNode && s.Type == "object":
		for i := 0; i+1 < len(n.Content); i += 2 {
			known, isKnown := s.Properties[n.Content[i].Value]
			switch {
			case n.Content[i].Value == "<<":
			case isKnown:
				findings = append(findings, d.unknownBelow(n.Content[i+1], &known)...)
			default:
				findings = append(findings, d.unknown(n.Content[i], slices.Collect(maps.Keys(s.Properties))))
			}
		}
	}
	return findings
}

// unknownIn compares the keys of a mapping with those that it may have.
func (d *Document) unknownIn(n *yaml.Node, known []string) []Finding {
	var findings []Finding
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Value != "<<" && !slices.Contains(known, key.Value) {
			findings = append(findings, d.unknown(key, known))
		}
	}
	return findings
}

func (d *Document) unknown(key *yaml.Node, known []string) Finding {
	hint := suggest.DidYouMean(key.Value, slices.Values(known))
	if hint == "" && len(known) > 0 && len(known) <= manyFields {
		slices.Sort(known)
		hint = ": the fields here are " + strings.Join(known, ", ")
	}
	return d.at(key, fmt.Sprintf("unknown field %q%s", key.Value, hint))
}

// manyFields is up to how many fields are listed to a person who wrote another.
const manyFields = 12

// metadataFields are the fields of metadata, which no schema lists.
var metadataFields = sync.OnceValue(func() []string {
	var names []string
	for f := range reflect.TypeFor[metav1.ObjectMeta]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
})
