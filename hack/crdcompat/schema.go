package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// A schema is that of one value.
type schema = apiextensionsv1.JSONSchemaProps

// compareSchemas returns what an object that was valid at path, or whoever reads it, could stumble over. Looser bounds, new
// optional fields and dropped rules are none of that.
func compareSchemas(path string, old, now *schema) (breaks []string) {
	add := func(format string, args ...any) {
		breaks = append(breaks, fmt.Sprintf("%s: %s", cmp.Or(path, "."), fmt.Sprintf(format, args...)))
	}
	if old.Type != now.Type {
		add("the type was %q and is %q", old.Type, now.Type)
		return breaks
	}
	for _, text := range slices.Concat(compareForms(old, now), compareValues(old, now), compareBounds(old, now), compareRules(old, now)) {
		add("%s", text)
	}
	for _, name := range sortedKeys(old.Properties) {
		former := old.Properties[name]
		current, ok := now.Properties[name]
		if !ok {
			if !ptr.Deref(now.XPreserveUnknownFields, false) {
				breaks = append(breaks, fmt.Sprintf("%s.%s: the field is gone", path, name))
			}
			continue
		}
		breaks = append(breaks, compareSchemas(path+"."+name, &former, &current)...)
	}
	for _, name := range missing(now.Required, old.Required) {
		if property := now.Properties[name]; property.Default == nil {
			breaks = append(breaks, fmt.Sprintf("%s.%s: the field became required", path, name))
		}
	}
	return append(breaks, compareElements(path, old, now)...)
}

// compareElements compares the items of a list and the values of a map.
func compareElements(path string, old, now *schema) (breaks []string) {
	for what, element := range map[string][2]*schema{
		"[*]": {itemsOf(old), itemsOf(now)}, "{*}": {valuesOf(old), valuesOf(now)},
	} {
		switch {
		case element[0] == nil:
		case element[1] == nil:
			breaks = append(breaks, path+what+": the schema is gone")
		default:
			breaks = append(breaks, compareSchemas(path+what, element[0], element[1])...)
		}
	}
	return breaks
}

func itemsOf(s *schema) *schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

