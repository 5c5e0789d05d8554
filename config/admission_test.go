package config

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// certificate is what we use of the kinds Certificate and Issuer of cert-manager; a field that is not here fails the test.
type certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		CommonName string   `json:"commonName"`
		DNSNames   []string `json:"dnsNames"`
		Duration   string   `json:"duration"`
		IsCA       bool     `json:"isCA"`
		IssuerRef  struct {
			Group string `json:"group"`
			Kind  string `json:"kind"`
			Name  string `json:"name"`
		} `json:"issuerRef"`
		PrivateKey struct {
			Algorithm      string `json:"algorithm"`
			RotationPolicy string `json:"rotationPolicy"`
			Size           int64  `json:"size"`
		} `json:"privateKey"`
		SecretName string   `json:"secretName"`
		Usages     []string `json:"usages"`
	} `json:"spec"`
}

type issuer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SelfSigned *struct{} `json:"selfSigned"`
		CA         *struct {
			SecretName string `json:"secretName"`
		} `json:"ca"`
	} `json:"spec"`
}

// only returns the one object of a kind.
func only[T any](t *testing.T, objects map[string]*T) *T {
	t.Helper()
	if len(objects) != 1 {
		t.Fatalf("got %d objects of type %T, want 1", len(objects), *new(T))
	}
	for _, object := range objects {
		return object
	}
	return nil
}

// TestTheWebhookDecidesOnlyWhereItMust holds what the seed and the decisions ask of the configuration.
func TestTheWebhookDecidesOnlyWhereItMust(t *testing.T) {
	got := only(t, typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, render(t, OverlayDefault), KindWebhooks))
	want := []admissionregistrationv1.ValidatingWebhook{{
		Name: "workspace-use.kruntimes.io", AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: Namespace, Name: "kruntimes-webhook", Path: ptr.To("/validate-kruntimes-io-v1alpha1-run"), Port: ptr.To(int32(443))}},
		FailurePolicy: ptr.To(admissionregistrationv1.Fail), MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: ptr.To(int32(5)),
		MatchConditions:   []admissionregistrationv1.MatchCondition{{Name: "names-a-workspace", Expression: "has(object.spec.workspace)"}},
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{"kruntimes.io"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"runs"},
				Scope: ptr.To(admissionregistrationv1.NamespacedScope)}}},
	}}
	if diff := cmp.Diff(want, got.Webhooks); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

// TestTheWebhookLeadsToTheManager follows the references: configuration, Service, port of the Deployment's container, the
// argument that makes the manager listen there.
func TestTheWebhookLeadsToTheManager(t *testing.T) {
	objects := render(t, OverlayDefault)
	configuration := only(t, typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, KindWebhooks))
	reference := configuration.Webhooks[0].ClientConfig.Service
	service := typed[corev1.Service](t, objects, "Service")[reference.Name]
	if service == nil || service.Namespace != reference.Namespace {
		t.Fatalf("there is no Service %s in %s", reference.Name, reference.Namespace)
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == *reference.Port })
	if i < 0 {
		t.Fatalf("Service %s has no port %d", service.Name, *reference.Port)
	}
	manager := typed[appsv1.Deployment](t, objects, "Deployment")["kruntimes-manager"]
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(manager.Spec.Template.Labels)) {
		t.Errorf("Service %s selects %v, and the manager has %v", service.Name, service.Spec.Selector, manager.Spec.Template.Labels)
	}
	for name, other := range typed[appsv1.Deployment](t, objects, "Deployment") {
		if name != manager.Name && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(other.Spec.Template.Labels)) {
			t.Errorf("Service %s selects the Pods of %s as well", service.Name, name)
		}
	}
	container := manager.Spec.Template.Spec.Containers[0]
	for _, port := range container.Ports {
		if port.Name == service.Spec.Ports[i].TargetPort.StrVal {
			if want := "--webhook-address=:" + strconv.Itoa(int(port.ContainerPort)); !slices.Contains(container.Args, want) {
				t.Errorf("the manager's arguments %v lack %s", container.Args, want)
			}
			return
		}
	}
	t.Errorf("the manager has no port %s", service.Spec.Ports[i].TargetPort.StrVal)
}

