package statuspatch

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBounded(t *testing.T) {
	cases := map[string]struct {
		text string
		size int
		want string
	}{
		"short text stays":                    {"abc", 3, "abc"},
		"long text ends with a sign":          {"abcdefgh", 6, "abc…"},
		"no character is cut in two":          {"aäää", 6, "aä…"},
		"no room for a sign":                  {"abcdef", 2, "ab"},
		"no room at all":                      {"abcdef", 0, ""},
		"a first character that does not fit": {"…abc", 4, "…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Bounded(tc.text, tc.size); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func FuzzBounded(f *testing.F) {
	f.Add("aäää", 4)
	f.Add(strings.Repeat("x", 100), 7)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = max(size%1000, 0)
		got := Bounded(text, size)
		if len(got) > size && len(got) > 0 && len(text) > size {
			t.Errorf("%d bytes, more than %d", len(got), size)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q is no UTF-8", got)
		}
	})
}
