package validate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
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

// TestTheContractOfAWorkflowIsMeasured says of a Workflow what would be said of each WorkflowRun that is made from it.
func TestTheContractOfAWorkflowIsMeasured(t *testing.T) {
	const long = 32 << 10
	spec := &workflowsv1alpha1.WorkflowSpec{
		Jobs:    map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "x"}}}},
		Outputs: map[string]workflowsv1alpha1.Output{},
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		spec.Outputs[name] = workflowsv1alpha1.Output{Value: strings.Repeat("x", long)}
	}
	if errs := Workflow(spec); len(errs) > 0 {
		t.Fatalf("7 outputs of %d bytes: %v", long, errs)
	}
	spec.Outputs["h"] = workflowsv1alpha1.Output{Value: strings.Repeat("x", long)}
	const want = "spec.outputs: Too long: the declared outputs have 262384 bytes, and may have 245760"
	if diff := cmp.Diff(want, Joined(Workflow(spec), 1000)); diff != "" {
		t.Errorf("8 outputs (-want +got):\n%s", diff)
	}
}