func valuesOf(s *schema) *schema {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

// compareForms compares what shapes a value and how it is merged.
func compareForms(old, now *schema) (breaks []string) {
	add := func(format string, args ...any) { breaks = append(breaks, fmt.Sprintf(format, args...)) }
	if old.Format != now.Format {
		add("the format was %q and is %q", old.Format, now.Format)
	}
	if old.Nullable && !now.Nullable {
		add("null is refused")
	}
	if ptr.Deref(old.XPreserveUnknownFields, false) && !ptr.Deref(now.XPreserveUnknownFields, false) {
		add("unknown fields are dropped")
	}
	for what, values := range map[string][2]any{
		"x-kubernetes-embedded-resource": {old.XEmbeddedResource, now.XEmbeddedResource},
		"x-kubernetes-int-or-string":     {old.XIntOrString, now.XIntOrString},
		"x-kubernetes-list-type":         {old.XListType, now.XListType},
		"x-kubernetes-list-map-keys":     {old.XListMapKeys, now.XListMapKeys},
		"x-kubernetes-map-type":          {old.XMapType, now.XMapType},
	} {
		if !equal(values[0], values[1]) {
			add("%s was %s and is %s", what, asJSON(values[0]), asJSON(values[1]))
		}
	}
	if len(old.Properties) > 0 && len(now.Properties) == 0 && now.AdditionalProperties != nil {
		add("the object became a map")
	}
	slices.Sort(breaks)
	return breaks
}

// compareValues compares which values are there to choose from, and which one nothing means.
func compareValues(old, now *schema) (breaks []string) {
	add := func(format string, args ...any) { breaks = append(breaks, fmt.Sprintf(format, args...)) }
	values := func(list []apiextensionsv1.JSON) (texts []string) {
		for _, v := range list {
			texts = append(texts, string(v.Raw))
		}
		return texts
	}
	switch {
	case len(now.Enum) == 0:
	case len(old.Enum) == 0:
		add("only the values %v are left", values(now.Enum))
	default:
		for _, gone := range missing(values(old.Enum), values(now.Enum)) {
			add("value %s is gone", gone)
		}
	}
	if old.Default != nil && !equal(old.Default, now.Default) {
		add("the default was %s and is %s", asJSON(old.Default), asJSON(now.Default))
	}
	return breaks
}

// compareBounds compares what is counted and measured: a bound may be loosened and taken away.
func compareBounds(old, now *schema) (breaks []string) {
	for what, bound := range map[string][2]*int64{
		"maxLength": {old.MaxLength, now.MaxLength}, "maxItems": {old.MaxItems, now.MaxItems}, "maxProperties": {old.MaxProperties, now.MaxProperties},
	} {
		breaks = appendNarrowed(breaks, what, bound[0], bound[1], func(old, now int64) bool { return now < old })
	}
	for what, bound := range map[string][2]*int64{
		"minLength": {old.MinLength, now.MinLength}, "minItems": {old.MinItems, now.MinItems}, "minProperties": {old.MinProperties, now.MinProperties},
	} {
		breaks = appendNarrowed(breaks, what, bound[0], bound[1], func(old, now int64) bool { return now > old })
	}
	breaks = appendNarrowed(breaks, "maximum", old.Maximum, now.Maximum, func(old, now float64) bool { return now < old })
	breaks = appendNarrowed(breaks, "minimum", old.Minimum, now.Minimum, func(old, now float64) bool { return now > old })
	breaks = appendNarrowed(breaks, "multipleOf", old.MultipleOf, now.MultipleOf, func(old, now float64) bool { return now != old })
	if now.ExclusiveMaximum && !old.ExclusiveMaximum || now.ExclusiveMinimum && !old.ExclusiveMinimum {
		breaks = append(breaks, "the bound itself is refused")
	}
	if now.UniqueItems && !old.UniqueItems {
		breaks = append(breaks, "items may not be the same any more")
	}
	if now.Pattern != "" && now.Pattern != old.Pattern {
		breaks = append(breaks, fmt.Sprintf("the pattern was %q and is %q", old.Pattern, now.Pattern))
	}
	slices.Sort(breaks)
	return breaks
}

// appendNarrowed adds a line where a bound appeared, or is narrower than it was.
func appendNarrowed[N int64 | float64](breaks []string, what string, old, now *N, isNarrower func(old, now N) bool) []string {
	switch {
	case now == nil:
		return breaks
	case old == nil && strictlyNothing(what, *now):
		return breaks
	case old == nil:
		return append(breaks, fmt.Sprintf("%s became %v", what, *now))
	case isNarrower(*old, *now):
		return append(breaks, fmt.Sprintf("%s was %v and is %v", what, *old, *now))
	}
	return breaks
}

// strictlyNothing tells whether a bound refuses nothing: a length of at least none.
func strictlyNothing[N int64 | float64](what string, now N) bool {
	return now == 0 && (what == "minLength" || what == "minItems" || what == "minProperties")
}

// compareRules compares rules in CEL, and what is combined of schemas. A rule that appeared or reads otherwise could refuse
// what was valid: nobody can tell by looking at its text.
func compareRules(old, now *schema) (breaks []string) {
	var before, after []string
	for _, rule := range old.XValidations {
		before = append(before, rule.Rule)
	}
	for _, rule := range now.XValidations {
		after = append(after, rule.Rule)
	}
	for _, rule := range missing(after, before) {
		breaks = append(breaks, "a rule was added: "+rule)
	}
	if !equal(old.AllOf, now.AllOf) || !equal(old.AnyOf, now.AnyOf) || !equal(old.OneOf, now.OneOf) || !equal(old.Not, now.Not) {
		breaks = append(breaks, "allOf, anyOf, oneOf or not has changed")
	}
	return breaks
}

// equal compares two values, in whatever order their fields are written.
func equal(a, b any) bool {
	var left, right any
	if json.Unmarshal([]byte(asJSON(a)), &left) != nil || json.Unmarshal([]byte(asJSON(b)), &right) != nil {
		return false
	}
	return reflect.DeepEqual(left, right)
}

func asJSON(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
