package logs

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrefixer(t *testing.T) {
	cases := map[string]struct {
		writes []string
		want   string
	}{
		"lines":              {writes: []string{"a\nb\n", "c\n"}, want: "p | a\np | b\np | c\n"},
		"pieces of a line":   {writes: []string{"a", "b", "c\nd"}, want: "p | abc\np | d\n"},
		"an empty line":      {writes: []string{"\n"}, want: "p | \n"},
		"nothing":            {},
		"a line without end": {writes: []string{strings.Repeat("x", maxLine), "y"}, want: "p | " + strings.Repeat("x", maxLine) + "\np | y\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := &prefixer{mu: &sync.Mutex{}, out: &out, prefix: "p | "}
			for _, w := range tc.writes {
				if n, err := p.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("wrote %d bytes of %d: %v", n, len(w), err)
				}
			}
			if err := p.flush(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
