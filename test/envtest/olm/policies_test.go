package olm

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/config/selfinstall"
	"kruntimes.io/kruntimes/devcluster/ports"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// healthAddress is where one manager answers probes.
func healthAddress(t *testing.T) string {
	t.Helper()
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// isReady asks the readiness probe.
func isReady(ctx context.Context, address string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	return response.StatusCode == http.StatusOK, response.Body.Close()
}

func waitUntilReady(t *testing.T, address string, want bool) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("the manager to be ready: %t", want), func(ctx context.Context) (bool, error) {
		ready, err := isReady(ctx, address)
		return err == nil && ready == want, err
	})
}

// versions are the resource versions of all policies and of the ClusterRoles of the bundle.
func versions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, policy := range policies(t) {
		live, err := stored(t.Context(), policy)
		if err != nil {
			t.Fatal(err)
		}
		all[live.GetKind()+"/"+live.GetName()] = live.GetResourceVersion()
	}
	for _, name := range selfinstall.ClusterRoles {
		all[name] = clusterRole(t, name).ResourceVersion
	}
	return all
}

func clusterRole(t *testing.T, name string) *rbacv1.ClusterRole {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := shared.Admin().Get(t.Context(), types.NamespacedName{Name: name}, role); err != nil {
		t.Fatal(err)
	}
	return role
}

