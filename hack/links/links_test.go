package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRun(t *testing.T) {
	cases := map[string]struct {
		files   map[string]string
		want    string
		wantErr string
	}{
		"links to files, folders and headings resolve": {
			files: map[string]string{
				"README.md":    "[a](docs/a.md) and [b](docs/a.md#two-words-ok) and [c](docs) and [d](#here)\n\n# Here\n",
				"docs/a.md":    "# One\n## Two words: `ok`\n[up](../README.md \"title\")\n[r]\n\n[r]: ../README.md\n",
				".git/junk.md": "[gone](gone.md)",
			},
			want: "links: 6 relative links in 2 documents resolve\n",
		},
		"a missing file is named with its line": {
			files:   map[string]string{"README.md": "# T\n[a](gone.md)\n"},
			want:    "README.md:2: gone.md: there is no such file\n",
			wantErr: "1 of 1 relative links lead nowhere",
		},
		"a missing heading is named": {
			files:   map[string]string{"README.md": "# T\n[a](#gone)\n"},
			want:    "README.md:2: #gone: there is no such heading\n",
			wantErr: "1 of 1 relative links lead nowhere",
		},
		"other sites, code and headings inside code are left alone": {
			files: map[string]string{
				"README.md": "[a](https://example.com/x) `[b](gone.md)` [c](#t)\n```\n[d](gone.md)\n# Not\n```\n# T\n",
			},
			want: "links: 1 relative links in 1 documents resolve\n",
		},
		"a tree without links is an error": {
			files:   map[string]string{"README.md": "# T\n"},
			wantErr: "found no relative link in 1 documents below .",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for path, text := range tc.files {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			gotErr := ""
			if err := run(&out, "."); err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantErr, gotErr); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}
