package expression

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEvaluateNamesWhatIsMissing(t *testing.T) {
	cases := map[string]struct {
		text  string
		scope Scope
		want  string
	}{
		"an input": {
			text: "${{ inputs.imgae }}", scope: scope,
			want: `line 1, column 1: ${{ inputs.imgae }}: there is no input "imgae": did you mean "image"?`,
		},
		"an input where there are none": {
			text: "${{ inputs.image }}",
			want: `line 1, column 1: ${{ inputs.image }}: there is no input "image"`,
		},
		"a step": {
			text: "${{ steps.biuld.outputs.digest }}", scope: scope,
			want: `line 1, column 1: ${{ steps.biuld.outputs.digest }}: there is no step "biuld" here: did you mean "build"?`,
		},
		"an output of a step": {
			text: "a\n ${{ steps.build.outputs.digset }}", scope: scope,
			want: `line 2, column 2: ${{ steps.build.outputs.digset }}: step "build" has no output "digset": did you mean "digest"?`,
		},
		"a job": {
			text: "${{ jobs.deploy.outputs.report }}", scope: scope,
			want: `line 1, column 1: ${{ jobs.deploy.outputs.report }}: there is no job "deploy" here`,
		},
		"an output of a job without outputs": {
			text: "${{ jobs.no-outputs.outputs.report }}", scope: scope,
			want: `line 1, column 1: ${{ jobs.no-outputs.outputs.report }}: job "no-outputs" has no output "report"`,
		},
		"all of them at once": {
			text: "${{ inputs.a }} ${{ inputs.image }} ${{ steps.b.outputs.c }}", scope: scope,
			want: `line 1, column 1: ${{ inputs.a }}: there is no input "a"; ` +
				`line 1, column 37: ${{ steps.b.outputs.c }}: there is no step "b" here`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template, errs := Parse(tc.text)
			if errs != nil {
				t.Fatal(errs)
			}
			result, err := template.Evaluate(tc.scope)
			if result != "" || err == nil {
				t.Fatalf("Evaluate() = %q, %v; want an error and no text", result, err)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			var list Errors
			if !errors.As(err, &list) {
				t.Errorf("the error is a %T, want Errors", err)
			}
		})
	}
}

func TestEvaluateBoundsTheResult(t *testing.T) {
	value := strings.Repeat("v", 4096)
	values := Scope{Inputs: map[string]string{"a": value}}
	cases := map[string]struct {
		text string
		want int
		err  string
	}{
		"at the bound": {text: strings.Repeat("${{ inputs.a }}", 256), want: MaxResultBytes},
		"a byte over it": {
			text: "x\n" + strings.Repeat("${{ inputs.a }}", 256),
			err:  "line 2, column 1: ${{ inputs.a }}: the text would hold 1048578 bytes with all values in it, more than 1048576",
		},
		"a long text of its own is not our concern": {text: strings.Repeat("x", MaxResultBytes+1), want: MaxResultBytes + 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template, errs := Parse(tc.text)
			if errs != nil {
				t.Fatal(errs)
			}
			result, err := template.Evaluate(values)
			if len(result) != tc.want {
				t.Errorf("the result holds %d bytes, want %d", len(result), tc.want)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.err, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEscape(t *testing.T) {
	cases := map[string]struct{ value, want string }{
		"plain text stays":                    {value: "it's\nplain }} text", want: "it's\nplain }} text"},
		"an expression":                       {value: "${{ inputs.a }}", want: "${{ '${{ inputs.a }}' }}"},
		"a dollar":                            {value: "$", want: "${{ '$' }}"},
		"a brace":                             {value: "{", want: "${{ '{' }}"},
		"quotes in a literal":                 {value: "'$'", want: "${{ '''$''' }}"},
		"the empty text parts its neighbours": {value: "", want: "${{ '' }}"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Escape(tc.value)); diff != "" {
				t.Errorf("escaped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheZeroTemplateIsEmpty(t *testing.T) {
	var template Template
	got, err := template.Evaluate(Scope{})
	if got != "" || err != nil || !template.IsConstant() {
		t.Errorf("Evaluate() = %q, %v; want empty text", got, err)
	}
}

// script is of the largest size that a step can have: 256 KiB with 10,000 expressions.
func script() (string, Scope) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "${{ inputs.i%02d }}", i%64)
		text.WriteString("abcdefghi\n"[i%10:])
	}
	text.WriteString(strings.Repeat("x", 256<<10-text.Len()))
	values := Scope{Inputs: map[string]string{}}
	for i := range 64 {
		values.Inputs[fmt.Sprintf("i%02d", i)] = "a value of some length"
	}
	return text.String(), values
}

func BenchmarkParse(b *testing.B) {
	text, _ := script()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := Parse(text); errs != nil {
			b.Fatal(errs)
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	text, values := script()
	template, errs := Parse(text)
	if errs != nil {
		b.Fatal(errs)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := template.Evaluate(values); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRender is what the controller does for one ordinary step.
func BenchmarkRender(b *testing.B) {
	const text = "echo \"deploying $IMAGE\"\nkubectl set image deployment/app app=${{ jobs.build.outputs.image }}\n" +
		"echo ${{ inputs.environment }} ${{ steps.check.outputs.url }} >> \"$KRUNTIME_OUTPUTS\"\n"
	values := Scope{
		Inputs: map[string]string{"environment": "staging"},
		Steps:  map[string]map[string]string{"check": {"url": "https://example.com"}},
		Jobs:   map[string]map[string]string{"build": {"image": "app:v1"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		template, errs := Parse(text)
		if errs != nil {
			b.Fatal(errs)
		}
		if _, err := template.Evaluate(values); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseHostile holds texts that a parser with a quadratic corner would take minutes for.
func BenchmarkParseHostile(b *testing.B) {
	for name, piece := range map[string]string{
		"unclosed":         "${{ ",
		"unclosed-literal": "${{ '",
		"odd-quotes":       "${{ ''' }} ",
		"even-quotes":      "${{ '''' x }} ",
		"mixed-quotes":     "${{ '''${{ '' ${{ ''''",
		"broken-literal":   "${{ 'a }}",
		"one-line":         "ä${{ x }}",
		"misspelt":         "${{ step }}\n",
	} {
		text := strings.Repeat(piece, 256<<10/len(piece))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = Parse(text)
			}
		})
	}
}