// TestPoliciesAreInstalled starts managers one after the other.
func TestPoliciesAreInstalled(t *testing.T) {
	role := install(t)
	health := healthAddress(t)
	stop := shared.StartManager(t, asBundle(t, func(o *manager.Options) { o.HealthAddress = health }))
	waitUntilReady(t, health, true)
	owner := []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: ownerName, UID: role.UID}}
	for _, policy := range policies(t) {
		live, err := stored(t.Context(), policy)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(policy.Object["spec"], live.Object["spec"]); diff != "" {
			t.Errorf("spec of %s %s: a default is not written out (-manifest +stored):\n%s", policy.GetKind(), policy.GetName(), diff)
		}
		if diff := cmp.Diff(owner, live.GetOwnerReferences()); diff != "" {
			t.Errorf("owner of %s %s (-want +got):\n%s", policy.GetKind(), policy.GetName(), diff)
		}
	}
	for _, name := range selfinstall.ClusterRoles {
		if diff := cmp.Diff(owner, clusterRole(t, name).OwnerReferences); diff != "" {
			t.Errorf("owner of ClusterRole %s (-want +got):\n%s", name, diff)
		}
	}
	stop()

	before := versions(t)
	health = healthAddress(t)
	stop = shared.StartManager(t, asBundle(t, func(o *manager.Options) { o.HealthAddress = health }))
	waitUntilReady(t, health, true)
	if diff := cmp.Diff(before, versions(t)); diff != "" {
		t.Errorf("a second manager wrote what was there (-before +after):\n%s", diff)
	}
	stop()

	// OLM makes a new ClusterRole for a new version. The garbage collector, which is not here, would take the old owner away.
	shared.Delete(t, role)
	role = role.DeepCopy()
	role.UID, role.ResourceVersion = "", ""
	shared.Create(t, role)
	health = healthAddress(t)
	shared.StartManager(t, asBundle(t, func(o *manager.Options) { o.HealthAddress = health }))
	waitUntilReady(t, health, true)
	owner = append(owner, metav1.OwnerReference{APIVersion: owner[0].APIVersion, Kind: owner[0].Kind, Name: ownerName, UID: role.UID})
	live, err := stored(t.Context(), policies(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{live, clusterRole(t, selfinstall.ClusterRoles[0])} {
		if diff := cmp.Diff(owner, object.GetOwnerReferences()); diff != "" {
			t.Errorf("owners of %s after a new version (-want +got):\n%s", object.GetName(), diff)
		}
	}
}

// find returns the policy of a kind and name.
func find(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, policy := range policies(t) {
		if policy.GetKind() == kind && policy.GetName() == name {
			return policy
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

// TestPoliciesAreRestored changes them in every way that puts one out of force.
func TestPoliciesAreRestored(t *testing.T) {
	install(t)
	health := healthAddress(t)
	shared.StartManager(t, asBundle(t, func(o *manager.Options) { o.HealthAddress = health }))
	waitUntilReady(t, health, true)
	const policy, binding = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
	cases := map[string]struct{ kind, name, patch string }{
		"a policy is deleted":                {kind: policy, name: "kruntimes-run-status"},
		"a binding is deleted":               {kind: binding, name: "kruntimes-run-status"},
		"the FlowSchema is deleted":          {kind: "FlowSchema", name: "kruntimes-components"},
		"a binding only warns":               {kind: binding, name: "kruntimes-run-status", patch: `{"spec":{"validationActions":["Warn"]}}`},
		"a binding is for some namespaces":   {kind: binding, name: "kruntimes-run-status", patch: `{"spec":{"matchResources":{"namespaceSelector":{"matchLabels":{"a":"b"}}}}}`},
		"a policy gets a condition":          {kind: policy, name: "kruntimes-run-status", patch: `{"spec":{"matchConditions":[{"name":"never","expression":"false"}]}}`},
		"a policy fails open":                {kind: policy, name: "kruntimes-run-status", patch: `{"spec":{"failurePolicy":"Ignore"}}`},
		"a policy loses its label":           {kind: policy, name: "kruntimes-run-status", patch: `{"metadata":{"labels":null}}`},
		"the FlowSchema gets less than most": {kind: "FlowSchema", name: "kruntimes-components", patch: `{"spec":{"matchingPrecedence":9000}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := find(t, tc.kind, tc.name)
			before, err := stored(t.Context(), want)
			if err != nil {
				t.Fatal(err)
			}
			if tc.patch == "" {
				shared.Delete(t, before.DeepCopy())
			} else if err := shared.Admin().Patch(t.Context(), before.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(tc.patch))); err != nil {
				t.Fatal(err)
			}
			last := ""
			cluster.Eventually(t, "the policy to be restored", func(ctx context.Context) (bool, error) {
				after, err := stored(ctx, want)
				if err != nil {
					return false, err
				}
				last = cmp.Diff([]any{want.Object["spec"], want.GetLabels(), before.GetOwnerReferences()},
					[]any{after.Object["spec"], after.GetLabels(), after.GetOwnerReferences()})
				if last != "" {
					return false, fmt.Errorf("(-want +got):\n%s", last)
				}
				return after.GetResourceVersion() != before.GetResourceVersion(), nil
			})
		})
	}
}

// TestNothingIsMadeForNobody is about the end of an installation: the manager sees policies go, and its owner has gone.
func TestNothingIsMadeForNobody(t *testing.T) {
	role := install(t)
	health := healthAddress(t)
	shared.StartManager(t, asBundle(t, func(o *manager.Options) { o.HealthAddress = health }))
	waitUntilReady(t, health, true)
	role.Labels = nil
	if err := shared.Admin().Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	policy := find(t, "ValidatingAdmissionPolicyBinding", "kruntimes-run-status")
	shared.Delete(t, policy)
	waitUntilReady(t, health, false)
	if _, err := stored(t.Context(), policy); !apierrors.IsNotFound(err) {
		t.Errorf("a policy was made that nobody owns: %v", err)
	}
	role.Labels = map[string]string{"olm.owner": "kruntimes.v0"}
	if err := shared.Admin().Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	waitUntilReady(t, health, true)
}

// TestAManagerWithoutTheRightsDoesNotStart has the rights of config/default.
func TestAManagerWithoutTheRightsDoesNotStart(t *testing.T) {
	role := install(t)
	role.Rules = nil
	for _, permission := range readBundle(t).Spec.Install.Spec.ClusterPermissions {
		for _, rule := range permission.Rules {
			if rule.APIGroups[0] != "admissionregistration.k8s.io" {
				role.Rules = append(role.Rules, rule)
			}
		}
	}
	if err := shared.Admin().Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	options := manager.Options{Config: shared.ServiceAccount(t, "kruntimes-system", account), NodeImage: cluster.NodeImage,
		Admission: manager.AdmissionOptions{CertDir: t.TempDir()}}
	asBundle(t)(&options)
	log, silence := cluster.TestLog(t)
	defer silence()
	err := manager.Run(logr.NewContext(t.Context(), log), options)
	if err == nil || !strings.Contains(err.Error(), "installing the policies: ") || !strings.Contains(err.Error(), "kruntimes-workspace-status") {
		t.Errorf("the manager ended with %v", err)
	}
}
