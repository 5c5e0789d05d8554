package template

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/suggest"
)

// Bind gives the inputs of a definition their values: the default, or else empty text, overlaid with those that the
// caller hands over in with, whose values are text and taken as they are. what is the definition as messages call it,
// such as `Workflow "deploy"`.
//
// Errors are those of CheckKeys. Where there are any, there are no values.
func Bind(path *field.Path, what string, inputs map[string]workflowsv1alpha1.Input, with map[string]string) (map[string]string, field.ErrorList) {
	if errs := checkKeys(path, what, inputs, with); len(errs) > 0 {
		return nil, errs
	}
	values := make(map[string]string, len(inputs))
	for name, input := range inputs {
		values[name] = ""
		if input.Default != nil {
			values[name] = *input.Default
		}
	}
	maps.Copy(values, with)
	return values, nil
}

// CheckKeys returns what of Bind can be said before any value is known: an error at path for each required input that
// with does not set, and then one at its key for each that is no input of the definition. An input with a default is
// never missing.
func CheckKeys(path *field.Path, what string, inputs map[string]workflowsv1alpha1.Input, with map[string]workflowsv1alpha1.InputValue) field.ErrorList {
	return checkKeys(path, what, inputs, with)
}

func checkKeys[V any](path *field.Path, what string, inputs map[string]workflowsv1alpha1.Input, with map[string]V) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if _, set := with[name]; !set && inputs[name].Required && inputs[name].Default == nil {
			errs = append(errs, field.Required(path, fmt.Sprintf("%s requires the input %q: give it a value", what, name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(with)) {
		if _, declared := inputs[name]; declared {
			continue
		}
		hint := suggest.DidYouMean(name, maps.Keys(inputs))
		if hint == "" {
			hint = ": remove it, or declare it in the inputs there"
		}
		errs = append(errs, field.Invalid(path.Key(name), name, fmt.Sprintf("%q is not an input of %s%s", name, what, hint)))
	}
	return errs
}
