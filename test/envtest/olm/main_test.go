// Package olm tests what the manager does where OLM installs it: with the rights and the webhooks that the bundle says, against a
// real API server. OLM itself is part of test/e2e/olm.
package olm

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/config/selfinstall"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

const (
	account   = "olm-manager"
	ownerName = "kruntimes.v0-abc"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	shared = cluster.MustStartWithOwnersEnforced()
	defer shared.Stop()
	m.Run()
}

// serviceVersion is the part of the bundle's ClusterServiceVersion that the tests need.
type serviceVersion struct {
	Spec struct {
		Webhooks []map[string]any `json:"webhookdefinitions"`
		Install  struct {
			Spec struct {
				ClusterPermissions []struct {
					ServiceAccountName string              `json:"serviceAccountName"`
					Rules              []rbacv1.PolicyRule `json:"rules"`
				} `json:"clusterPermissions"`
			} `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

func readBundle(t *testing.T) (csv serviceVersion) {
	t.Helper()
	raw, err := os.ReadFile("../../../bundle/manifests/kruntimes.clusterserviceversion.yaml")
	if err == nil {
		err = yaml.Unmarshal(raw, &csv)
	}
	if err != nil {
		t.Fatal(err)
	}
	return csv
}

// install makes what OLM makes for the manager: its ServiceAccount and a ClusterRole with a name of its own, which it returns.
// No policy of another installation stays.
func install(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	for _, policy := range policies(t) {
		if err := client.IgnoreNotFound(shared.Admin().Delete(t.Context(), policy)); err != nil {
			t.Fatal(err)
		}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ownerName, Labels: map[string]string{"olm.owner": "kruntimes.v0"}}}
	for _, permission := range readBundle(t).Spec.Install.Spec.ClusterPermissions {
		if permission.ServiceAccountName == config.ManagerServiceAccount {
			role.Rules = permission.Rules
		}
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: ownerName},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ownerName},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: config.Namespace, Name: account}}}
	for _, object := range []client.Object{role, binding} {
		shared.Create(t, object)
		t.Cleanup(func() {
			if err := client.IgnoreNotFound(shared.Admin().Delete(context.WithoutCancel(t.Context()), object)); err != nil {
				t.Errorf("deleting %s: %v", object.GetName(), err)
			}
		})
	}
	return role
}

// asBundle has a manager run as the bundle says.
func asBundle(t *testing.T, change ...func(*manager.Options)) func(*manager.Options) {
	t.Helper()
	return func(o *manager.Options) {
		o.Config = shared.ServiceAccount(t, config.Namespace, account)
		o.Admission.Controller = config.Namespace + "/" + account
		o.Policies = manager.PolicyOptions{Install: true, OwnerSelector: "olm.owner=kruntimes.v0"}
		for _, f := range change {
			f(o)
		}
	}
}

func policies(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	all, err := selfinstall.Policies()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// stored is a policy as the API server holds it.
func stored(ctx context.Context, policy *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(policy.GroupVersionKind())
	return live, shared.Admin().Get(ctx, client.ObjectKeyFromObject(policy), live)
}

// webhooksOf makes the configurations that OLM makes of the bundle's descriptions, for the manager at address.
func webhooksOf(t *testing.T, address string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, description := range readBundle(t).Spec.Webhooks {
		kind := map[any]string{"ValidatingAdmissionWebhook": "ValidatingWebhookConfiguration",
			"MutatingAdmissionWebhook": "MutatingWebhookConfiguration"}[description["type"]]
		webhook := runtime.DeepCopyJSON(jsonOf(t, description))
		webhook["name"] = description["generateName"]
		webhook["clientConfig"] = map[string]any{"service": map[string]any{"path": description["webhookPath"]}}
		for _, field := range []string{"type", "generateName", "webhookPath", "deploymentName", "containerPort", "targetPort"} {
			delete(webhook, field)
		}
		made := &unstructured.Unstructured{Object: map[string]any{"webhooks": []any{webhook}}}
		made.SetAPIVersion("admissionregistration.k8s.io/v1")
		made.SetKind(kind)
		made.SetGenerateName(description["generateName"].(string) + "-")
		shared.ReachAt(t, made, address)
		all = append(all, made)
	}
	return all
}

// jsonOf has numbers as the API machinery has them.
func jsonOf(t *testing.T, from map[string]any) map[string]any {
	t.Helper()
	raw, err := yaml.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	raw, err = yaml.YAMLToJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(append([]byte(`{"apiVersion":"v1","kind":"Webhook","w":`), append(raw, '}')...)); err != nil {
		t.Fatal(err)
	}
	return object.Object["w"].(map[string]any)
}

func namespaceOf(t *testing.T) string {
	t.Helper()
	ns := shared.Namespace(t)
	t.Cleanup(func() {
		_ = shared.Admin().Delete(context.WithoutCancel(t.Context()), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	})
	return ns
}