// TestTheCertificateIsForTheService follows the references: the authority in the configuration, its Certificate, the
// Issuers up to the one that signs itself, and the Secret down to the manager's directory.
func TestTheCertificateIsForTheService(t *testing.T) {
	objects := render(t, OverlayDefault)
	certificates, issuers := typed[certificate](t, objects, "Certificate"), typed[issuer](t, objects, "Issuer")
	configuration := only(t, typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, KindWebhooks))
	namespace, name, _ := strings.Cut(configuration.Annotations["cert-manager.io/inject-ca-from"], "/")
	serving := certificates[name]
	if serving == nil || serving.Namespace != namespace {
		t.Fatalf("there is no Certificate %s in %s", name, namespace)
	}
	service := configuration.Webhooks[0].ClientConfig.Service
	if host := service.Name + "." + service.Namespace + ".svc"; !slices.Contains(serving.Spec.DNSNames, host) {
		t.Errorf("the certificate is for %v, and the API server asks %s", serving.Spec.DNSNames, host)
	}
	by := issuers[serving.Spec.IssuerRef.Name]
	if by == nil || by.Spec.CA == nil {
		t.Fatalf("the certificate's issuer %s is no authority", serving.Spec.IssuerRef.Name)
	}
	authority := certificates["kruntimes-webhook-authority"]
	if authority == nil || authority.Spec.SecretName != by.Spec.CA.SecretName || !authority.Spec.IsCA || authority.Spec.PrivateKey.RotationPolicy != "Never" {
		t.Errorf("the authority's Certificate is %+v, want one that keeps its key in Secret %s", authority, by.Spec.CA.SecretName)
	}
	if root := issuers[authority.Spec.IssuerRef.Name]; root == nil || root.Spec.SelfSigned == nil {
		t.Errorf("the authority's issuer %s does not sign itself", authority.Spec.IssuerRef.Name)
	}
	pod := typed[appsv1.Deployment](t, objects, "Deployment")["kruntimes-manager"].Spec.Template.Spec
	volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == serving.Spec.SecretName })
	if volume < 0 {
		t.Fatalf("the manager does not mount Secret %s", serving.Spec.SecretName)
	}
	mount := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == pod.Volumes[volume].Name })
	if mount < 0 || !slices.Contains(pod.Containers[0].Args, "--webhook-cert-dir="+pod.Containers[0].VolumeMounts[mount].MountPath) {
		t.Errorf("the manager's arguments %v do not name the directory of volume %s", pod.Containers[0].Args, pod.Volumes[volume].Name)
	}
}

// TestOnlyWorkspaceUserMayUseWorkspaces keeps the right out of all other roles that we ship, the manager's above all.
func TestOnlyWorkspaceUserMayUseWorkspaces(t *testing.T) {
	objects := render(t, OverlayDefault)
	var users []string
	for name, role := range typed[rbacv1.ClusterRole](t, objects, "ClusterRole") {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Verbs, "use") || slices.Contains(rule.Resources, "persistentworkspaces/use") {
				users = append(users, name)
			}
		}
	}
	if diff := cmp.Diff([]string{WorkspaceUserClusterRole}, users); diff != "" {
		t.Errorf("roles that may use workspaces (-want +got):\n%s", diff)
	}
	role := typed[rbacv1.ClusterRole](t, objects, "ClusterRole")[WorkspaceUserClusterRole]
	if diff := cmp.Diff(map[string]string{"rbac.authorization.k8s.io/aggregate-to-admin": "true"}, role.Labels); diff != "" {
		t.Errorf("labels of %s (-want +got):\n%s", role.Name, diff)
	}
	for name, binding := range typed[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding") {
		if binding.RoleRef.Name == WorkspaceUserClusterRole {
			t.Errorf("%s hands the right out in every namespace", name)
		}
	}
}

func TestReachWebhooksAt(t *testing.T) {
	for _, u := range render(t, OverlayDev) {
		if u.GetKind() != KindWebhooks {
			continue
		}
		if err := ReachWebhooksAt(&u, "https://127.0.0.1:1", []byte("PEM")); err != nil {
			t.Fatal(err)
		}
		got := only(t, typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, []unstructured.Unstructured{u}, KindWebhooks))
		want := admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/validate-kruntimes-io-v1alpha1-run"), CABundle: []byte("PEM")}
		if diff := cmp.Diff(want, got.Webhooks[0].ClientConfig); diff != "" {
			t.Errorf("client (-want +got):\n%s", diff)
		}
		if len(got.Annotations) > 0 {
			t.Errorf("cert-manager is still told to put another authority there: %v", got.Annotations)
		}
		if err := ReachWebhooksAt(&u, "https://127.0.0.1:1", nil); err == nil {
			t.Error("what has no Service was changed a second time")
		}
		return
	}
	t.Error("the dev overlay has no webhooks")
}
