package admission

import (
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/auth"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// TestKubectlTellsWhoMayUseAWorkspace asks as docs/security.md says, and compares the answer with what admission does.
func TestKubectlTellsWhoMayUseAWorkspace(t *testing.T) {
	ns := shared.Namespace(t)
	startManager(t, ns)
	shared.Create(t, newWorkspace(ns, "ci"))
	shared.Create(t, newWorkspace(ns, "secret"))
	ann := shared.User(t, ns, "ann", writeRuns, use("ci"))
	for workspace, want := range map[string]bool{"ci": true, "secret": false} {
		flags := genericclioptions.NewConfigFlags(false)
		flags.Namespace = &ns
		flags.WrapConfigFn = func(*rest.Config) *rest.Config { return rest.CopyConfig(ann) }
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		question := &auth.CanIOptions{IOStreams: streams, Subresource: "use"}
		if err := question.Complete(cmdutil.NewFactory(flags), []string{"use", "persistentworkspaces.workspaces.kruntimes.io/" + workspace}); err != nil {
			t.Fatal(err)
		}
		if err := question.Validate(); err != nil {
			t.Fatal(err)
		}
		got, err := question.RunAccessCheck()
		if got != want || err != nil {
			t.Errorf("kubectl said %t about workspace %s (%s, %v), want %t", got, workspace, out, err, want)
		}
		err = newClient(t, ann).Create(t.Context(), newRun(ns, "in-"+workspace, workspace))
		if (err == nil) != want {
			t.Errorf("a Run in workspace %s: %v", workspace, err)
		}
	}
}
