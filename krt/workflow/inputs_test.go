package workflow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/krt/cli"
)

func TestInputFlags(t *testing.T) {
	cases := map[string]struct {
		flags   []string
		want    map[string]string
		wantErr string
	}{
		"none":                               {want: map[string]string{}},
		"values with all sorts of things":    {flags: []string{"a=b=c", "text=one\ntwo, three", "empty=", "e=${{ jobs.x }}"}, want: map[string]string{"a": "b=c", "text": "one\ntwo, three", "empty": "", "e": "${{ jobs.x }}"}},
		"one without a value":                {flags: []string{"image"}, wantErr: "--input image has no value"},
		"one without a name":                 {flags: []string{"=x"}, wantErr: "--input =x has no name"},
		"one that is there twice":            {flags: []string{"a=1", "a=1"}, wantErr: "--input a is given twice"},
		"one that is no text":                {flags: []string{"a=\xff"}, wantErr: "--input a holds bytes that are no text in UTF-8"},
		"several that are wrong, all listed": {flags: []string{"x", "a=1", "a=2"}, wantErr: "--input x has no value\n--input a is given twice"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseFlags(tc.flags)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr || cli.ExitCode(err) != cli.ExitUsage {
					t.Errorf("got error %v, exit code %d, want %q", err, cli.ExitCode(err), tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestInputFile(t *testing.T) {
	cases := map[string]struct {
		in   string
		want map[string]string
		// wantErr are the lines below the first.
		wantErr string
	}{
		"nothing":                     {want: map[string]string{}},
		"only a comment":              {in: "# none\n---\n", want: map[string]string{}},
		"texts":                       {in: "a: b\nversion: \"3.10\"\nflag: 'yes'\nnotes: |\n  one\n  two = 2\nempty: ''\nday: 2026-08-01\ntagged: !!str 010\n", want: map[string]string{"a": "b", "version": "3.10", "flag": "yes", "notes": "one\ntwo = 2\n", "empty": "", "day": "2026-08-01", "tagged": "010"}},
		"an alias":                    {in: "a: &x hi\nb: *x\n", want: map[string]string{"a": "hi", "b": "hi"}},
		"JSON":                        {in: "{\"a\": \"b\", \"e\": \"\\ud83d\\ude00 \\/\", \"n\": \"1\\n2\"}\n", want: map[string]string{"a": "b", "e": "😀 /", "n": "1\n2"}},
		"numbers that lose something": {in: "a: 3.10\nb: 010\nc: 1e3\n", wantErr: "<stdin>:1:4: a: must be text, and 3.10 is a number: quote it, as in \"3.10\"\n<stdin>:2:4: b: must be text, and 010 is a number: quote it, as in \"010\"\n<stdin>:3:4: c: must be text, and 1e3 is a number: quote it, as in \"1e3\""},
		"booleans in all words":       {in: "a: yes\nb: on\nc: true\nd: Off\n", wantErr: "<stdin>:1:4: a: must be text, and yes is a boolean: quote it, as in \"yes\"\n<stdin>:2:4: b: must be text, and on is a boolean: quote it, as in \"on\"\n<stdin>:3:4: c: must be text, and true is a boolean: quote it, as in \"true\"\n<stdin>:4:4: d: must be text, and Off is a boolean: quote it, as in \"Off\""},
		"nothing in place of a text":  {in: "a:\nb: ~\n", wantErr: "<stdin>:1:3: a: has no value: write \"\" for the empty text\n<stdin>:2:4: b: has no value: write \"\" for the empty text"},
		"a list":                      {in: "a: [b]\n", wantErr: "<stdin>:1:4: a: must be text, and is a list or a mapping"},
		"a name twice":                {in: "a: b\na: c\n", wantErr: "<stdin>:2:1: \"a\" stands here for the second time"},
		"no mapping":                  {in: "- a\n", wantErr: "<stdin>:1:1: inputs are a mapping of names to texts, and this is none"},
		"two documents":               {in: "a: b\n---\nc: d\n", wantErr: "<stdin>:3:1: there is a second document: inputs are one mapping of names to texts"},
		"no YAML":                     {in: "a: b\n\tc: d\n", wantErr: "<stdin>:2:1: not valid YAML: found a tab character that violates indentation"},
		"JSON with other values":      {in: "{\n  \"a\": 3.10, \"b\": true,\n  \"c\": null, \"d\": {\"x\": []}, \"é\": \"1\", \"é\": \"2\"}", wantErr: "<stdin>:2:8: a: must be text, and 3.10 is a number: quote it, as in \"3.10\"\n<stdin>:2:19: b: must be text, and true is a boolean: quote it, as in \"true\"\n<stdin>:3:8: c: has no value: write \"\" for the empty text\n<stdin>:3:19: d: must be text, and is a list or a mapping\n<stdin>:3:40: \"é\" stands here for the second time"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := readInputs(t.Context(), strings.NewReader(tc.in), "-")
			if tc.wantErr != "" {
				if want := "the inputs in <stdin> are not valid:\n" + tc.wantErr; err == nil || cmp.Diff(want, err.Error()) != "" || cli.ExitCode(err) != cli.ExitUsage {
					t.Errorf("exit code %d, error %v, want\n%s", cli.ExitCode(err), err, want)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestAnInputFileThatCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nope.yaml")
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, []byte("a: "+strings.Repeat("x", 16<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		missing: "reading the inputs: open " + missing + ": no such file or directory",
		large:   "reading the inputs: the file has more than 16 MiB",
	} {
		if _, err := readInputs(t.Context(), nil, file); err == nil || err.Error() != want || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}
