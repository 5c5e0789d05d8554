package main

import (
	"strings"
	"testing"

	"kruntimes.io/kruntimes/runtimeserver"
)

// TestErrorsOfTheCommandLine expects that each is returned: a process that ends within could not be tested.
func TestErrorsOfTheCommandLine(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"no command":                        {nil, "usage: "},
		"an unknown command":                {[]string{"fly"}, "usage: "},
		"a command that takes one argument": {[]string{"install"}, "usage: "},
		"an unknown flag":                   {[]string{"serve", "--no-such-flag"}, "flag provided but not defined: -no-such-flag"},
		"a value of the wrong kind":         {[]string{"serve", "--spare-supervisors=few"}, `invalid value "few"`},
		"a level that is none":              {[]string{"serve", "--v=-1"}, "no number from 0 to 127"},
		"an argument":                       {[]string{"serve", "now"}, `unexpected argument "now"`},
		"an unknown flag of a supervisor":   {[]string{runtimeserver.SuperviseCommand, "--x"}, "flag provided but not defined: -x"},
		"no socket":                         {[]string{"serve"}, "the path of runtimed's socket is missing"},
		"asked for help":                    {[]string{"serve", "-h"}, "help requested"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := run(tc.args); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
		})
	}
}
