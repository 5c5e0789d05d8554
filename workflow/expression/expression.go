// Package expression reads and evaluates the expressions of the workflow language: ${{ … }} in a text. It is pure, and
// linear in the text.
//
// Between the braces stands one of
//
//	inputs.NAME                  an input of the definition
//	steps.NAME.outputs.NAME      an output of an earlier step of the same job
//	jobs.NAME.outputs.NAME       an output of a job that this one needs
//	'text'                       the text itself, in which '' is a quote
//
// Names hold letters, digits, '-' and '_'. Blanks and newlines between the words are free. Nothing else is understood:
// there are no operators and no functions. ${{ '${{' }} is how one writes the characters ${{ themselves.
//
// Values are text and are never read again: an expression in a value stays as it is.
package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kruntimes.io/kruntimes/workflow/suggest"
)

// MaxResultBytes bounds the text that Evaluate makes of a text with references. It lies above every field that could
// hold the result, and below what a few thousand references to a long value would take.
const MaxResultBytes = 1 << 20

// Context is the first word of a reference: what it reads from.
type Context string

const (
	// ContextInputs holds the inputs of the definition.
	ContextInputs Context = "inputs"
	// ContextSteps holds the steps of the same job.
	ContextSteps Context = "steps"
	// ContextJobs holds the jobs of the same WorkflowRun.
	ContextJobs Context = "jobs"
)

// Position is where an expression starts within its text.
type Position struct {
	// Offset counts bytes from 0.
	Offset int
	// Line and Column count from 1; Column in characters.
	Line, Column int
}

// String gives the position as people say it.
func (p Position) String() string {
	return fmt.Sprintf("line %d, column %d", p.Line, p.Column)
}

// Reference names the value that an expression inserts.
type Reference struct {
	// Context says what the value is read from.
	Context Context
	// Owner is the step or job. It is empty for inputs.
	Owner string
	// Name is the input or output.
	Name string
	// Position is where the expression starts.
	Position
}

// String gives the reference as it is written, without blanks.
func (r Reference) String() string {
	if r.Context == ContextInputs {
		return string(r.Context) + "." + r.Name
	}
	return string(r.Context) + "." + r.Owner + ".outputs." + r.Name
}

// Errorf returns an error about the reference.
func (r Reference) Errorf(format string, args ...any) Error {
	return Error{Position: r.Position, Expression: "${{ " + r.String() + " }}", Message: fmt.Sprintf(format, args...)}
}

// Scope holds the values that references can name.
type Scope struct {
	// Inputs by name.
	Inputs map[string]string
	// Steps and Jobs hold outputs by the name of their step or job, then by their own.
	Steps, Jobs map[string]map[string]string
}

// Template is a text that has been read. The zero value is the empty text.
type Template struct {
	text       string
	parts      []part
	references []Reference
	errors     Errors
}

// A part is a piece of the result: text as it is, or the value of a reference.
type part struct {
	text string
	// reference is an index of references, or textOnly.
	reference int
	// end is where the expression of a reference ends in the text that was read. Unit: bytes.
	end int
}

const textOnly = -1

// Text returns the text that was read.
func (t Template) Text() string { return t.text }

// References returns the references of the text in their order, repeated ones as often as they stand there.
func (t Template) References() []Reference { return slices.Clone(t.references) }

// IsConstant tells whether the text is valid and evaluates to the same in every scope: it holds literals at most.
func (t Template) IsConstant() bool { return len(t.references) == 0 && len(t.errors) == 0 }

// Evaluate returns the text with the values of scope in place of its expressions. The error is of type Errors and names
// every reference without a value: there is never an empty text in its place. A text that Parse found wrong has no
// value: its errors are returned again.
func (t Template) Evaluate(scope Scope) (string, error) { return t.EvaluateUpTo(scope, MaxResultBytes) }

// EvaluateUpTo does what Evaluate does, and refuses a result of more than maxBytes before it is made.
func (t Template) EvaluateUpTo(scope Scope, maxBytes int) (string, error) {
	if len(t.errors) > 0 {
		return "", t.errors
	}
	values := make([]string, len(t.references))
	var missing Errors
	size := 0
	for i, r := range t.references {
		value, err := scope.lookup(r)
		if err != nil {
			missing = append(missing, *err)
			continue
		}
		values[i] = value
		size += len(value)
	}
	if len(missing) > 0 {
		return "", missing
	}
	for _, p := range t.parts {
		size += len(p.text)
	}
	if size > maxBytes && len(t.references) > 0 {
		return "", Errors{t.references[0].Errorf("the text would hold %d bytes with all values in it, more than %d", size, maxBytes)}
	}
	var result strings.Builder
	result.Grow(size)
	for _, p := range t.parts {
		if p.reference == textOnly {
			result.WriteString(p.text)
		} else {
			result.WriteString(values[p.reference])
		}
	}
	return result.String(), nil
}

// lookup returns the value of r, or what is missing and what may have been meant.
func (s Scope) lookup(r Reference) (string, *Error) {
	values, owner := s.Inputs, ""
	if r.Context != ContextInputs {
		owners, kind := s.Steps, "step"
		if r.Context == ContextJobs {
			owners, kind = s.Jobs, "job"
		}
		found := false
		if values, found = owners[r.Owner]; !found {
			err := r.Errorf("there is no %s %q here%s", kind, r.Owner, suggest.DidYouMean(r.Owner, maps.Keys(owners)))
			return "", &err
		}
		owner = fmt.Sprintf("%s %q has no output", kind, r.Owner)
	}
	if value, found := values[r.Name]; found {
		return value, nil
	}
	if owner == "" {
		owner = "there is no input"
	}
	err := r.Errorf("%s %q%s", owner, r.Name, suggest.DidYouMean(r.Name, maps.Keys(values)))
	return "", &err
}

// Escape returns a text that evaluates to value, whatever stands before and after it: a value that could be read as an
// expression, alone or together with its neighbours, becomes a literal. That is so for one that holds '$' or '{', and
// for the empty one, which would let its neighbours touch each other.
func Escape(value string) string {
	if value != "" && !strings.ContainsAny(value, "${") {
		return value
	}
	return opening + " '" + strings.ReplaceAll(value, "'", "''") + "' " + closing
}
