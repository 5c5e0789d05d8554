package groups

import "testing"

func TestValidate(t *testing.T) {
	cases := map[string]struct {
		groups []string
		want   string
	}{
		"none, for the default": {nil, ""},
		"all":                   {All(), ""},
		"in another order":      {[]string{"workflows", "core", "workspaces"}, ""},
		"core alone":            {[]string{"core"}, ""},
		"without workflows":     {[]string{"core", "workspaces"}, ""},
		"workspaces alone":      {[]string{"workspaces"}, "--groups: workspaces needs core: use --groups=core,workspaces"},
		"workflows alone":       {[]string{"workflows"}, "--groups: workflows needs core and workspaces: use --groups=core,workspaces,workflows"},
		"without workspaces":    {[]string{"core", "workflows"}, "--groups: workflows needs workspaces: use --groups=core,workspaces,workflows"},
		"one that does not exist, and one that lacks another": {[]string{"jobs", "workspaces"},
			"--groups: \"jobs\" is not one of core, workspaces, workflows\n--groups: workspaces needs core: use --groups=core,workspaces"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Validate(tc.groups); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
