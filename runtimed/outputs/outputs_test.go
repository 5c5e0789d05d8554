package outputs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		file string
		want map[string]string
	}{
		"an empty file has no outputs":               {file: "", want: nil},
		"only empty lines":                           {file: "\n\n\n", want: nil},
		"one value":                                  {file: "a=b\n", want: map[string]string{"a": "b"}},
		"the final newline may be missing":           {file: "a=b", want: map[string]string{"a": "b"}},
		"an empty value":                             {file: "a=\n", want: map[string]string{"a": ""}},
		"everything after the first = is the value":  {file: "a= b=c # \"d\" \n", want: map[string]string{"a": " b=c # \"d\" "}},
		"a carriage return belongs to the value":     {file: "a=b\r\n", want: map[string]string{"a": "b\r"}},
		"unicode":                                    {file: "a=żółć 🦊\n", want: map[string]string{"a": "żółć 🦊"}},
		"a later key wins":                           {file: "a=1\nb=2\na=3\n", want: map[string]string{"a": "3", "b": "2"}},
		"<< after = belongs to the value":            {file: "a=b<<c\n", want: map[string]string{"a": "b<<c"}},
		"= after << belongs to the delimiter":        {file: "a<<E=F\nx\nE=F\n", want: map[string]string{"a": "x"}},
		"several lines":                              {file: "a<<E\nx=1\n\n y \nE\nb=2\n", want: map[string]string{"a": "x=1\n\n y ", "b": "2"}},
		"no line between the delimiters":             {file: "a<<E\nE\n", want: map[string]string{"a": ""}},
		"one empty line between the delimiters":      {file: "a<<E\n\nE\n", want: map[string]string{"a": ""}},
		"two empty lines are one newline":            {file: "a<<E\n\n\nE\n", want: map[string]string{"a": "\n"}},
		"a line that only begins with the delimiter": {file: "a<<E\nEE\nE \nE", want: map[string]string{"a": "EE\nE "}},
		"a delimiter with a blank":                   {file: "a<< E\nx\n E\n", want: map[string]string{"a": "x"}},
		"keys of all characters":                     {file: "aZ-_09=1\n", want: map[string]string{"aZ-_09": "1"}},
		"the longest value":                          {file: "a=" + strings.Repeat("v", MaxValue), want: map[string]string{"a": strings.Repeat("v", MaxValue)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	many := func(n, size int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%d=%s\n", i, strings.Repeat("v", size))
		}
		return b.String()
	}
	cases := map[string]struct {
		file string
		want Error
	}{
		"no operator": {
			file: "a=b\n\nhello\n",
			want: Error{Line: 3, Message: `neither key=value nor key<<DELIMITER: "hello"`},
		},
		"a line of blanks": {
			file: "  \n",
			want: Error{Line: 1, Message: `neither key=value nor key<<DELIMITER: "  "`},
		},
		"a key with a blank": {
			file: "a =b\n",
			want: Error{Line: 1, Message: `the key "a " is not 1 to 63 letters, digits, _ or -`},
		},
		"no key": {
			file: "=b\n",
			want: Error{Line: 1, Message: `the key "" is not 1 to 63 letters, digits, _ or -`},
		},
		"no delimiter": {
			file: "a<<\n",
			want: Error{Line: 1, Message: `no delimiter after << in "a<<"`},
		},
		"a delimiter that never comes is reported where it began": {
			file: "x=1\na<<E\nb=2\nc=3\n",
			want: Error{Line: 2, Message: `the delimiter "E" never comes`},
		},
		"the key of a heredoc is reported where it began": {
			file: "a b<<E\n\n\nE\n",
			want: Error{Line: 1, Message: `the key "a b" is not 1 to 63 letters, digits, _ or -`},
		},
		"invalid UTF-8": {
			file: "a=1\nb=\xff\n",
			want: Error{Line: 2, Message: `the value of b is not valid UTF-8`},
		},
		"a value too large": {
			file: "a=" + strings.Repeat("v", MaxValue+1),
			want: Error{Line: 1, TooLarge: true, Message: `the value of a has 4097 bytes, more than 4096`},
		},
		"too many": {
			file: many(MaxKeys+1, 1),
			want: Error{TooLarge: true, Message: `65 outputs, more than 64`},
		},
		"too large together": {
			file: many(17, MaxValue),
			want: Error{TooLarge: true, Message: `the outputs have 69632 bytes together, more than 65536`},
		},
		"a file too large": {
			file: strings.Repeat("\n", MaxFile+1),
			want: Error{TooLarge: true, Message: `the outputs file holds more than 1048576 bytes`},
		},
		"a long line is quoted in part": {
			file: strings.Repeat("x", 70),
			want: Error{Line: 1, Message: `neither key=value nor key<<DELIMITER: "` + strings.Repeat("x", 64) + `"...`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			values, err := Parse([]byte(tc.file))
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("want an *Error, got %v and %v", values, err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// FuzzParse writes values back in heredoc form and expects the same again.
func FuzzParse(f *testing.F) {
	f.Add([]byte("a=b\nc<<E\n1\n\n2\nE\n"))
	f.Add([]byte("a<<\x00\n\x00\n"))
	f.Add([]byte("a=b\r\n=\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := Parse(file)
		if err != nil {
			if got != nil {
				t.Fatal("both values and an error")
			}
			if err.Error() == "" {
				t.Fatal("an error without words")
			}
			return
		}
		const delimiter = "never in a value, since it is long and odd"
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(got)) {
			if strings.Contains(got[key], delimiter) {
				t.Skip()
			}
			fmt.Fprintf(&b, "%s<<%s\n%s\n%s\n", key, delimiter, got[key], delimiter)
		}
		again, err := Parse([]byte(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("-first +again:\n%s", diff)
		}
	})
}
