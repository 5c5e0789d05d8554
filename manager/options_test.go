package manager

import (
	"testing"

	"k8s.io/client-go/rest"
)

func TestValidate(t *testing.T) {
	valid := func(change func(*Options)) Options {
		o := Options{Config: &rest.Config{}, NodeImage: "node:1"}
		if change != nil {
			change(&o)
		}
		return o
	}
	cases := map[string]struct {
		options Options
		want    string
	}{
		"defaults":       {valid(nil), ""},
		"no user":        {valid(func(o *Options) { o.DefaultRunAsUser = "none" }), ""},
		"another user":   {valid(func(o *Options) { o.DefaultRunAsUser = "1000" }), ""},
		"nothing at all": {Options{}, "no configuration to reach the API server with\n--node-image is required"},
		"root": {valid(func(o *Options) { o.DefaultRunAsUser = "0" }),
			`--default-run-as-user: "0" is neither none nor the number of a user other than root`},
		"a user by name": {valid(func(o *Options) { o.DefaultRunAsUser = "nobody" }),
			`--default-run-as-user: "nobody" is neither none nor the number of a user other than root`},
		"workflows alone": {valid(func(o *Options) { o.Groups = []string{"workflows"} }),
			"--groups: workflows needs core: use --groups=core,workflows"},
		"workspaces alone": {valid(func(o *Options) { o.Groups = []string{"workspaces"} }),
			"--groups: workspaces needs core: use --groups=core,workspaces"},
		"a group that does not exist": {valid(func(o *Options) { o.Groups = []string{"core", "jobs"} }),
			`--groups: "jobs" is not one of core, workspaces, workflows`},
		"a group that is to come": {valid(func(o *Options) { o.Groups = []string{"core", "workspaces"} }),
			"--groups: workspaces is not part of this version yet: use --groups=core,workflows"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := tc.options.Validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
