package logrecord

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 123456789, time.UTC)

func encode(t *testing.T, r Record) string {
	t.Helper()
	var buf bytes.Buffer
	if err := r.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestEncode(t *testing.T) {
	base := Record{Time: noon, Run: "r", UID: "u", Attempt: 1, Stream: Stdout}
	cases := map[string]struct {
		record Record
		want   string
	}{
		"a plain line": {
			record: base.WithBytes([]byte("a <b> & c")),
			want:   `{"time":"2026-08-01T12:00:00.123456789Z","run":"r","uid":"u","attempt":1,"stream":"stdout","line":"a <b> & c"}`,
		},
		"an empty line shows": {
			record: base.WithBytes(nil),
			want:   `{"time":"2026-08-01T12:00:00.123456789Z","run":"r","uid":"u","attempt":1,"stream":"stdout","line":""}`,
		},
		"invalid UTF-8 becomes base64": {
			record: base.WithBytes([]byte{0xff, 0x00}),
			want:   `{"time":"2026-08-01T12:00:00.123456789Z","run":"r","uid":"u","attempt":1,"stream":"stdout","line":"/wA=","encoding":"base64"}`,
		},
		"the end": {
			record: Record{Time: noon, Run: "r", UID: "u", Attempt: 2, End: true},
			want:   `{"time":"2026-08-01T12:00:00.123456789Z","run":"r","uid":"u","attempt":2,"end":true}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := encode(t, tc.record)
			if diff := cmp.Diff(tc.want+"\n", got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			back, ok := Parse([]byte(got))
			if !ok {
				t.Fatal("Parse refused it")
			}
			if diff := cmp.Diff(tc.record, back); diff != "" {
				t.Errorf("after Parse, -want +got:\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	cases := map[string]string{
		"an empty line":          "",
		"text":                   "hello",
		"a line of another log":  `{"level":"info","msg":"Claimed Run","uid":"u"}`,
		"no uid":                 `{"time":"2026-08-01T12:00:00Z","run":"r","attempt":1,"stream":"stdout","line":"x"}`,
		"no attempt":             `{"time":"2026-08-01T12:00:00Z","run":"r","uid":"u","stream":"stdout","line":"x"}`,
		"a third stream":         `{"time":"2026-08-01T12:00:00Z","run":"r","uid":"u","attempt":1,"stream":"stdin","line":"x"}`,
		"an unknown encoding":    `{"time":"2026-08-01T12:00:00Z","run":"r","uid":"u","attempt":1,"stream":"stdout","line":"x","encoding":"rot13"}`,
		"a line that is cut off": `{"time":"2026-08-01T12:00:00Z","run":"r","uid":"u","att`,
	}
	for name, line := range cases {
		t.Run(name, func(t *testing.T) {
			if r, ok := Parse([]byte(line)); ok {
				t.Errorf("Parse accepted %q as %+v", line, r)
			}
		})
	}
}

func TestBytesReportsBrokenBase64(t *testing.T) {
	if _, err := (Record{Line: "%", Encoding: EncodingBase64}).Bytes(); err == nil {
		t.Error("no error")
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("line"), false)
	f.Add([]byte(""), true)
	f.Add([]byte("\r\x00\u2028<&>"), false)
	f.Add([]byte{0xc3}, true)
	f.Fuzz(func(t *testing.T, line []byte, partial bool) {
		if bytes.IndexByte(line, '\n') >= 0 {
			t.Skip("a record holds no newline")
		}
		r := Record{Time: noon, Run: "r", UID: "u", Attempt: 1, Stream: Stderr, Partial: partial}.WithBytes(line)
		text := encode(t, r)
		if strings.Count(text, "\n") != 1 {
			t.Fatalf("not one line: %q", text)
		}
		back, ok := Parse([]byte(text))
		if !ok {
			t.Fatalf("Parse refused %q", text)
		}
		got, err := back.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		want := append([]byte{}, line...)
		if !partial {
			want = append(want, '\n')
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("want %q, got %q", want, got)
		}
	})
}
