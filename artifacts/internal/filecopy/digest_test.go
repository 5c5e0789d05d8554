package filecopy

import (
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestDigestMissesWhatIsNotThere reads back less than has arrived, as when somebody cuts the target.
func TestDigestMissesWhatIsNotThere(t *testing.T) {
	arrived := make(chan int64, 2)
	arrived <- 4
	arrived <- 4
	close(arrived)
	if err := digest(sha256.New(), strings.NewReader("seven b"), arrived); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want %v", err, io.ErrUnexpectedEOF)
	}
}
