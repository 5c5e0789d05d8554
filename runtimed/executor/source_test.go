package executor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/runtimed/staging"
)

func TestProgramFor(t *testing.T) {
	interpreter := append(make([]string, 0, 9), "python3", "-u")
	cases := map[string]struct {
		entry staging.Entrypoint
		want  program
	}{
		"a plain file": {staging.Entrypoint{Path: "/w/a"}, program{words: []string{"python3", "-u", "/w/a"}, interpreter: "python3"}},
		"a script":     {staging.Entrypoint{Path: "/w/a", Direct: true, Interpreter: "/bin/sh"}, program{words: []string{"/w/a"}, interpreter: "/bin/sh"}},
		"a binary":     {staging.Entrypoint{Path: "/w/a", Direct: true}, program{words: []string{"/w/a"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := programFor(tc.entry, interpreter)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(program{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff([]string{"python3", "-u", ""}, interpreter[:3]); diff != "" {
				t.Errorf("the interpreter was changed:\n%s", diff)
			}
		})
	}
}
