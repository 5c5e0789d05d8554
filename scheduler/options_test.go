package scheduler

import (
	"testing"

	"k8s.io/client-go/rest"

	"kruntimes.io/kruntimes/telemetry/endpoint"
)

func TestOptionsAreChecked(t *testing.T) {
	cases := map[string]struct {
		options Options
		want    string
	}{
		"defaults":        {Options{Config: &rest.Config{}}, ""},
		"core alone":      {Options{Config: &rest.Config{}, Groups: []string{"core"}}, ""},
		"workflows alone": {Options{Config: &rest.Config{}, Groups: []string{"workflows"}}, "--groups: workflows needs core and workspaces: use --groups=core,workspaces,workflows"},
		"all that can be wrong": {Options{Groups: []string{"jobs"}, LeaderElection: true, Metrics: endpoint.Options{Address: "here"}},
			"--groups: \"jobs\" is not one of core, workspaces, workflows\nconfig is required\n" +
				"leader election needs a namespace for its Lease\n--metrics-address: address here: missing port in address"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := tc.options.validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
