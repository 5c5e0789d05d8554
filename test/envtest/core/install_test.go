package core

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/apply"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/config"
)

// kubectlApply applies as "kubectl apply" does, on the client's side, and returns what it prints.
func kubectlApply(t *testing.T, manifests []byte) string {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.WrapConfigFn = func(*rest.Config) *rest.Config { return shared.Config() }
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, manifests, 0o600); err != nil {
		t.Fatal(err)
	}
	cmdutil.BehaviorOnFatal(func(message string, _ int) { t.Fatalf("kubectl apply: %s", message) })
	defer cmdutil.DefaultBehaviorOnFatal()
	cmd := apply.NewCmdApply("kubectl", cmdutil.NewFactory(flags), streams)
	cmd.SetArgs([]string{"-f", file})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestApplyingASecondTimeChangesNothing applies config/default as its documentation says, twice.
func TestApplyingASecondTimeChangesNothing(t *testing.T) {
	manifests, err := config.Render(config.OverlayDefault)
	if err != nil {
		t.Fatal(err)
	}
	first := kubectlApply(t, manifests)
	if !strings.Contains(first, "deployment.apps/kruntimes-manager created") {
		t.Errorf("the first time kubectl said:\n%s", first)
	}
	second := kubectlApply(t, manifests)
	lines := strings.Split(strings.TrimSpace(second), "\n")
	if want := bytes.Count(manifests, []byte("\n---\n")) + 1; len(lines) != want {
		t.Errorf("kubectl named %d objects, want %d", len(lines), want)
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, " unchanged") {
			t.Errorf("the second time kubectl said %q", line)
		}
	}
}

func TestTheSamplesAreAccepted(t *testing.T) {
	ns := shared.Namespace(t)
	manifests, err := config.Render("samples")
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(manifests), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetNamespace(ns)
		strict := client.WithFieldValidation(shared.Admin(), "Strict")
		if err := strict.Create(t.Context(), u, client.DryRunAll); err != nil {
			t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}
