package config

import (
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// KindWebhooks is the kind of the object by which the API server is told whom to ask.
const KindWebhooks = "ValidatingWebhookConfiguration"

// ReachWebhooksAt changes a rendered ValidatingWebhookConfiguration for a manager that runs outside of the cluster: each
// webhook is reached under its path at base, such as https://127.0.0.1:9443, and its certificate is checked against
// authority, which is PEM. It fails where a webhook has no Service with a path that could be replaced.
func ReachWebhooksAt(configuration *unstructured.Unstructured, base string, authority []byte) error {
	webhooks, found, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil || !found {
		return fmt.Errorf("%s %s has no list of webhooks", configuration.GetKind(), configuration.GetName())
	}
	for i := range webhooks {
		webhook, ok := webhooks[i].(map[string]any)
		if !ok {
			return fmt.Errorf("webhook %d of %s is no object", i, configuration.GetName())
		}
		path, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		if err != nil || !found {
			return fmt.Errorf("webhook %v of %s has no path", webhook["name"], configuration.GetName())
		}
		webhook["clientConfig"] = map[string]any{"url": base + path, "caBundle": base64.StdEncoding.EncodeToString(authority)}
	}
	if err := unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks"); err != nil {
		return fmt.Errorf("changing %s: %w", configuration.GetName(), err)
	}
	// Nobody is to put another authority there.
	configuration.SetAnnotations(nil)
	return nil
}
