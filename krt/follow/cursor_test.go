package follow

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/runtimed/logrecord"
)

// TestCursorDropsWhatASuccessorWroteAgain reads the log of a runtimed that was killed, and that of its successor.
func TestCursorDropsWhatASuccessorWroteAgain(t *testing.T) {
	second := 0
	record := func(stream string, first int64, line string) logrecord.Record {
		second++
		return logrecord.Record{
			Time: time.Unix(int64(second), 0), Run: "r", UID: "u", Attempt: 1, Stream: stream, Line: line, Byte: first,
		}
	}
	before := []logrecord.Record{
		record("stdout", 1, "one"), record("stderr", 1, "E"), record("stdout", 5, "two"), record("stdout", 9, ""),
	}
	after := []logrecord.Record{
		record("stdout", 5, "two"), record("stdout", 9, ""), record("stderr", 1, "E"),
		record("stdout", 10, "three"), record("stderr", 3, "F"), record("stdout", 0, "of unknown place"), record("stdout", 0, "of unknown place"),
	}
	var c cursor
	var got []string
	for _, log := range [][]logrecord.Record{before, after, after} {
		c.reopen()
		for _, r := range log {
			if c.accept(r) {
				got = append(got, r.Line)
			}
		}
	}
	want := []string{"one", "E", "two", "", "three", "F", "of unknown place", "of unknown place"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
