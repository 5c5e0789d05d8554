package expression

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Inputs are the inputs of a definition, made ready to be inserted into its texts.
type Inputs struct {
	// escaped holds the values as they are inserted, by name.
	escaped map[string]string
	// characters counts those of escaped.
	characters map[string]int
}

// EscapeInputs makes values ready for Template.Insert.
func EscapeInputs(values map[string]string) Inputs {
	inputs := Inputs{escaped: make(map[string]string, len(values)), characters: make(map[string]int, len(values))}
	for name, value := range values {
		inputs.escaped[name] = Escape(value)
		inputs.characters[name] = utf8.RuneCountInString(inputs.escaped[name])
	}
	return inputs
}

// Insert returns the text with inputs in place of the references to them, for somebody who evaluates the rest later. All
// other text stays byte for byte as it was read, its literals and references of other contexts included. Values go
// through Escape: whatever they hold, evaluating the result gives what evaluating the text with them gives.
//
// The error is of type Errors. It holds what Parse found wrong and every reference to an input that has no value, up to
// MaxErrors and in their order; or it refuses a result of more than maxCharacters, before that is made. A text without
// references to inputs is returned as it is, however long.
func (t Template) Insert(inputs Inputs, maxCharacters int) (string, error) {
	problems := slices.Clone(t.errors)
	first, size, characters := -1, len(t.text), 0
	for _, p := range t.parts {
		if !t.isInput(p) || len(problems) >= MaxErrors {
			continue
		}
		r := t.references[p.reference]
		value, err := Scope{Inputs: inputs.escaped}.lookup(r)
		if err != nil {
			problems = append(problems, *err)
			continue
		}
		if first < 0 {
			first, characters = p.reference, utf8.RuneCountInString(t.text)
		}
		// A reference that is valid holds ASCII only.
		size += len(value) - (p.end - r.Offset)
		characters += inputs.characters[r.Name] - (p.end - r.Offset)
	}
	switch {
	case len(problems) > 0:
		slices.SortStableFunc(problems, func(a, b Error) int { return a.Offset - b.Offset })
		return "", problems
	case first < 0:
		return t.text, nil
	case characters > maxCharacters:
		return "", Errors{t.references[first].Errorf("the text would have %d characters with all inputs in it, and may have %d: hand over shorter inputs",
			characters, maxCharacters)}
	}
	var result strings.Builder
	result.Grow(size)
	done := 0
	for _, p := range t.parts {
		if t.isInput(p) {
			r := t.references[p.reference]
			result.WriteString(t.text[done:r.Offset])
			result.WriteString(inputs.escaped[r.Name])
			done = p.end
		}
	}
	result.WriteString(t.text[done:])
	return result.String(), nil
}

// isInput tells whether a part is the value of an input.
func (t Template) isInput(p part) bool {
	return p.reference != textOnly && t.references[p.reference].Context == ContextInputs
}
