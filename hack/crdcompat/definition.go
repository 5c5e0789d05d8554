package main

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// A definition is a CustomResourceDefinition.
type definition = apiextensionsv1.CustomResourceDefinition

// compareAll returns what the definitions of now break of those that were released, sorted.
func compareAll(released, now []*definition) (breaks []string) {
	byName := map[string]*definition{}
	for _, d := range now {
		byName[d.Name] = d
	}
	for _, old := range released {
		current, ok := byName[old.Name]
		if !ok {
			breaks = append(breaks, old.Name+": the definition is gone")
			continue
		}
		breaks = append(breaks, compareDefinitions(old, current)...)
	}
	slices.Sort(breaks)
	return breaks
}

// compareDefinitions returns what breaks, each with the name of the definition in front.
func compareDefinitions(old, now *definition) (breaks []string) {
	add := func(format string, args ...any) { breaks = append(breaks, old.Name+": "+fmt.Sprintf(format, args...)) }
	for what, values := range map[string][2]string{
		"group": {old.Spec.Group, now.Spec.Group}, "scope": {string(old.Spec.Scope), string(now.Spec.Scope)},
		"kind": {old.Spec.Names.Kind, now.Spec.Names.Kind}, "list kind": {old.Spec.Names.ListKind, now.Spec.Names.ListKind},
		"plural": {old.Spec.Names.Plural, now.Spec.Names.Plural}, "singular": {old.Spec.Names.Singular, now.Spec.Names.Singular},
	} {
		if values[0] != values[1] {
			add("the %s was %s and is %s", what, values[0], values[1])
		}
	}
	for _, name := range missing(old.Spec.Names.ShortNames, now.Spec.Names.ShortNames) {
		add("short name %s is gone", name)
	}
	for _, name := range missing(old.Spec.Names.Categories, now.Spec.Names.Categories) {
		add("category %s is gone", name)
	}
	versions := map[string]apiextensionsv1.CustomResourceDefinitionVersion{}
	for _, v := range now.Spec.Versions {
		versions[v.Name] = v
	}
	for _, v := range old.Spec.Versions {
		current, ok := versions[v.Name]
		switch {
		case !ok:
			add("version %s is gone", v.Name)
		case v.Served && !current.Served:
			add("version %s is served no more", v.Name)
		default:
			for _, b := range compareVersions(v, current) {
				add("%s: %s", v.Name, b)
			}
		}
	}
	return breaks
}

// compareVersions returns what breaks in one version.
func compareVersions(old, now apiextensionsv1.CustomResourceDefinitionVersion) (breaks []string) {
	breaks = append(compareSubresources(old.Subresources, now.Subresources), compareReading(old, now)...)
	if old.Schema == nil || old.Schema.OpenAPIV3Schema == nil {
		return breaks
	}
	if now.Schema == nil || now.Schema.OpenAPIV3Schema == nil {
		return append(breaks, "the schema is gone")
	}
	return append(breaks, compareSchemas("", old.Schema.OpenAPIV3Schema, now.Schema.OpenAPIV3Schema)...)
}

func compareSubresources(old, now *apiextensionsv1.CustomResourceSubresources) (breaks []string) {
	before, after := ptr.Deref(old, apiextensionsv1.CustomResourceSubresources{}), ptr.Deref(now, apiextensionsv1.CustomResourceSubresources{})
	switch {
	case before.Status != nil && after.Status == nil:
		breaks = append(breaks, "subresource status is gone")
	case before.Status == nil && after.Status != nil:
		breaks = append(breaks, "the status became a subresource: who writes it with the object no longer does")
	}
	if before.Scale != nil && !equal(before.Scale, after.Scale) {
		breaks = append(breaks, "subresource scale is gone or changed")
	}
	return breaks
}

// compareReading compares what lists are selected and printed by.
func compareReading(old, now apiextensionsv1.CustomResourceDefinitionVersion) (breaks []string) {
	var before, after []string
	for _, f := range old.SelectableFields {
		before = append(before, f.JSONPath)
	}
	for _, f := range now.SelectableFields {
		after = append(after, f.JSONPath)
	}
	for _, path := range missing(before, after) {
		breaks = append(breaks, path+" can be selected no more")
	}
	columns := map[string]apiextensionsv1.CustomResourceColumnDefinition{}
	for _, c := range now.AdditionalPrinterColumns {
		columns[c.Name] = c
	}
	for _, c := range old.AdditionalPrinterColumns {
		current, ok := columns[c.Name]
		switch {
		case !ok:
			breaks = append(breaks, fmt.Sprintf("column %s is gone", c.Name))
		case c.Type != current.Type || c.JSONPath != current.JSONPath:
			breaks = append(breaks, fmt.Sprintf("column %s was %s of type %s and is %s of type %s", c.Name, c.JSONPath, c.Type, current.JSONPath, current.Type))
		}
	}
	return breaks
}

// missing returns what is in old and not in now.
func missing(old, now []string) (gone []string) {
	set := map[string]bool{}
	for _, name := range now {
		set[name] = true
	}
	for _, name := range old {
		if !set[name] {
			gone = append(gone, name)
		}
	}
	return gone
}

// sortedKeys returns the keys of a map in their order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
