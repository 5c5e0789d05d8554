package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/config"
)

// hostile are values, as JSON, that a schema may take for a time, a quantity, a port, a number or a duration.
var hostile = []string{
	`"2026-07-06t12:00:00.000000z"`, `"2026-07-06T12:00:00Z"`, `"2026-07-06T12:00:00.5Z"`, `"2026-07-06T12:00:00.000000Z"`, `"2026-07-06T12:00:00x000000Z"`,
	`"2026-07-06T12:00:00.000000Ztjunk"`, `"2026-07-06T12:00:00.000000+99:99"`, `"2026-07-06T12:00:00+24:00"`, `"2026-07-06T12:00:00.000000-23:59"`,
	`"2026-07-06T24:00:00Z"`, `"2026-07-06T12:00:60Z"`, `"2026-02-30T12:00:00Z"`, `"0000-01-01T00:00:00Z"`, `"2026-07-06"`,
	`"1e1.5"`, `"1e99999999999999999999"`, `"1e999999999"`, `"1e-999999999"`, `"1e99"`, `"1e-99"`, `"1E"`, `"1Ee1"`, `"1."`, `".5"`, `"+1"`, `"-1"`, `"."`, `"+"`, `""`,
	`"1ki"`, `"1Ki"`, `"1mm"`, `"1,5"`, `"٣"`, `"123456789012345678901234567890"`,
	`99999999999`, `-99999999999`, `9223372036854775807`, `9223372036854775808`, `1e30`, `-1e30`, `1.5`, `0`, `true`, `{}`, `[]`,
	`"1` + strings.Repeat("0", 100_000) + `"`, `"0.` + strings.Repeat("0", 100_000) + `1"`, `".` + strings.Repeat("9", 100_000) + `"`, `"` + strings.Repeat("9", 100_000) + `"`,
	`"2026-07-06T12:00:00.` + strings.Repeat("0", 100_000) + `Z"`, `"` + strings.Repeat("0", 100_000) + `1s"`,
	`"99999999999h"`, `"1y"`, `"-1h"`, `"1e3s"`, `"٣s"`, `"1h1"`, `"9223372036854775807ns"`, `"1µs"`, `"x"`,
}

// TestWhatTheSchemaTakesCanBeDecoded puts each value into each field, by itself.
func TestWhatTheSchemaTakesCanBeDecoded(t *testing.T) {
	definitions, err := config.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, text := range definitions {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			kind := crd.Spec.Names.Kind
			forEachLeaf(version.Schema.OpenAPIV3Schema, kind, func(value string) string { return value }, func(at string, leaf *apiextensionsv1.JSONSchemaProps, wrap func(string) string) {
				takes := newTaker(t, leaf)
				for _, value := range hostile {
					if !takes(value) {
						continue
					}
					taken++
					if err := again([]byte(wrap(value)), kinds[kind]); err != nil {
						t.Errorf("%s takes %.100s, which components cannot use: %v", at, value, err)
					}
				}
			})
		}
	}
	if taken == 0 {
		t.Error("no field takes any value")
	}
}

// again decodes and encodes an object, as components do all the time. Each takes microseconds, a thousand times less than is allowed.
func again(text []byte, kind reflect.Type) error {
	began := time.Now()
	object := reflect.New(kind).Interface()
	if err := json.Unmarshal(text, object); err != nil {
		return err
	}
	if _, err := json.Marshal(object); err != nil {
		return err
	}
	if took := time.Since(began); took > time.Second {
		return fmt.Errorf("it took %s", took)
	}
	return nil
}

// forEachLeaf calls do for each field without fields. The function wrap puts a value for it into an object.
func forEachLeaf(s *apiextensionsv1.JSONSchemaProps, at string, wrap func(string) string, do func(string, *apiextensionsv1.JSONSchemaProps, func(string) string)) {
	below := func(s *apiextensionsv1.JSONSchemaProps, name, open, end string) {
		forEachLeaf(s, path.Join(at, name), func(value string) string { return wrap(open + value + end) }, do)
	}
	switch {
	case len(s.Properties) > 0:
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			below(new(s.Properties[name]), name, "{"+strconv.Quote(name)+":", "}")
		}
	case s.Items != nil:
		below(s.Items.Schema, "0", "[", "]")
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		below(s.AdditionalProperties.Schema, "x", `{"x":`, "}")
	default:
		do(at, s, wrap)
	}
}

// newTaker returns whether a value is valid as the API server sees it, by the schema and the rules of the field itself.
func newTaker(t *testing.T, leaf *apiextensionsv1.JSONSchemaProps) func(value string) bool {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(leaf, internal, nil); err != nil {
		t.Fatal(err)
	}
	schema, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	rules := cel.NewValidator(structural, false, celconfig.PerCallLimit)
	return func(text string) bool {
		var value any
		if err := utiljson.Unmarshal([]byte(text), &value); err != nil {
			panic(fmt.Errorf("%s: %w", text, err)) // one of ours
		}
		if len(validation.ValidateCustomResource(nil, value, schema)) > 0 {
			return false
		}
		errs, _ := rules.Validate(t.Context(), nil, structural, value, nil, celconfig.RuntimeCELCostBudget)
		return len(errs) == 0
	}
}
