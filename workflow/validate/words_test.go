package validate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kruntimes.io/kruntimes/workflow/expression"
)

func TestLine(t *testing.T) {
	passage := Passage{Position: expression.Position{Line: 2, Column: 3}, Expression: "${{ a && b }}"}
	cases := map[string]struct {
		err  *field.Error
		want string
	}{
		"a passage is quoted as it stands, and is the only value": {
			field.Invalid(field.NewPath("spec", "run"), passage, "no"), `spec.run: line 2, column 3: ${{ a && b }}: no`},
		"a value is what the API server says of it": {
			field.Invalid(field.NewPath("spec", "uses"), "B", "no name"), `spec.uses: Invalid value: "B": no name`},
		"what is missing has no value": {field.Required(field.NewPath("spec"), "write it"), `spec: Required value: write it`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Line(tc.err)); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJoined(t *testing.T) {
	list := func(paths ...string) (errs field.ErrorList) {
		for _, path := range paths {
			errs = append(errs, field.Required(field.NewPath(path), ""))
		}
		return errs
	}
	const one = "a: Required value"
	cases := map[string]struct {
		errs field.ErrorList
		size int
		want string
	}{
		"none":                           {nil, 10, ""},
		"all have room":                  {list("a", "b"), 2*len(one) + 2, "a: Required value; b: Required value"},
		"some are counted":               {list("a", "b", "c", "d"), 2*len(one) + 22, "a: Required value; b: Required value; and 2 more"},
		"the last one is counted, alone": {list("a", "b"), 2*len(one) + 1, "a: Required value; and 1 more"},
		"the first one is never cut":     {list(strings.Repeat("a", 50), "b"), 10, strings.Repeat("a", 50) + ": Required value; and 1 more"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Joined(tc.errs, tc.size)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}
