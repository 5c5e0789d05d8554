package core

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/apply"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/test/envtest/cluster"
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
	standInForCertManager(t)
	first := kubectlApply(t, manifests)
	// No manager runs here whom the API server could ask.
	webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "kruntimes-workspace-use"}}
	t.Cleanup(func() {
		if err := shared.Admin().Delete(context.WithoutCancel(t.Context()), webhooks); err != nil {
			t.Errorf("deleting the webhooks: %v", err)
		}
	})
	if !strings.Contains(first, "deployment.apps/kruntimes-manager created") {
		t.Errorf("the first time kubectl said:\n%s", first)
	}
	// Meanwhile cert-manager has said whom the API server is to trust.
	trust := []byte(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"` + base64.StdEncoding.EncodeToString(shared.Config().CAData) + `"}]`)
	if err := shared.Admin().Patch(t.Context(), webhooks, client.RawPatch(types.JSONPatchType, trust)); err != nil {
		t.Fatal(err)
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
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(webhooks), webhooks); err != nil || len(webhooks.Webhooks[0].ClientConfig.CABundle) == 0 {
		t.Errorf("afterwards the API server trusts nobody: %v", err)
	}
}

// standInForCertManager makes the API server take the kinds of cert-manager that the overlay uses.
func standInForCertManager(t *testing.T) {
	t.Helper()
	for kind, plural := range map[string]string{"Certificate": "certificates", "Issuer": "issuers"} {
		crd := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": plural + ".cert-manager.io"},
			"spec": map[string]any{
				"group": "cert-manager.io", "scope": "Namespaced",
				"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind)},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
					"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
			},
		}}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		shared.Create(t, crd)
		cluster.Eventually(t, "kind "+kind, func(ctx context.Context) (bool, error) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kind + "List"})
			err := shared.Admin().List(ctx, list)
			return err == nil, err
		})
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
