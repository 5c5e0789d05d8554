package expression

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scope holds a value for each reference that the tests use.
var scope = Scope{
	Inputs: map[string]string{"image": "agent:v1", "empty": "", "tricky": "${{ inputs.image }}"},
	Steps:  map[string]map[string]string{"build": {"digest": "sha256:1", "a_B-9": "odd"}},
	Jobs:   map[string]map[string]string{"lint": {"report": "fine"}, "no-outputs": nil},
}

func TestParseAndEvaluate(t *testing.T) {
	cases := map[string]struct {
		text       string
		want       string
		references []string
	}{
		"empty text":                          {},
		"text without expressions":            {text: "echo $HOME ${X} {{ y }} }} $ {", want: "echo $HOME ${X} {{ y }} }} $ {"},
		"an input":                            {text: "${{ inputs.image }}", want: "agent:v1", references: []string{"inputs.image"}},
		"an output of a step":                 {text: "a ${{ steps.build.outputs.digest }} b", want: "a sha256:1 b", references: []string{"steps.build.outputs.digest"}},
		"an output of a job":                  {text: "${{ jobs.lint.outputs.report }}", want: "fine", references: []string{"jobs.lint.outputs.report"}},
		"all characters of a name":            {text: "${{ steps.build.outputs.a_B-9 }}", want: "odd", references: []string{"steps.build.outputs.a_B-9"}},
		"no blanks":                           {text: "${{inputs.image}}", want: "agent:v1", references: []string{"inputs.image"}},
		"blanks and newlines anywhere":        {text: "${{\n\tinputs\r\n . image\n}}", want: "agent:v1", references: []string{"inputs.image"}},
		"expressions that touch":              {text: "${{ inputs.image }}${{ inputs.image }}", want: "agent:v1agent:v1", references: []string{"inputs.image", "inputs.image"}},
		"an empty value":                      {text: "<${{ inputs.empty }}>", want: "<>", references: []string{"inputs.empty"}},
		"values are not read again":           {text: "${{ inputs.tricky }}", want: "${{ inputs.image }}", references: []string{"inputs.tricky"}},
		"a dollar before an expression":       {text: "$${{ inputs.image }}", want: "$agent:v1", references: []string{"inputs.image"}},
		"a brace behind an expression":        {text: "${{ inputs.image }}}", want: "agent:v1}", references: []string{"inputs.image"}},
		"a literal":                           {text: "${{ 'text' }}", want: "text"},
		"an empty literal":                    {text: "<${{''}}>", want: "<>"},
		"a quote in a literal":                {text: "${{ 'it''s' }}", want: "it's"},
		"a literal of one quote":              {text: "${{ '''' }}", want: "'"},
		"a literal of two quotes":             {text: "${{ '''''' }}", want: "''"},
		"closing braces in a literal":         {text: "${{ '}}' }}", want: "}}"},
		"opening braces in a literal":         {text: "${{ '${{' }} inputs.image }}", want: "${{ inputs.image }}"},
		"a whole expression in a literal":     {text: "${{ '${{ inputs.image }}' }}", want: "${{ inputs.image }}"},
		"newlines in a literal":               {text: "${{ 'a\nb' }}", want: "a\nb"},
		"blanks around a literal":             {text: "${{\n'a'\n}}", want: "a"},
		"double quotes in a literal":          {text: `${{ '"' }}`, want: `"`},
		"bytes that are no text stay as they": {text: "\xff${{ '\xfe\x00' }}\xfd", want: "\xff\xfe\x00\xfd"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template, errs := Parse(tc.text)
			if errs != nil {
				t.Fatalf("Parse(%q): %v", tc.text, errs)
			}
			got, err := template.Evaluate(scope)
			if err != nil {
				t.Fatalf("Evaluate: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			var references []string
			for _, r := range template.References() {
				references = append(references, r.String())
			}
			if diff := cmp.Diff(tc.references, references); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
			if got, want := template.IsConstant(), tc.references == nil; got != want {
				t.Errorf("IsConstant() = %t, want %t", got, want)
			}
			if diff := cmp.Diff(tc.text, template.Text()); diff != "" {
				t.Errorf("Text() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	const noOperators = "an expression is inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text', without operators and functions"
	const notClosed = "the expression is not closed: end it with }}, or write ${{ '${{' }} for the characters ${{ themselves"
	cases := map[string]struct {
		text string
		want []string
	}{
		"an unknown context that is nearly one": {
			text: "line one\nx=\"1\" y ${{ step.a.outputs.b }}",
			want: []string{`line 2, column 9: ${{ step.a.outputs.b }}: unknown context "step": did you mean "steps"?`},
		},
		"a context in the wrong case": {
			text: "${{ Inputs.image }}",
			want: []string{`line 1, column 1: ${{ Inputs.image }}: unknown context "Inputs": did you mean "inputs"?`},
		},
		"a context of GitHub Actions": {
			text: "${{ needs.build.outputs.image }}",
			want: []string{`line 1, column 1: ${{ needs.build.outputs.image }}: unknown context "needs": did you mean "jobs"?`},
		},
		"the environment": {
			text: "${{ env.HOME }}",
			want: []string{`line 1, column 1: ${{ env.HOME }}: unknown context "env": a script reads its environment itself`},
		},
		"a context like nothing we know": {
			text: "${{ github.sha }}",
			want: []string{`line 1, column 1: ${{ github.sha }}: unknown context "github": write inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text'`},
		},
		"nothing between the braces": {
			text: "${{ }}",
			want: []string{`line 1, column 1: ${{ }}: the expression is empty: write inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text'`},
		},
		"an input without a name":    {text: "${{ inputs }}", want: []string{"line 1, column 1: ${{ inputs }}: the name of an input must follow: write inputs.NAME"}},
		"an input with two names":    {text: "${{ inputs.a.b }}", want: []string{"line 1, column 1: ${{ inputs.a.b }}: nothing can follow inputs.a, which is text"}},
		"a step without a name":      {text: "${{ steps }}", want: []string{"line 1, column 1: ${{ steps }}: the reference is incomplete: write steps.NAME.outputs.NAME"}},
		"a job without an output":    {text: "${{ jobs.a }}", want: []string{"line 1, column 1: ${{ jobs.a }}: the reference is incomplete: write jobs.a.outputs.NAME"}},
		"outputs without a name":     {text: "${{ jobs.a.outputs }}", want: []string{"line 1, column 1: ${{ jobs.a.outputs }}: the reference is incomplete: write jobs.a.outputs.NAME"}},
		"a step's other properties":  {text: "${{ steps.a.conclusion }}", want: []string{`line 1, column 1: ${{ steps.a.conclusion }}: steps.a has no "conclusion": write steps.a.outputs.NAME`}},
		"a slip in the third word":   {text: "${{ steps.a.output.b }}", want: []string{`line 1, column 1: ${{ steps.a.output.b }}: steps.a has no "output": write steps.a.outputs.NAME`}},
		"an output with two names":   {text: "${{ jobs.a.outputs.b.c }}", want: []string{"line 1, column 1: ${{ jobs.a.outputs.b.c }}: nothing can follow jobs.a.outputs.b, which is text"}},
		"a dot at the end":           {text: "${{ inputs. }}", want: []string{"line 1, column 1: ${{ inputs. }}: a name must follow the dot"}},
		"two dots":                   {text: "${{ inputs..a }}", want: []string{`line 1, column 1: ${{ inputs..a }}: unexpected ".": a name must stand before each dot`}},
		"a dot at the start":         {text: "${{ .a }}", want: []string{`line 1, column 1: ${{ .a }}: unexpected ".": a name must stand before each dot`}},
		"two words":                  {text: "${{ inputs.a b }}", want: []string{`line 1, column 1: ${{ inputs.a b }}: unexpected "b": ` + noOperators}},
		"an operator":                {text: "${{ inputs.a == 'b' }}", want: []string{`line 1, column 1: ${{ inputs.a == 'b' }}: unexpected "=": ` + noOperators}},
		"a function":                 {text: "${{ toJSON(inputs) }}", want: []string{`line 1, column 1: ${{ toJSON(inputs) }}: unexpected "(": ` + noOperators}},
		"a bracket":                  {text: "${{ inputs['a'] }}", want: []string{`line 1, column 1: ${{ inputs['a'] }}: unexpected "[": a name follows a dot and not a bracket`}},
		"double quotes":              {text: `${{ "a" }}`, want: []string{`line 1, column 1: ${{ "a" }}: unexpected '"': text stands in single quotes, as in 'text'`}},
		"a literal behind a name":    {text: "${{ inputs.'a' }}", want: []string{`line 1, column 1: ${{ inputs.'a' }}: unexpected "'": a literal stands alone, as in ${{ 'text' }}`}},
		"a letter that is not ASCII": {text: "${{ inputs.größe }}", want: []string{`line 1, column 1: ${{ inputs.größe }}: unexpected "ö": ` + noOperators}},
		"a blank that is none":       {text: "${{ inputs.a\u00a0}}", want: []string{"line 1, column 1: ${{ inputs.a }}: unexpected \"\\u00a0\": " + noOperators}},
		"a byte that is no text":     {text: "${{ inputs.\xff }}", want: []string{`line 1, column 1: ${{ inputs.` + "\ufffd" + ` }}: unexpected "\xff": ` + noOperators}},
		"a third brace":              {text: "${{{ inputs.a }}", want: []string{`line 1, column 1: ${{{ inputs.a }}: unexpected "{": ` + noOperators}},
		"text behind a literal":      {text: "${{ 'a' b }}", want: []string{"line 1, column 1: ${{ 'a' b }}: }} must follow the literal: write a quote inside it as ''"}},
		"a single quote inside":      {text: "${{ 'it's' }}", want: []string{"line 1, column 1: ${{ 'it's' }}: }} must follow the literal: write a quote inside it as ''"}},
		"an unclosed literal":        {text: "${{ 'a }} b", want: []string{"line 1, column 1: ${{ 'a }}: the literal is not closed: end it with ' and write a quote inside it as ''"}},
		"an unclosed expression":     {text: "a\n  ${{ inputs.a } b", want: []string{"line 2, column 3: ${{ inputs.a } b: " + notClosed}},
		"an opening at the very end": {text: "a ${{", want: []string{"line 1, column 3: ${{: " + notClosed}},
		"an unclosed expression does not swallow the next": {
			text: "${{ inputs.a\n${{ inputs.b }} ${{ x.y }}",
			want: []string{
				"line 1, column 1: ${{ inputs.a: " + notClosed,
				`line 2, column 17: ${{ x.y }}: unknown context "x": write inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text'`,
			},
		},
		"an unclosed literal does not swallow the next expression": {
			text: "${{ 'a }}\n${{ 'b' }} ${{ step.a.outputs.b }}",
			want: []string{
				"line 1, column 1: ${{ 'a }}: }} must follow the literal: write a quote inside it as ''",
				`line 2, column 12: ${{ step.a.outputs.b }}: unknown context "step": did you mean "steps"?`,
			},
		},
		"columns count characters": {
			text: "größe\r\n日本\xff ${{ inputs }}",
			want: []string{"line 2, column 5: ${{ inputs }}: the name of an input must follow: write inputs.NAME"},
		},
		"an expression over several lines is quoted in one": {
			text: "\n\n${{\n  step.a\n    .outputs.b\n}}",
			want: []string{`line 3, column 1: ${{ step.a .outputs.b }}: unknown context "step": did you mean "steps"?`},
		},
		"a long expression is cut": {
			text: "${{ " + strings.Repeat("x", 1000) + " }}",
			want: []string{"line 1, column 1: ${{ " + strings.Repeat("x", 96) + `…: unknown context "` + strings.Repeat("x", 1000) +
				`": write inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text'`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template, errs := Parse(tc.text)
			var got []string
			for _, e := range errs {
				got = append(got, e.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors of %q (-want +got):\n%s", tc.text, diff)
			}
			if template.IsConstant() {
				t.Error("a text with errors is called constant")
			}
			result, err := template.Evaluate(scope)
			if err == nil || result != "" {
				t.Errorf("Evaluate() = %q, %v; want the errors of Parse", result, err)
			}
			if diff := cmp.Diff(strings.Join(tc.want, "; "), err.Error()); diff != "" {
				t.Errorf("error of Evaluate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReferencesKnowTheirPlace(t *testing.T) {
	template, errs := Parse("ä ${{ inputs.a }}${{ bad }}\n ${{ 'x' }} ${{steps.s.outputs.k}} ${{ jobs.j.outputs.k }}")
	want := []Reference{
		{Context: ContextInputs, Name: "a", Position: Position{Offset: 3, Line: 1, Column: 3}},
		{Context: ContextSteps, Owner: "s", Name: "k", Position: Position{Offset: 41, Line: 2, Column: 13}},
		{Context: ContextJobs, Owner: "j", Name: "k", Position: Position{Offset: 64, Line: 2, Column: 36}},
	}
	if diff := cmp.Diff(want, template.References()); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	if len(errs) != 1 || errs[0].Expression != "${{ bad }}" {
		t.Errorf("errors: %v, want one about ${{ bad }}", errs)
	}
}
