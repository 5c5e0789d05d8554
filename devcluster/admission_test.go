package devcluster

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster/pki"
	"kruntimes.io/kruntimes/groups"
)

// TestOnlyWhatIsAnsweredIsAsked keeps the API server from asking a manager that does not serve the group.
func TestOnlyWhatIsAnsweredIsAsked(t *testing.T) {
	cases := map[string]struct {
		options Options
		want    []string
	}{
		"all groups":           {Options{Groups: groups.All()}, []string{config.WorkflowValidityWebhooks, config.WorkspaceUseWebhooks}},
		"no workflows":         {Options{Groups: []string{groups.Core, groups.Workspaces}}, []string{config.WorkspaceUseWebhooks}},
		"core alone":           {Options{Groups: []string{groups.Core}}, nil},
		"nothing that is ours": {Options{Groups: groups.All(), WithoutProduct: true}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			manifests, err := config.Render(config.DevOverlay(tc.options.Groups))
			if err != nil {
				t.Fatal(err)
			}
			objects, err := config.Objects(manifests)
			if err != nil {
				t.Fatal(err)
			}
			c := &Cluster{options: tc.options, creds: &credentials{authority: &pki.Authority{}}}
			adapted, err := c.adaptAdmission(objects)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, object := range adapted {
				if object != nil && object.GetKind() == config.KindWebhooks {
					got = append(got, object.GetName())
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("webhooks (-want +got):\n%s", diff)
			}
		})
	}
}
