package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TestEscapedLengthIsNoLessThanWhatIsWritten goes through every character that JSON may escape.
func TestEscapedLengthIsNoLessThanWhatIsWritten(t *testing.T) {
	for _, text := range []string{"", "plain", "<&>", "\"\\", "\x00\x1f\n\t\r\b\f", "\u2027\u2028\u2029\u202a", "ä€😀", "\u007f"} {
		written, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := escapedLength(text), len(written)-len(`""`); got < want {
			t.Errorf("%q: %d, but %d bytes are written", text, got, want)
		}
	}
}

// Whoever meets the bound of a status is told what would help.
func TestAFullStatusSaysWhatWouldHelp(t *testing.T) {
	b := newBudget(newWorld(t, ci()).run)
	b.status = 2000
	taken := map[string]corev1alpha1.OutputValue{"a": corev1alpha1.OutputValue(strings.Repeat("\x01", 300))}
	if err := b.take(taken); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		strings.Repeat("x", 400):  "encode them, as base64 for example", // for the sake of what was taken before
		strings.Repeat("x", 3000): "split it into several WorkflowRuns",
	} {
		err := b.take(map[string]corev1alpha1.OutputValue{"b": corev1alpha1.OutputValue(value)})
		if !strings.HasSuffix(fmt.Sprint(err), want) {
			t.Errorf("%d bytes: got %v, want it to end in %q", len(value), err, want)
		}
	}
}
