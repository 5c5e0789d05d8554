package expression

import (
	"strings"
	"testing"
	"unicode/utf8"
)

var seeds = []string{
	"", "$", "{", "$$${{{", "${{ inputs.a }}", "$${{ inputs.a }}{{ x }}", "${{ 'it''s' }}", "${{ 'a }} ${{ 'b' }}", "${{ '${{' }}",
	"x\n${{ steps.s.outputs.k }}\r\n\xff${{ jobs.j.outputs.k }}", "${{ step.s }}${{", "${{ 'a' b }} }}", "${{\n}}", "'${{ '''", "${{ inputs . a }}",
}

// FuzzParse holds what is true of every text.
func FuzzParse(f *testing.F) {
	for _, text := range seeds {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		template, errs := Parse(text)
		last := -1
		for _, e := range errs {
			checkPosition(t, text, e.Position)
			if !strings.HasPrefix(text[e.Offset:], e.Expression) {
				t.Errorf("%q is not quoted from %q at %d", e.Expression, text, e.Offset)
			}
			if e.Offset <= last || e.Message == "" || !utf8.ValidString(e.Error()) || strings.Contains(e.Error(), "\n") {
				t.Errorf("bad error of %q: %+v", text, e)
			}
			last = e.Offset
		}
		last = -1
		for _, r := range template.References() {
			checkPosition(t, text, r.Position)
			if r.Offset <= last {
				t.Errorf("references of %q are not in order", text)
			}
			last = r.Offset
			again, errs := Parse("${{ " + r.String() + " }}")
			if errs != nil || len(again.References()) != 1 || again.References()[0].String() != r.String() {
				t.Errorf("%q is not read again: %v", r.String(), errs)
			}
		}
		result, err := template.Evaluate(Scope{})
		if (len(errs) > 0 || len(template.References()) > 0) != (err != nil) {
			t.Errorf("Evaluate() of %q = %q, %v", text, result, err)
		}
		if !strings.Contains(text, opening) && result != text {
			t.Errorf("a text without expressions changed from %q to %q", text, result)
		}
	})
}

// checkPosition counts lines and columns anew.
func checkPosition(t *testing.T, text string, p Position) {
	t.Helper()
	if p.Offset < 0 || !strings.HasPrefix(text[p.Offset:], opening) {
		t.Fatalf("no expression starts at %d of %q", p.Offset, text)
	}
	lines := strings.Split(text[:p.Offset], "\n")
	column := len([]rune(lines[len(lines)-1])) + 1
	if p.Line != len(lines) || p.Column != column {
		t.Errorf("%q at %d is at line %d, column %d, want %d, %d", text, p.Offset, p.Line, p.Column, len(lines), column)
	}
}

// FuzzEscape holds that an escaped value comes out as it went in, alone and in any place of any text where a reference
// stood before.
func FuzzEscape(f *testing.F) {
	for _, text := range seeds {
		for _, value := range []string{"", "$", "{", "${{ inputs.a }}", "it's", "'$'", "}}"} {
			f.Add(text, value)
		}
	}
	f.Add("$${{ inputs.a }}{{ x", "")
	f.Fuzz(func(t *testing.T, text, value string) {
		alone, errs := Parse(Escape(value))
		if result, err := alone.Evaluate(Scope{}); errs != nil || err != nil || result != value {
			t.Fatalf("Escape(%q) evaluates to %q, %v, %v", value, result, errs, err)
		}
		template, errs := Parse(text)
		if errs != nil {
			return
		}
		values := Scope{Inputs: map[string]string{}, Steps: map[string]map[string]string{}, Jobs: map[string]map[string]string{}}
		var rendered strings.Builder
		for _, p := range template.parts {
			if p.reference != textOnly {
				r := template.references[p.reference]
				switch r.Context {
				case ContextInputs:
					values.Inputs[r.Name] = value
				case ContextSteps:
					values.Steps[r.Owner] = merge(values.Steps[r.Owner], r.Name, value)
				case ContextJobs:
					values.Jobs[r.Owner] = merge(values.Jobs[r.Owner], r.Name, value)
				}
				rendered.WriteString(Escape(value))
			} else {
				rendered.WriteString(Escape(p.text))
			}
		}
		want, err := template.Evaluate(values)
		if err != nil {
			t.Fatalf("evaluating %q: %v", text, err)
		}
		checkResult(t, rendered.String(), want)
		if len(template.references) == 1 {
			// The raw text around the reference, as a child is materialised.
			start := template.references[0].Offset
			end, _ := (&parser{text: text}).end(start + len(opening))
			checkResult(t, text[:start]+Escape(value)+text[end:], want)
		}
	})
}

func merge(values map[string]string, name, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	values[name] = value
	return values
}

func checkResult(t *testing.T, text, want string) {
	t.Helper()
	template, errs := Parse(text)
	if errs != nil {
		t.Fatalf("Parse(%q): %v", text, errs)
	}
	got, err := template.Evaluate(Scope{})
	if err != nil || got != want {
		t.Fatalf("%q evaluates to %q, %v; want %q", text, got, err, want)
	}
}
