package cluster

import (
	"testing"

	"kruntimes.io/kruntimes/test/cluster/node"
)

func TestWhatTheNodeDoesNotSeeIsRefused(t *testing.T) {
	cases := map[string]struct{ state, program, want string }{
		"a state directory that is hidden": {
			"/var/lib/ci/cluster", "/usr/bin/true", "state directory /var/lib/ci/cluster must not be below /var/lib, which the node does not see",
		},
		"a program that is hidden": {
			"/tmp/no-cluster", "/var/lib/ci/.cache/certmanager",
			"program /var/lib/ci/.cache/certmanager must not be below /var/lib, which the node does not see",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, err := New(Options{State: tc.state})
			if err == nil {
				err = c.Start(t.Context(), node.Part{Name: "part", Args: []string{tc.program}})
			}
			if err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	for _, path := range []string{"/tmp/cluster", "/var/library", "/home/someone/.cache/kruntimes", "relative"} {
		if err := checkSeen("program", path); err != nil {
			t.Errorf("the node sees %s: %v", path, err)
		}
	}
}
