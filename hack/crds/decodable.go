package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// kinds are the Go types of the kinds.
var kinds = map[string]reflect.Type{
	"Run": reflect.TypeFor[corev1alpha1.Run](), "Runtime": reflect.TypeFor[corev1alpha1.Runtime](),
	"PersistentWorkspace": reflect.TypeFor[workspacesv1alpha1.PersistentWorkspace](),
	"WorkflowRun":         reflect.TypeFor[workflowsv1alpha1.WorkflowRun](), "Workflow": reflect.TypeFor[workflowsv1alpha1.Workflow](),
	"Action": reflect.TypeFor[workflowsv1alpha1.Action](),
}

// Shapes of what Go decodes. Those of the API server and of controller-gen let more through.
const (
	// timePattern is RFC 3339 as package time reads it: with a capital T and Z, and offsets of less than a day.
	timePattern = `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?` + offsetPattern
	// microTimePattern has exactly six digits after the second, as metav1.MicroTime wants them.
	microTimePattern = `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}` + offsetPattern
	offsetPattern    = `(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	// quantityPattern is resource.Quantity, whose exponents are whole numbers. It holds 19 digits and exponents of two; what takes more takes
	// a time to read and to write that grows with the square of the digits.
	quantityPattern = `^[+-]?([0-9]{1,32}\.?[0-9]{0,32}|\.[0-9]{1,32})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
)

// makeDecodable narrows the schema of a Go type to values that the type can be decoded from, and in no time. One object that cannot be decoded would
// break the lists and watches of all objects of its kind, and with them the components, for the whole cluster.
func makeDecodable(s *apiextensionsv1.JSONSchemaProps, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[metav1.Time]():
		makeTimeDecodable(s, timePattern)
		return nil
	case reflect.TypeFor[metav1.MicroTime]():
		makeTimeDecodable(s, microTimePattern)
		return nil
	case reflect.TypeFor[resource.Quantity]():
		s.Pattern = quantityPattern
		return nil
	case reflect.TypeFor[intstr.IntOrString]():
		s.Minimum, s.Maximum = new(float64(-1<<31)), new(float64(1<<31-1))
		return nil
	case reflect.TypeFor[metav1.Duration]():
		if len(s.XValidations) == 0 {
			return errors.New("a duration needs a rule that bounds it: a pattern cannot")
		}
		return nil
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return fmt.Errorf("%s decodes itself: say here which values it can be decoded from", t)
	}
	switch t.Kind() {
	case reflect.Slice:
		if s.Items == nil {
			return nil // bytes
		}
		return makeDecodable(s.Items.Schema, t.Elem())
	case reflect.Map:
		if s.AdditionalProperties == nil {
			return fmt.Errorf("the schema of %s says nothing of the values", t)
		}
		return makeDecodable(s.AdditionalProperties.Schema, t.Elem())
	case reflect.Struct:
		return makeFieldsDecodable(s, t)
	}
	return nil
}

// makeTimeDecodable narrows a text with a format. The API server lets every list pass for one, and refuses those that this makes impossible.
func makeTimeDecodable(s *apiextensionsv1.JSONSchemaProps, pattern string) {
	s.Pattern = pattern
	s.MinItems, s.MaxItems = new(int64(1)), new(int64(0))
}

func makeFieldsDecodable(s *apiextensionsv1.JSONSchemaProps, t reflect.Type) error {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && (name == "" || strings.Contains(options, "inline")) {
			if err := makeFieldsDecodable(s, field.Type); err != nil {
				return err
			}
			continue
		}
		property, ok := s.Properties[name]
		if !ok {
			continue // what is not in the schema is not stored
		}
		if err := makeDecodable(&property, field.Type); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.Properties[name] = property
	}
	return nil
}
