package core

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/config"
)

// TestApplyingASecondTimeChangesNothing applies config/default as its documentation says, twice.
func TestApplyingASecondTimeChangesNothing(t *testing.T) {
	manifests, err := config.Render(config.OverlayDefault)
	if err != nil {
		t.Fatal(err)
	}
	shared.StandInForCertManager(t)
	first := shared.KubectlApply(t, manifests)
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
	second := shared.KubectlApply(t, manifests)
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
