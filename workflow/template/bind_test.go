package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

func TestBind(t *testing.T) {
	text := func(s string) *string { return &s }
	inputs := map[string]workflowsv1alpha1.Input{
		"image":   {Required: true},
		"version": {Default: text("3.12")},
		"empty":   {Default: text("")},
		"flags":   {},
	}
	cases := map[string]struct {
		inputs   map[string]workflowsv1alpha1.Input
		with     map[string]string
		want     map[string]string
		wantErrs []string
	}{
		"nothing declared, nothing given": {want: map[string]string{}},
		"defaults, and empty text where there is none": {
			inputs: inputs, with: map[string]string{"image": "a"},
			want: map[string]string{"image": "a", "version": "3.12", "empty": "", "flags": ""},
		},
		"what the caller gives wins": {
			inputs: inputs, with: map[string]string{"image": "a", "version": "3.13", "empty": "no", "flags": "-v"},
			want: map[string]string{"image": "a", "version": "3.13", "empty": "no", "flags": "-v"},
		},
		"empty text is a value, also in place of a default": {
			inputs: inputs, with: map[string]string{"image": "", "version": ""},
			want: map[string]string{"image": "", "version": "", "empty": "", "flags": ""},
		},
		"values are text whatever they hold": {
			inputs: inputs, with: map[string]string{"image": "${{ inputs.version }}"},
			want: map[string]string{"image": "${{ inputs.version }}", "version": "3.12", "empty": "", "flags": ""},
		},
		"a required input that nobody gives": {
			inputs: inputs, wantErrs: []string{`with: Required value: Workflow "deploy" requires the input "image": give it a value`},
		},
		"a required input with a default, which validation refuses, is never missing": {
			inputs: map[string]workflowsv1alpha1.Input{"a": {Required: true, Default: text("b")}}, want: map[string]string{"a": "b"},
		},
		"all that is wrong at once": {
			inputs: map[string]workflowsv1alpha1.Input{"image": {Required: true}, "arch": {Required: true}},
			with:   map[string]string{"imgae": "a", "color": "b", "Arch": "c"},
			wantErrs: []string{
				`with: Required value: Workflow "deploy" requires the input "arch": give it a value`,
				`with: Required value: Workflow "deploy" requires the input "image": give it a value`,
				`with[Arch]: Invalid value: "Arch": "Arch" is not an input of Workflow "deploy": did you mean "arch"?`,
				`with[color]: Invalid value: "color": "color" is not an input of Workflow "deploy": remove it, or declare it in the inputs there`,
				`with[imgae]: Invalid value: "imgae": "imgae" is not an input of Workflow "deploy": did you mean "image"?`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, errs := Bind(field.NewPath("with"), `Workflow "deploy"`, tc.inputs, tc.with)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			checkTexts(t, tc.wantErrs, errs)
			with := map[string]workflowsv1alpha1.InputValue{}
			for name, value := range tc.with {
				with[name] = workflowsv1alpha1.InputValue("${{ jobs.later.outputs.x }}" + value)
			}
			checkTexts(t, tc.wantErrs, CheckKeys(field.NewPath("with"), `Workflow "deploy"`, tc.inputs, with))
		})
	}
}

func checkTexts(t *testing.T, want []string, errs field.ErrorList) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
