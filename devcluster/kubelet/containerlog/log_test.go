package containerlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// steppingClock advances by one second with each look.
func steppingClock() func() time.Time {
	now := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func newLog(t *testing.T) *Log {
	t.Helper()
	l, err := Create(filepath.Join(t.TempDir(), "log"), steppingClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func feed(t *testing.T, l *Log, stream, content string) {
	t.Helper()
	if err := l.Copy(stream, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, l *Log, o ReadOptions) string {
	t.Helper()
	var out bytes.Buffer
	if err := l.Read(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestReadSelects(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	cases := map[string]struct {
		options ReadOptions
		want    string
	}{
		"everything":                          {want: "one\ntwo\n\nfour"},
		"the last line, which has no newline": {options: ReadOptions{TailLines: n(1)}, want: "four"},
		"the last two lines":                  {options: ReadOptions{TailLines: n(2)}, want: "\nfour"},
		"more lines than there are":           {options: ReadOptions{TailLines: n(99)}, want: "one\ntwo\n\nfour"},
		"no line":                             {options: ReadOptions{TailLines: n(0)}, want: ""},
		"a limit within a line":               {options: ReadOptions{LimitBytes: n(6)}, want: "one\ntw"},
		"a limit beyond the end":              {options: ReadOptions{LimitBytes: n(600)}, want: "one\ntwo\n\nfour"},
		"nothing older than a time":           {options: ReadOptions{Since: time.Date(2026, 1, 2, 3, 4, 2, 0, time.UTC)}, want: "two\n\nfour"},
		"times, also where a line is without newline": {
			options: ReadOptions{Timestamps: true, TailLines: n(2)},
			want:    "2026-01-02T03:04:03.000000000Z \n2026-01-02T03:04:06.000000000Z four",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			writeLines(t, l, "one\n", "two\n", "\n", "four")
			if diff := cmp.Diff(tc.want, read(t, l, tc.options)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// writeLines delivers each piece in a read of its own, so that each gets its own time.
func writeLines(t *testing.T, l *Log, pieces ...string) {
	t.Helper()
	readers := make([]io.Reader, len(pieces))
	for i, piece := range pieces {
		readers[i] = strings.NewReader(piece)
	}
	if err := l.Copy(Stdout, io.MultiReader(readers...)); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsWrittenComesBack(t *testing.T) {
	cases := map[string]string{
		"nothing":                               "",
		"no final newline":                      "a\nb",
		"a line of 200 KiB":                     strings.Repeat("x", 200<<10) + "\nafter\n",
		"a line of exactly the limit":           strings.Repeat("x", maxLine) + "\nafter\n",
		"one byte over the limit":               strings.Repeat("x", maxLine+1) + "\nafter\n",
		"one byte over the limit and the end":   strings.Repeat("x", maxLine+1),
		"binary, carriage returns and spaces":   "\x00\xff \r\n  P F stdout \r\n",
		"many lines, more than a block of them": strings.Repeat("0123456789\n", 50_000),
		"empty lines":                           "\n\n\n",
	}
	for name, content := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			feed(t, l, Stdout, content)
			if got := read(t, l, ReadOptions{}); got != content {
				t.Errorf("%d bytes came back, want %d; first difference at %d", len(got), len(content), firstDifference(got, content))
			}
		})
	}
}

func firstDifference(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func TestTailReachesBackOverBlocks(t *testing.T) {
	l := newLog(t)
	var all []string
	for i := range 20_000 {
		all = append(all, fmt.Sprintf("line %d\n", i))
	}
	feed(t, l, Stdout, strings.Join(all, ""))
	lines := int64(15_000)
	if got, want := read(t, l, ReadOptions{TailLines: &lines}), strings.Join(all[5_000:], ""); got != want {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
}

func TestFollowersSeeEveryLineAndEndWithTheLog(t *testing.T) {
	l := newLog(t)
	source, sink := io.Pipe()
	copied := make(chan error, 1)
	go func() { copied <- l.Copy(Stderr, source) }()

	follower, out := io.Pipe()
	followed := make(chan error, 1)
	go func() {
		followed <- l.Read(t.Context(), ReadOptions{Follow: true}, out)
		_ = out.Close()
	}()
	for i := range 100 {
		line := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(sink, line); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(line))
		if _, err := io.ReadFull(follower, got); err != nil || string(got) != line {
			t.Fatalf("followed %q, %v; want %q", got, err, line)
		}
	}
	_ = sink.Close()
	if err := <-copied; err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(follower); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
}

func TestFollowersLeaveWithTheirContext(t *testing.T) {
	l := newLog(t)
	feed(t, l, Stdout, "one\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := l.Read(ctx, ReadOptions{Follow: true}, &out); err != nil || out.String() != "one\n" {
		t.Errorf("Read() = %q, %v", out.String(), err)
	}
}
