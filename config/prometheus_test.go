package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// renderWith renders the default overlay as it is after "kustomize edit add component ../components/<component>".
func renderWith(t *testing.T, component string) []unstructured.Unstructured {
	t.Helper()
	return parse(t, build(t, OverlayDefault, func(k kustomization) { k.add("components", "../components/"+component) }))
}

// scrape is a port of a container that a ServiceMonitor leads to.
type scrape struct{ Deployment, Scheme, Path, Argument string }

// TestServiceMonitorsLeadToTheMetrics follows the references: ServiceMonitor, Service, Pods of a Deployment, port of a
// container, and the argument that makes the container listen there.
func TestServiceMonitorsLeadToTheMetrics(t *testing.T) {
	objects := renderWith(t, "prometheus")
	services := typed[corev1.Service](t, objects, "Service")
	deployments := typed[appsv1.Deployment](t, objects, "Deployment")
	got := map[string][]scrape{}
	for _, monitor := range objects {
		if monitor.GetKind() != "ServiceMonitor" {
			continue
		}
		wanted, _, _ := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
		endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
		for _, service := range services {
			if service.Namespace != monitor.GetNamespace() || !labels.SelectorFromSet(wanted).Matches(labels.Set(service.Labels)) {
				continue
			}
			for _, raw := range endpoints {
				endpoint, _ := raw.(map[string]any)
				got[monitor.GetName()] = append(got[monitor.GetName()], follow(endpoint, service, deployments)...)
			}
		}
	}
	want := map[string][]scrape{
		"kruntimes-manager":   {{"kruntimes-manager", "https", "/metrics", "--metrics-address=:8443"}},
		"kruntimes-scheduler": {{"kruntimes-scheduler", "https", "/metrics", "--metrics-address=:8443"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is scraped (-want +got):\n%s", diff)
	}
}

// follow goes from an endpoint of a ServiceMonitor to the containers behind it.
func follow(endpoint map[string]any, service *corev1.Service, deployments map[string]*appsv1.Deployment) []scrape {
	var found []scrape
	scheme, _ := endpoint["scheme"].(string)
	where, _ := endpoint["path"].(string)
	for _, port := range service.Spec.Ports {
		if port.Name != endpoint["port"] {
			continue
		}
		for name, d := range deployments {
			pod := d.Spec.Template
			if d.Namespace != service.Namespace || !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
				continue
			}
			c := pod.Spec.Containers[0]
			if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
				return p.Name == port.TargetPort.StrVal && p.ContainerPort == port.Port
			}) {
				at := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--metrics-address=") })
				found = append(found, scrape{name, scheme, where, c.Args[at]})
			}
		}
	}
	return found
}

// TestTheComponentAddsNothingElse keeps the component to what it is for.
func TestTheComponentAddsNothingElse(t *testing.T) {
	before := map[string]bool{}
	for _, u := range render(t, OverlayDefault) {
		before[u.GetKind()+"/"+u.GetName()] = true
	}
	var added []string
	for _, u := range renderWith(t, "prometheus") {
		if id := u.GetKind() + "/" + u.GetName(); !before[id] {
			added = append(added, id+" in "+u.GetNamespace())
		}
	}
	slices.Sort(added)
	want := []string{
		"Service/kruntimes-manager-metrics in kruntimes-system", "Service/kruntimes-scheduler-metrics in kruntimes-system",
		"ServiceMonitor/kruntimes-manager in kruntimes-system", "ServiceMonitor/kruntimes-scheduler in kruntimes-system",
	}
	if diff := cmp.Diff(want, added); diff != "" {
		t.Errorf("added objects (-want +got):\n%s", diff)
	}
}

// TestOnlyTheComponentsAskWhoReadsMetrics keeps the right to review tokens where it is used, and that to read metrics to a
// role that nobody has by default.
func TestOnlyTheComponentsAskWhoReadsMetrics(t *testing.T) {
	objects := render(t, OverlayDefault)
	var subjects []string
	for _, binding := range typed[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding") {
		switch binding.RoleRef.Name {
		case "kruntimes-metrics-reader":
			t.Errorf("%s lets %v read metrics", binding.Name, binding.Subjects)
		case "kruntimes-metrics-auth":
			for _, s := range binding.Subjects {
				subjects = append(subjects, s.Namespace+"/"+s.Name)
			}
		}
	}
	slices.Sort(subjects)
	if diff := cmp.Diff([]string{"kruntimes-system/kruntimes-manager", "kruntimes-system/kruntimes-scheduler"}, subjects); diff != "" {
		t.Errorf("who may review tokens (-want +got):\n%s", diff)
	}
	reader := typed[rbacv1.ClusterRole](t, objects, "ClusterRole")["kruntimes-metrics-reader"]
	if diff := cmp.Diff([]rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}, reader.Rules); diff != "" {
		t.Errorf("what readers of metrics may do (-want +got):\n%s", diff)
	}
}
