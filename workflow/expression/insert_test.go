package expression

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestInsert(t *testing.T) {
	inputs := EscapeInputs(map[string]string{"image": "agent:v1", "empty": "", "tricky": "${{ inputs.image }}", "dollar": "$", "quote": "it's"})
	cases := map[string]struct{ text, want string }{
		"empty text":                            {},
		"text without expressions":              {text: "echo $HOME ${X} {{ y }} }} $ {", want: "echo $HOME ${X} {{ y }} }} $ {"},
		"an input":                              {text: "a ${{ inputs.image }} b", want: "a agent:v1 b"},
		"blanks and newlines in the expression": {text: "a ${{\n inputs\t.image\r\n}} b", want: "a agent:v1 b"},
		"an input twice, touching":              {text: "${{ inputs.image }}${{inputs.image}}", want: "agent:v1agent:v1"},
		"other contexts stay as they are written": {
			text: "${{steps.a . outputs.b}} ${{ inputs.image }} ${{\njobs.c.outputs.d }}",
			want: "${{steps.a . outputs.b}} agent:v1 ${{\njobs.c.outputs.d }}",
		},
		"literals stay as they are written": {
			text: "${{'${{'}} ${{ inputs.image }} ${{  'it''s ${{ inputs.image }}'  }}",
			want: "${{'${{'}} agent:v1 ${{  'it''s ${{ inputs.image }}'  }}",
		},
		"a value that is an expression":             {text: "<${{ inputs.tricky }}>", want: "<${{ '${{ inputs.image }}' }}>"},
		"a value that would open with what follows": {text: "${{ inputs.dollar }}{{ x }}", want: "${{ '$' }}{{ x }}"},
		"an empty value that parts its neighbours":  {text: "$${{ inputs.empty }}{{ x }}", want: "$${{ '' }}{{ x }}"},
		"a dollar before a value":                   {text: "$${{ inputs.tricky }}", want: "$${{ '${{ inputs.image }}' }}"},
		"a quote in a value":                        {text: "'${{ inputs.quote }}'", want: "'it's'"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template, errs := Parse(tc.text)
			if errs != nil {
				t.Fatal(errs)
			}
			got, err := template.Insert(inputs, math.MaxInt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInsertErrors(t *testing.T) {
	long := strings.Repeat("ä", 32<<10)
	inputs := EscapeInputs(map[string]string{"image": "agent:v1", "long": long, "dollar": "$"})
	cases := map[string]struct {
		text string
		max  int
		want string
	}{
		"inputs without a value, all of them": {
			text: "${{ inputs.imgae }} ${{ inputs.image }}\n${{ inputs.other }} ${{ steps.any.outputs.x }}", max: math.MaxInt,
			want: `line 1, column 1: ${{ inputs.imgae }}: there is no input "imgae": did you mean "image"?; ` +
				`line 2, column 1: ${{ inputs.other }}: there is no input "other"`,
		},
		"a text that is wrong, and an input without a value before that": {
			text: "${{ inputs.imag }}  ${{ x.y }}", max: math.MaxInt,
			want: `line 1, column 1: ${{ inputs.imag }}: there is no input "imag": did you mean "image"?; ` +
				`line 1, column 21: ${{ x.y }}: unknown context "x": write inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text'`,
		},
		"a text at the bound, counted in characters": {text: "ä${{ inputs.long }}b", max: 32<<10 + 2},
		"a character over the bound": {
			text: "${{ steps.a.outputs.b }}\n${{ inputs.long }}", max: 32<<10 + 24,
			want: "line 2, column 1: ${{ inputs.long }}: the text would have 32793 characters with all inputs in it, and may have 32792: hand over shorter inputs",
		},
		"the escape counts": {
			text: "${{ inputs.dollar }}", max: 9,
			want: "line 1, column 1: ${{ inputs.dollar }}: the text would have 10 characters with all inputs in it, and may have 9: hand over shorter inputs",
		},
		"a long text without inputs is not our concern": {text: "${{ 'too long' }}", max: 1},
		"thousands of references to a long value": {
			text: strings.Repeat("${{ inputs.long }}", 50_000), max: 256 << 10,
			want: "line 1, column 1: ${{ inputs.long }}: the text would have 1638400000 characters with all inputs in it, and may have 262144: hand over shorter inputs",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template, _ := Parse(tc.text)
			result, err := template.Insert(inputs, tc.max)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if (result == "") != (err != nil) {
				t.Errorf("a text of %d bytes beside the error %v", len(result), err)
			}
		})
	}
}

func TestInsertBoundsItsErrors(t *testing.T) {
	template, errs := Parse(strings.Repeat("${{ inputs.a }}", MaxErrors+1))
	if errs != nil {
		t.Fatal(errs)
	}
	_, err := template.Insert(Inputs{}, math.MaxInt)
	var list Errors
	if !errors.As(err, &list) || len(list) != MaxErrors {
		t.Errorf("got %d errors, want %d", len(list), MaxErrors)
	}
}

// FuzzInsert holds that whoever evaluates a text with the inputs written into it reads what he had read with the inputs
// at hand, that no value is ever read as an expression, and that all else stays as it is.
func FuzzInsert(f *testing.F) {
	for _, text := range append(seeds, "$${{ inputs.a }}{{ ${{ inputs.bb }}", "${${{ inputs.a }}{${{ steps.s.outputs.k }}${{ inputs.bb }}") {
		for _, value := range []string{"", "$", "{", "${{ inputs.a }}", "${{ jobs.j.outputs.k }}", "it's", "'$'", "}}", "$${{"} {
			f.Add(text, value, "")
			f.Add(text, "$", value)
		}
	}
	f.Fuzz(func(t *testing.T, text, odd, even string) {
		template, errs := Parse(text)
		if errs != nil {
			return
		}
		values := Scope{Inputs: map[string]string{}, Steps: map[string]map[string]string{}, Jobs: map[string]map[string]string{}}
		var kept []string
		first, last := -1, 0
		for _, r := range template.references {
			value := []string{even, odd}[len(r.Name)%2]
			switch r.Context {
			case ContextInputs:
				values.Inputs[r.Name] = value
				if last = r.Offset; first < 0 {
					first = last
				}
			case ContextSteps:
				values.Steps[r.Owner] = merge(values.Steps[r.Owner], r.Name, value)
				kept = append(kept, r.String())
			case ContextJobs:
				values.Jobs[r.Owner] = merge(values.Jobs[r.Owner], r.Name, value)
				kept = append(kept, r.String())
			}
		}
		inserted, err := template.Insert(EscapeInputs(values.Inputs), math.MaxInt)
		if err != nil {
			t.Fatalf("inserting into %q: %v", text, err)
		}
		again, errs := Parse(inserted)
		if errs != nil {
			t.Fatalf("%q became %q, which is wrong: %v", text, inserted, errs)
		}
		var references []string
		for _, r := range again.references {
			references = append(references, r.String())
		}
		if diff := cmp.Diff(kept, references); diff != "" {
			t.Fatalf("references of %q, once %q (-want +got):\n%s", inserted, text, diff)
		}
		want, wantErr := template.Evaluate(values)
		got, err := again.Evaluate(Scope{Steps: values.Steps, Jobs: values.Jobs})
		if (err != nil) != (wantErr != nil) || got != want {
			t.Fatalf("%q, once %q, evaluates to %q, %v; want %q, %v", inserted, text, got, err, want, wantErr)
		}
		checkKept(t, text, inserted, first, last)
		checkBound(t, template, values.Inputs, inserted)
	})
}

// checkKept checks that a text is the same before its first input, which starts at first, and behind its last one.
func checkKept(t *testing.T, text, inserted string, first, last int) {
	t.Helper()
	if first < 0 {
		if inserted != text {
			t.Fatalf("%q without inputs became %q", text, inserted)
		}
		return
	}
	_, behind, _ := strings.Cut(text[last:], closing)
	if !strings.HasPrefix(inserted, text[:first]) || !strings.HasSuffix(inserted, behind) {
		t.Fatalf("%q became %q, want it to start with %q and end with %q", text, inserted, text[:first], behind)
	}
}

// checkBound checks that a text is refused from one character over the bound on, and not before.
func checkBound(t *testing.T, template Template, inputs map[string]string, inserted string) {
	t.Helper()
	for _, value := range inputs {
		if !utf8.ValidString(value) {
			return
		}
	}
	if len(inputs) == 0 || !utf8.ValidString(template.text) {
		return
	}
	characters := utf8.RuneCountInString(inserted)
	if _, err := template.Insert(EscapeInputs(inputs), characters); err != nil {
		t.Fatalf("%q of %d characters is refused at its bound: %v", inserted, characters, err)
	}
	if result, err := template.Insert(EscapeInputs(inputs), characters-1); err == nil {
		t.Fatalf("%q is let through over the bound of %d characters", result, characters-1)
	}
}
