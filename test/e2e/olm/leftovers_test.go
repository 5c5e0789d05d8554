//go:build e2eolm

package olm

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// everything lists all objects of the cluster but what comes and goes by itself, as Kind/namespace/name.
func (h *harness) everything(t *testing.T) []string {
	t.Helper()
	found, err := discovery.NewDiscoveryClientForConfigOrDie(h.config).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	objects := metadata.NewForConfigOrDie(h.config)
	var all []string
	for _, list := range found {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" || resource.Kind == "ComponentStatus" || resource.Kind == "Endpoints" {
				continue
			}
			items, err := objects.Resource(gv.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("listing %s: %v", resource.Name, err)
			}
			for _, item := range items.Items {
				all = append(all, resource.Kind+"/"+item.Namespace+"/"+item.Name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// leftovers are the objects that were not there before, without the kinds of kruntimes, what the API server and OLM keep for these as
// long as they are there (their groups, and a ClusterRole for each set of verbs), and the one binding that OLM leaves behind of
// every bundle with webhooks.
func leftovers(before, after []string) []string {
	return slices.DeleteFunc(slices.Clone(after), func(object string) bool {
		kind, name, _ := strings.Cut(object, "//")
		isKept := (kind == "CustomResourceDefinition" || kind == "APIService") && strings.HasSuffix(name, "kruntimes.io") ||
			kind == "ClusterRole" && strings.Contains(name, "kruntimes.io-v1alpha1-") ||
			object == "RoleBinding/kube-system/kruntimes-manager-service-auth-reader"
		return isKept || slices.Contains(before, object)
	})
}
