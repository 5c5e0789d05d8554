package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/config/selfinstall"
)

const root = "../.."

func tree(t *testing.T) (input, *parts) {
	t.Helper()
	in, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sortOut(in.rendered)
	if err != nil {
		t.Fatal(err)
	}
	return in, p
}

// TestTheManagerKeepsWhatTheBundleCannotHold holds the program of the manager, its rights and the bundle against each other.
func TestTheManagerKeepsWhatTheBundleCannotHold(t *testing.T) {
	_, p := tree(t)
	kept, err := selfinstall.Policies()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.policies, kept); diff != "" {
		t.Errorf("policies of the tree and of the manager, run make bundle (-want +got):\n%s", diff)
	}
	want := map[string][]string{"clusterroles": selfinstall.ClusterRoles}
	resources := map[string]string{"ValidatingAdmissionPolicy": "validatingadmissionpolicies",
		"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings", "FlowSchema": "flowschemas"}
	for _, policy := range kept {
		want[resources[policy.GetKind()]] = append(want[resources[policy.GetKind()]], policy.GetName())
	}
	got := map[string][]string{}
	for _, rule := range rules(t, p.clusterPermissions[manager]) {
		for _, resource := range rule.Resources {
			if want[resource] != nil && !slices.Contains(rule.Verbs, "bind") {
				got[resource] = append(got[resource], rule.ResourceNames...)
			}
		}
	}
	for _, names := range slices.Concat(slices.Collect(maps.Values(got)), slices.Collect(maps.Values(want))) {
		slices.Sort(names)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names that the manager may change (-want +got):\n%s", diff)
	}
	var roles []string
	for _, object := range p.objects {
		if object.GetKind() == "ClusterRole" {
			roles = append(roles, object.GetName())
		}
	}
	slices.Sort(roles)
	if diff := cmp.Diff(selfinstall.ClusterRoles, roles); diff != "" {
		t.Errorf("ClusterRoles of the bundle, which the manager has removed with it (-want +got):\n%s", diff)
	}
}

func rules(t *testing.T, list []any) []rbacv1.PolicyRule {
	t.Helper()
	all := make([]rbacv1.PolicyRule, len(list))
	for i := range list {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list[i].(map[string]any), &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestOnlyTheManagerIsAllowedWhatTheBundleAdds compares with the roles of config/default, which have other names.
func TestOnlyTheManagerIsAllowedWhatTheBundleAdds(t *testing.T) {
	_, p := tree(t)
	usual, err := render(root + "/config/default")
	if err != nil {
		t.Fatal(err)
	}
	want, err := sortOutRights(usual)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.permissions, p.permissions); diff != "" {
		t.Errorf("rights in the namespace (-config/default +bundle):\n%s", diff)
	}
	accounts := slices.Concat(slices.Collect(maps.Keys(want.clusterPermissions)), slices.Collect(maps.Keys(p.clusterPermissions)))
	slices.Sort(accounts)
	for _, account := range slices.Compact(accounts) {
		added := rules(t, p.clusterPermissions[account])
		for _, rule := range rules(t, want.clusterPermissions[account]) {
			at := slices.IndexFunc(added, func(r rbacv1.PolicyRule) bool { return cmp.Equal(r, rule) })
			if at < 0 {
				t.Errorf("%s lacks %v", account, rule)
				continue
			}
			added = slices.Delete(added, at, at+1)
		}
		if account != manager && len(added) > 0 {
			t.Errorf("%s may also %v", account, added)
		}
		for _, rule := range added {
			if !slices.Contains([]string{"admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io", "rbac.authorization.k8s.io"}, rule.APIGroups[0]) {
				t.Errorf("%s may also %v", account, rule)
			}
		}
	}
}

// sortOutRights leaves out what config/default has and a bundle cannot hold.
func sortOutRights(rendered []*unstructured.Unstructured) (*parts, error) {
	return sortOut(slices.DeleteFunc(rendered, func(object *unstructured.Unstructured) bool {
		return slices.Contains([]string{"Namespace", "Service", "Certificate", "Issuer", "ValidatingWebhookConfiguration"}, object.GetKind())
	}))
}

func TestWhatABundleCannotSayIsRefused(t *testing.T) {
	cases := map[string]struct{ objects, want string }{
		"a kind that OLM does not know": {
			objects: "{apiVersion: v1, kind: Namespace, metadata: {name: a}}", want: "Namespace a: nobody knows whether a bundle can hold it",
		},
		"a webhook with conditions": {
			objects: "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: w, matchConditions: [{name: c}]}]}",
			want:    "webhook w: a bundle cannot say matchConditions",
		},
		"a webhook for some namespaces": {
			objects: "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: w, namespaceSelector: {matchLabels: {a: b}}}]}",
			want:    "webhook w: a bundle cannot say namespaceSelector",
		},
		"a role for nobody": {
			objects: "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}}", want: "role a is bound to nobody",
		},
		"a binding of a foreign role": {
			objects: "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}, roleRef: {kind: ClusterRole, name: admin}}",
			want:    "ClusterRoleBinding a binds ClusterRole admin, which is not there",
		},
		"a binding to a user": {
			objects: "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}}\n---\n" +
				"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}, roleRef: {kind: ClusterRole, name: a}, subjects: [{kind: User, name: ann}]}",
			want: `ClusterRoleBinding a has subject "ann", which is no ServiceAccount of ours`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, err := config.Objects([]byte(tc.objects))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if _, err := sortOut(objects); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got error %q, want %q", got, tc.want)
			}
		})
	}
}

func TestServiceVersion(t *testing.T) {
	in, p := tree(t)
	csv, err := serviceVersion(in, p, release{version: "1.2.3-rc.1", replaces: "kruntimes.v1.2.2", skipRange: ">=1.0.0 <1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	spec := csv.Object["spec"].(map[string]any)
	got := []any{csv.GetName(), spec["version"], spec["replaces"], csv.GetAnnotations()["olm.skipRange"], csv.GetAnnotations()["containerImage"]}
	if diff := cmp.Diff([]any{"kruntimes.v1.2.3-rc.1", "1.2.3-rc.1", "kruntimes.v1.2.2", ">=1.0.0 <1.2.3", "kruntimes/controlplane:dev"}, got); diff != "" {
		t.Errorf("the release (-want +got):\n%s", diff)
	}
	var examples []map[string]any
	if err := yaml.Unmarshal([]byte(csv.GetAnnotations()["alm-examples"]), &examples); err != nil || len(examples) != len(in.samples) {
		t.Errorf("%d examples of %d samples: %v", len(examples), len(in.samples), err)
	}
	for _, version := range []string{"", "v1.2.3", "1.2", "1.2.3+build", strings.Repeat("1", 3)} {
		if _, err := serviceVersion(in, p, release{version: version}); err == nil {
			t.Errorf("version %q was accepted", version)
		}
	}
	in.base.Object["spec"].(map[string]any)["customresourcedefinitions"] = map[string]any{}
	if _, err := serviceVersion(in, p, release{version: "1.2.3"}); err == nil {
		t.Error("a bundle was made whose kinds nobody describes")
	}
}

func TestTheBundleStaysWhenTheNextCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	before := filepath.Join(dir, "bundle", "before")
	if err := os.MkdirAll(before, 0o755); err != nil {
		t.Fatal(err)
	}
	csv := &unstructured.Unstructured{Object: map[string]any{"spec": make(chan int)}}
	if err := write(dir, input{}, &parts{}, csv, release{}); err == nil {
		t.Error("what has no encoding was written")
	}
	if _, err := os.Stat(before); err != nil {
		t.Errorf("the bundle before is gone: %v", err)
	}
}
