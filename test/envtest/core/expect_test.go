package core

import (
	"strings"
	"testing"
)

// expectError checks that err holds want, or that there is no error where want is empty.
func expectError(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: got error %v, want none", what, err)
	case want != "" && err == nil:
		t.Errorf("%s: accepted, want an error with %q", what, want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("%s: got error %v, want one with %q", what, err, want)
	}
}
