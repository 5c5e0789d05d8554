package main

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Bounds of a label selector, without which the API server finds its rule too dear.
const (
	maxLabels      = 64
	maxExpressions = 64
	maxValues      = 256
	// maxLabelKey is a prefix of 253 characters, a slash and a name of 63.
	maxLabelKey   = 317
	maxLabelValue = 63
)

// Shapes of the keys and values of labels.
const (
	labelKey = `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?` +
		`[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	labelValue = `^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
)

// checkSelectors makes the schema of a Run refuse label selectors that can never be valid: a Run with one would wait for ever.
func checkSelectors(run *apiextensionsv1.JSONSchemaProps) error {
	affinity := run.Properties["spec"].Properties["affinity"]
	for _, direction := range []string{"runAffinity", "runAntiAffinity"} {
		rules := affinity.Properties[direction]
		required := rules.Properties["requiredDuringSchedulingIgnoredDuringExecution"]
		preferred := rules.Properties["preferredDuringSchedulingIgnoredDuringExecution"]
		if required.Items == nil || preferred.Items == nil {
			return fmt.Errorf("the schema of spec.affinity has no %s", direction)
		}
		for _, term := range []apiextensionsv1.JSONSchemaProps{*required.Items.Schema, preferred.Items.Schema.Properties["runAffinityTerm"]} {
			selector, ok := term.Properties["labelSelector"]
			if !ok {
				return fmt.Errorf("a term of %s has no labelSelector", direction)
			}
			if err := checkSelector(selector); err != nil {
				return fmt.Errorf("labelSelector of %s: %w", direction, err)
			}
			term.Properties["labelSelector"] = selector
		}
	}
	return nil
}

// checkSelector changes the fields of a label selector's schema, which all lie behind pointers and maps.
func checkSelector(selector apiextensionsv1.JSONSchemaProps) error {
	labels, expressions := selector.Properties["matchLabels"], selector.Properties["matchExpressions"]
	if labels.AdditionalProperties == nil || expressions.Items == nil {
		return fmt.Errorf("matchLabels or matchExpressions is missing")
	}
	labels.MaxProperties = new(int64(maxLabels))
	isLabelValue(labels.AdditionalProperties.Schema)
	selector.Properties["matchLabels"] = labels

	expressions.MaxItems = new(int64(maxExpressions))
	one := expressions.Items.Schema
	one.XValidations = apiextensionsv1.ValidationRules{{
		Rule:    "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
		Message: "values must be given with the operators In and NotIn, and only with them",
	}}
	key, operator, values := one.Properties["key"], one.Properties["operator"], one.Properties["values"]
	key.MaxLength, key.Pattern = new(int64(maxLabelKey)), labelKey
	for _, name := range []string{"In", "NotIn", "Exists", "DoesNotExist"} {
		raw, err := json.Marshal(name)
		if err != nil {
			return err
		}
		operator.Enum = append(operator.Enum, apiextensionsv1.JSON{Raw: raw})
	}
	values.MaxItems = new(int64(maxValues))
	isLabelValue(values.Items.Schema)
	one.Properties["key"], one.Properties["operator"], one.Properties["values"] = key, operator, values
	selector.Properties["matchExpressions"] = expressions
	return nil
}

func isLabelValue(text *apiextensionsv1.JSONSchemaProps) {
	text.MaxLength, text.Pattern = new(int64(maxLabelValue)), labelValue
}
