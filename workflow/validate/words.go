package validate

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Words says what is wrong where an error is. Of a text that holds expressions, it is the passage that is no valid value.
func Words(err *field.Error) string {
	if passage, ok := err.BadValue.(Passage); ok {
		return passage.String() + ": " + err.Detail
	}
	return err.ErrorBody()
}

// Line says what is wrong, and where.
func Line(err *field.Error) string { return err.Field + ": " + Words(err) }

// Joined puts errors into one line of at most size bytes: whole ones, and how many more there are. Where not even the first
// one has room, it is the first one, uncut.
func Joined(errs field.ErrorList, size int) string {
	const reserve = len("; and 1000000 more")
	var text strings.Builder
	for i, err := range errs {
		line := Line(err)
		room := size
		if i < len(errs)-1 {
			room -= reserve
		}
		if i > 0 {
			line = "; " + line
		}
		if i > 0 && text.Len()+len(line) > room {
			return fmt.Sprintf("%s; and %d more", text.String(), len(errs)-i)
		}
		text.WriteString(line)
	}
	return text.String()
}
