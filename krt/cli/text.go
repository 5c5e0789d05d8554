package cli

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Visible makes one line of any text. Control characters, which could move the cursor of a terminal, come out escaped.
func Visible(s string) string { return OneLine(s, math.MaxInt) }

// VisibleLines makes every line of a text visible, and leaves out empty ones at its end.
func VisibleLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range lines {
		lines[i] = Visible(lines[i])
	}
	return strings.Join(lines, "\n")
}

// OneLine makes one line of at most limit characters from any text, for tables and summaries, as Visible does.
func OneLine(s string, limit int) string {
	var b strings.Builder
	length := 0
	for _, r := range strings.TrimRight(s, "\n") {
		piece := string(r)
		if !unicode.IsPrint(r) { // Neither escape sequences nor marks that turn the direction of a line around.
			piece = strings.Trim(fmt.Sprintf("%q", r), "'")
		}
		if length++; length > limit {
			return strings.TrimRight(b.String(), " ") + "…"
		}
		b.WriteString(piece)
	}
	return b.String()
}

// WithoutStatus returns a copy of an object as a person writes it: without status, and without what the API server fills in.
func WithoutStatus(object runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("converting the object: %w", err)
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u, nil
}
