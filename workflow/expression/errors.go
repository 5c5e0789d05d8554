package expression

import (
	"strings"
	"unicode"
)

// maxQuoted bounds how much of an expression is quoted in an error. Unit: characters.
const maxQuoted = 100

// Error says what is wrong with one expression.
type Error struct {
	Position
	// Expression is the expression with its braces, as it stands in the text.
	Expression string
	// Message says what is wrong and, where it is known, what to write instead.
	Message string
}

// Error gives place, expression and message in one line.
func (e Error) Error() string { return e.String() + ": " + e.Message }

// String gives place and expression without the message, in one line. A long expression is cut.
func (e Error) String() string { return e.Position.String() + ": " + quote(e.Expression) }

// Errors are all the errors of one text, in its order. A nil Errors in a variable of type error is not nil: look at the
// length before it is handed on as one.
type Errors []Error

// Error joins the errors with "; ".
func (e Errors) Error() string {
	messages := make([]string, len(e))
	for i := range e {
		messages[i] = e[i].Error()
	}
	return strings.Join(messages, "; ")
}

// quote makes one short printable line of an expression.
func quote(expression string) string {
	var line strings.Builder
	characters, blank := 0, false
	for _, r := range expression {
		if unicode.IsSpace(r) {
			blank = true
			continue
		}
		if characters >= maxQuoted {
			return line.String() + "…"
		}
		if blank {
			line.WriteByte(' ')
			characters, blank = characters+1, false
		}
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		line.WriteRune(r)
		characters++
	}
	return line.String()
}
