package logs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/runtimed/logrecord"
)

func now() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

// parse reads back what was written, without times. It checks that the numbers of the bytes have no gaps.
func parse(t *testing.T, log []byte) []logrecord.Record {
	t.Helper()
	var records []logrecord.Record
	position := map[string]int64{}
	for line := range bytes.Lines(log) {
		r, ok := logrecord.Parse(line)
		if !ok {
			t.Fatalf("not a record: %q", line)
		}
		data, err := r.Bytes()
		if err != nil || (!r.End && r.Byte != position[r.Stream]+1) {
			t.Fatalf("%+v after %d bytes (%v)", r, position[r.Stream], err)
		}
		position[r.Stream] += int64(len(data))
		r.Time, r.Byte = time.Time{}, 0
		records = append(records, r)
	}
	return records
}

func TestAttempt(t *testing.T) {
	type chunk struct{ stream, data string }
	record := func(stream, line string, partial bool) logrecord.Record {
		return logrecord.Record{Run: "r", UID: "u", Attempt: 2, Stream: stream, Partial: partial}.WithBytes([]byte(line))
	}
	end := logrecord.Record{Run: "r", UID: "u", Attempt: 2, End: true}
	full := strings.Repeat("x", logrecord.MaxLine)
	cases := map[string]struct {
		chunks []chunk
		want   []logrecord.Record
	}{
		"nothing": {want: []logrecord.Record{end}},
		"lines in one chunk": {
			chunks: []chunk{{"stdout", "a\n\nb\r\n"}},
			want:   []logrecord.Record{record("stdout", "a", false), record("stdout", "", false), record("stdout", "b\r", false), end},
		},
		"a line in several chunks, the other stream between": {
			chunks: []chunk{{"stdout", "a"}, {"stderr", "E\n"}, {"stdout", "b"}, {"stdout", "\n"}},
			want:   []logrecord.Record{record("stderr", "E", false), record("stdout", "ab", false), end},
		},
		"no final newline": {
			chunks: []chunk{{"stdout", "a\nb"}, {"stderr", "E"}},
			want:   []logrecord.Record{record("stdout", "a", false), record("stdout", "b", true), record("stderr", "E", true), end},
		},
		"a line of exactly the bound is whole": {
			chunks: []chunk{{"stdout", full + "\n"}},
			want:   []logrecord.Record{record("stdout", full, false), end},
		},
		"a longer line is cut": {
			chunks: []chunk{{"stdout", full + full + "yz\nb\n"}},
			want: []logrecord.Record{
				record("stdout", full, true), record("stdout", full, true), record("stdout", "yz", false), record("stdout", "b", false), end,
			},
		},
		"a character is not cut in two": {
			chunks: []chunk{{"stdout", full[2:] + "🦊!\n"}},
			want:   []logrecord.Record{record("stdout", full[2:], true), record("stdout", "🦊!", false), end},
		},
		"bytes that are no characters are cut anywhere": {
			chunks: []chunk{{"stdout", full[2:] + "\x80\x80\x80\n"}},
			want:   []logrecord.Record{record("stdout", full[2:]+"\x80\x80", true), record("stdout", "\x80", false), end},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			a := NewWriter(&out, now).Attempt("r", "u", 2)
			offsets := map[string]int64{}
			for _, c := range tc.chunks {
				if _, err := a.Write(c.stream, offsets[c.stream], []byte(c.data)); err != nil {
					t.Fatal(err)
				}
				offsets[c.stream] += int64(len(c.data))
			}
			for range 2 {
				if err := a.End(); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, parse(t, out.Bytes())); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCompleteLinesAreNotHeldBack(t *testing.T) {
	var out bytes.Buffer
	a := NewWriter(&out, now).Attempt("r", "u", 1)
	if pending, err := a.Write(logrecord.Stdout, 0, []byte("a\nbc")); err != nil || pending != 2 {
		t.Fatalf("%d bytes are pending, error: %v", pending, err)
	}
	if got := parse(t, out.Bytes()); len(got) != 1 || got[0].Line != "a" {
		t.Errorf("got %+v", got)
	}
}

func TestStderrTail(t *testing.T) {
	a := NewWriter(&bytes.Buffer{}, now).Attempt("r", "u", 1)
	var all []byte
	for i := range 100 {
		chunk := bytes.Repeat([]byte{byte('a' + i%26)}, 100)
		all = append(all, chunk...)
		if _, err := a.Write(logrecord.Stderr, int64(len(all)-len(chunk)), chunk); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Write(logrecord.Stdout, 0, []byte("not this")); err != nil {
		t.Fatal(err)
	}
	if want := all[len(all)-tailSize:]; !bytes.Equal(want, a.StderrTail()) {
		t.Errorf("want %q, got %q", want, a.StderrTail())
	}
}

func TestWriteRefusesUnknownStreams(t *testing.T) {
	if _, err := NewWriter(&bytes.Buffer{}, now).Attempt("r", "u", 1).Write("", 0, []byte("x")); err == nil {
		t.Error("no error")
	}
}

// FuzzByteEqual writes bytes in chunks and expects the same bytes from the records.
func FuzzByteEqual(f *testing.F) {
	f.Add([]byte("a\nb"), uint16(1))
	f.Add(bytes.Repeat([]byte("🦊é"), 10000), uint16(32768))
	f.Add([]byte{0xff, '\n', 0xc3}, uint16(2))
	f.Fuzz(func(t *testing.T, data []byte, size uint16) {
		var out bytes.Buffer
		a := NewWriter(&out, now).Attempt("r", "u", 1)
		for rest := data; len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			if _, err := a.Write(logrecord.Stdout, int64(len(data)-len(rest)), rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := a.End(); err != nil {
			t.Fatal(err)
		}
		var got []byte
		for _, r := range parse(t, out.Bytes()) {
			text, err := r.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			if len(text) > logrecord.MaxLine+1 {
				t.Fatalf("a record of %d bytes", len(text))
			}
			got = append(got, text...)
		}
		if !bytes.Equal(data, got) {
			t.Fatalf("want %q, got %q", data, got)
		}
	})
}

func TestTimesDoNotGoBackwards(t *testing.T) {
	clock := []time.Time{now(), now().Add(-time.Hour), now().Add(time.Second)}
	var out bytes.Buffer
	a := NewWriter(&out, func() time.Time {
		next := clock[0]
		clock = clock[1:]
		return next
	}).Attempt("r", "u", 1)
	for i, line := range []string{"a\n", "b\n", "c\n"} {
		if _, err := a.Write(logrecord.Stdout, int64(2*i), []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	var got []time.Time
	for line := range bytes.Lines(out.Bytes()) {
		r, _ := logrecord.Parse(line)
		got = append(got, r.Time)
	}
	if diff := cmp.Diff([]time.Time{now(), now(), now().Add(time.Second)}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
