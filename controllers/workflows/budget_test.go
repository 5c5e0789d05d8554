package workflows

import (
	"encoding/json"
	"testing"
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
