package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/apply"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// KubectlApply applies as "kubectl apply -f" does, on the client's side, and returns what it prints.
func (c *Cluster) KubectlApply(tb testing.TB, manifests []byte) string {
	tb.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.WrapConfigFn = func(*rest.Config) *rest.Config { return c.Config() }
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	file := filepath.Join(tb.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, manifests, 0o600); err != nil {
		tb.Fatal(err)
	}
	cmdutil.BehaviorOnFatal(func(message string, _ int) { tb.Fatalf("kubectl apply: %s", message) })
	defer cmdutil.DefaultBehaviorOnFatal()
	cmd := apply.NewCmdApply("kubectl", cmdutil.NewFactory(flags), streams)
	cmd.SetArgs([]string{"-f", file})
	if err := cmd.ExecuteContext(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return out.String()
}

// StandInForCertManager makes the API server take the kinds of cert-manager that the overlays use, until the control plane ends.
func (c *Cluster) StandInForCertManager(tb testing.TB) {
	tb.Helper()
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
		c.Create(tb, crd)
		Eventually(tb, "kind "+kind, func(ctx context.Context) (bool, error) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kind + "List"})
			err := c.admin.List(ctx, list)
			return err == nil, err
		})
	}
}
