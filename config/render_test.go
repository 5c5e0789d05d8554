package config

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func render(t *testing.T, overlay string) []unstructured.Unstructured {
	t.Helper()
	raw, err := rendered[overlay]()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, raw)
}

// rendered builds each overlay once: every test looks at one, and none changes what it got.
var rendered = map[string]func() ([]byte, error){
	OverlayDefault: sync.OnceValues(func() ([]byte, error) { return Render(OverlayDefault) }),
	OverlayDev:     sync.OnceValues(func() ([]byte, error) { return Render(OverlayDev) }),
}

// parse returns the objects of YAML documents.
func parse(t *testing.T, raw []byte) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	for doc := range strings.SplitSeq(string(raw), "\n---\n") {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, u)
	}
	return objects
}

// typed returns the objects of one kind, decoded strictly: a field that does not exist fails the test.
func typed[T any](t *testing.T, objects []unstructured.Unstructured, kind string) map[string]*T {
	t.Helper()
	found := map[string]*T{}
	for _, u := range objects {
		if u.GetKind() != kind {
			continue
		}
		into := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, into, true); err != nil {
			t.Fatalf("decoding %s %s: %v", kind, u.GetName(), err)
		}
		found[u.GetName()] = into
	}
	return found
}

func TestRenderInstallsAllKinds(t *testing.T) {
	dev := []string{
		"ClusterRole/kruntimes-edit", "ClusterRole/kruntimes-manager", "ClusterRole/kruntimes-runtimed",
		"ClusterRole/kruntimes-scheduler", "ClusterRole/kruntimes-view",
		"ClusterRole/kruntimes-admission", "ClusterRole/kruntimes-workspace-user", "ClusterRoleBinding/kruntimes-admission",
		"CustomResourceDefinition/persistentworkspaces.workspaces.kruntimes.io", "ValidatingWebhookConfiguration/kruntimes-workspace-use",
		"ValidatingWebhookConfiguration/kruntimes-workflow-validity",
		"ClusterRole/kruntimes-metrics-auth", "ClusterRole/kruntimes-metrics-reader",
		"ClusterRoleBinding/kruntimes-manager", "ClusterRoleBinding/kruntimes-scheduler", "ClusterRoleBinding/kruntimes-metrics-auth",
		"CustomResourceDefinition/actions.workflows.kruntimes.io",
		"CustomResourceDefinition/runs.kruntimes.io", "CustomResourceDefinition/runtimes.kruntimes.io",
		"CustomResourceDefinition/workflowruns.workflows.kruntimes.io", "CustomResourceDefinition/workflows.workflows.kruntimes.io",
		"ValidatingAdmissionPolicy/kruntimes-workspace-group", "ValidatingAdmissionPolicyBinding/kruntimes-workspace-group",
		"ValidatingAdmissionPolicy/kruntimes-runtime-tokens", "ValidatingAdmissionPolicyBinding/kruntimes-runtime-tokens",
		"ValidatingAdmissionPolicy/kruntimes-workflow-status", "ValidatingAdmissionPolicyBinding/kruntimes-workflow-status",
		"ValidatingAdmissionPolicy/kruntimes-namespace-status", "ValidatingAdmissionPolicyBinding/kruntimes-namespace-status",
		"FlowSchema/kruntimes-components", "Namespace/kruntimes-system",
		"Role/kruntimes-system/kruntimes-leader-election", "RoleBinding/kruntimes-system/kruntimes-leader-election",
		"ServiceAccount/kruntimes-system/kruntimes-manager", "ServiceAccount/kruntimes-system/kruntimes-scheduler",
		"ValidatingAdmissionPolicy/kruntimes-runtime-status", "ValidatingAdmissionPolicyBinding/kruntimes-runtime-status",
		"ValidatingAdmissionPolicy/kruntimes-run-identity", "ValidatingAdmissionPolicy/kruntimes-run-status",
		"ValidatingAdmissionPolicyBinding/kruntimes-run-identity", "ValidatingAdmissionPolicyBinding/kruntimes-run-status",
		"ValidatingAdmissionPolicy/kruntimes-workflow-run-identity", "ValidatingAdmissionPolicy/kruntimes-workflow-run-outputs",
		"ValidatingAdmissionPolicy/kruntimes-workspace-cleanup", "ValidatingAdmissionPolicy/kruntimes-workspace-status",
		"ValidatingAdmissionPolicyBinding/kruntimes-workspace-cleanup", "ValidatingAdmissionPolicyBinding/kruntimes-workspace-status",
		"ValidatingAdmissionPolicyBinding/kruntimes-workflow-run-identity",
		"ValidatingAdmissionPolicyBinding/kruntimes-workflow-run-outputs",
	}
	deployments := []string{"Deployment/kruntimes-system/kruntimes-manager", "Deployment/kruntimes-system/kruntimes-scheduler",
		"Service/kruntimes-system/kruntimes-webhook",
		"Certificate/kruntimes-system/kruntimes-webhook", "Certificate/kruntimes-system/kruntimes-webhook-authority",
		"Issuer/kruntimes-system/kruntimes-self-signed", "Issuer/kruntimes-system/kruntimes-webhook-authority"}
	for overlay, want := range map[string][]string{OverlayDev: dev, OverlayDefault: append(deployments, dev...)} {
		var got []string
		for _, u := range render(t, overlay) {
			id := u.GetKind()
			if u.GetNamespace() != "" {
				id += "/" + u.GetNamespace()
			}
			got = append(got, id+"/"+u.GetName())
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("overlay %s (-want +got):\n%s", overlay, diff)
		}
	}
}

func TestRenderNamesAnUnknownOverlay(t *testing.T) {
	if _, err := Render("prod"); err == nil || !strings.Contains(err.Error(), `"prod"`) {
		t.Errorf("got error %v, want one that names the overlay", err)
	}
}

// TestDefinitionsStaySmall keeps room in the annotation in which client-side apply stores the whole object.
func TestDefinitionsStaySmall(t *testing.T) {
	for _, u := range render(t, OverlayDev) {
		compact, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		if len(compact) > 250_000 {
			t.Errorf("%s %s has %d bytes as compact JSON, more than 250,000", u.GetKind(), u.GetName(), len(compact))
		}
	}
}

func TestRolesHaveNoWildcardAndOnlyTheControlPlaneGoverns(t *testing.T) {
	objects := render(t, OverlayDefault)
	var governors, tellers []string
	for name, role := range typed[rbacv1.ClusterRole](t, objects, "ClusterRole") {
		for _, rule := range role.Rules {
			if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*") {
				t.Errorf("%s has a wildcard: %v", name, rule)
			}
			if slices.Contains(rule.Verbs, "govern") {
				governors = append(governors, name)
			}
			if slices.Contains(rule.Verbs, "bind") && !cmp.Equal(rule.ResourceNames, []string{RuntimedClusterRole}) {
				t.Errorf("%s may bind %v, want only %s", name, rule.ResourceNames, RuntimedClusterRole)
			}
			if slices.Contains(rule.Resources, "events") {
				tellers = append(tellers, name)
				if want := []string{"get", "create", "patch"}; !cmp.Equal(rule.Verbs, want) || !cmp.Equal(rule.APIGroups, []string{"events.k8s.io"}) {
					t.Errorf("%s may %v events of %v, want %v of events.k8s.io only", name, rule.Verbs, rule.APIGroups, want)
				}
			}
			if strings.HasSuffix(name, "-edit") && slices.Contains(rule.Resources, "runs/status") {
				t.Errorf("%s lets people write runs/status", name)
			}
		}
	}
	slices.Sort(governors)
	if diff := cmp.Diff([]string{"kruntimes-manager", "kruntimes-scheduler"}, governors); diff != "" {
		t.Errorf("roles that govern (-want +got):\n%s", diff)
	}
	slices.Sort(tellers)
	if diff := cmp.Diff([]string{"kruntimes-manager", "kruntimes-scheduler"}, tellers); diff != "" {
		t.Errorf("roles that write events in every namespace (-want +got):\n%s", diff)
	}
}

func TestDeploymentsAreRestricted(t *testing.T) {
	deployments := typed[appsv1.Deployment](t, render(t, OverlayDefault), "Deployment")
	for name, d := range deployments {
		pod := d.Spec.Template.Spec
		c := pod.Containers[0]
		switch {
		case pod.SecurityContext == nil || pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot:
			t.Errorf("%s may run as root", name)
		case c.SecurityContext == nil || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation:
			t.Errorf("%s has a writable root or may gain privileges", name)
		case c.LivenessProbe == nil || c.ReadinessProbe == nil:
			t.Errorf("%s lacks a probe", name)
		case c.Resources.Requests == nil:
			t.Errorf("%s requests no resources", name)
		}
	}
	env := map[string]string{}
	for _, e := range deployments["kruntimes-manager"].Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["RUNTIMED_CLUSTER_ROLE"] != RuntimedClusterRole {
		t.Errorf("the manager is told to bind %q, want %q", env["RUNTIMED_CLUSTER_ROLE"], RuntimedClusterRole)
	}
}

// TestWhatTheManagerMayDoWithWorkflows holds its rights to what its controllers do: it makes and cancels the WorkflowRuns of calls,
// and writes of definitions only what it says about them.
func TestWhatTheManagerMayDoWithWorkflows(t *testing.T) {
	got := map[string][]string{}
	for _, rule := range typed[rbacv1.ClusterRole](t, render(t, OverlayDefault), "ClusterRole")[ManagerServiceAccount].Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if group == "workflows.kruntimes.io" || resource == "controllerrevisions" {
					got[resource] = append(got[resource], rule.Verbs...)
				}
			}
		}
	}
	want := map[string][]string{
		"workflowruns": {"get", "list", "watch", "create", "patch", "delete"}, "workflowruns/status": {"patch"}, "workflowruns/finalizers": {"update"},
		"workflows": {"get", "list", "watch"}, "workflows/status": {"patch"},
		"actions": {"get", "list", "watch"}, "actions/status": {"patch"},
		"controllerrevisions": {"get", "list", "create"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}
