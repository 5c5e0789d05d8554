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

// webhooksOf returns the configurations by which the API server is told whom to ask.
func webhooksOf(t *testing.T, objects []unstructured.Unstructured) map[string]*admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	return typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, KindWebhooks)
}

// TestTheWebhooksDecideOnlyWhereTheyMust holds what the seed and the decisions ask of the configurations. They are apart, so that
// the one that fails closed can be installed, found and taken away without the other.
func TestTheWebhooksDecideOnlyWhereTheyMust(t *testing.T) {
	got := map[string][]admissionregistrationv1.ValidatingWebhook{}
	for name, configuration := range webhooksOf(t, render(t, OverlayDefault)) {
		got[name] = configuration.Webhooks
	}
	client := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: Namespace, Name: "kruntimes-webhook", Path: ptr.To(path), Port: ptr.To(int32(443))}}
	}
	rule := func(group string, operations []admissionregistrationv1.OperationType, resources ...string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{Operations: operations, Rule: admissionregistrationv1.Rule{APIGroups: []string{group},
			APIVersions: []string{"v1alpha1"}, Resources: resources, Scope: ptr.To(admissionregistrationv1.NamespacedScope)}}
	}
	create := []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	want := map[string][]admissionregistrationv1.ValidatingWebhook{
		WorkspaceUseWebhooks: {{
			Name: "workspace-use.kruntimes.io", AdmissionReviewVersions: []string{"v1"}, ClientConfig: client("/validate-kruntimes-io-v1alpha1-run"),
			FailurePolicy: ptr.To(admissionregistrationv1.Fail), MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: ptr.To(int32(5)),
			MatchConditions:   []admissionregistrationv1.MatchCondition{{Name: "names-a-workspace", Expression: "has(object.spec.workspace)"}},
			NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
			Rules: []admissionregistrationv1.RuleWithOperations{rule("kruntimes.io", create, "runs")},
		}},
		WorkflowValidityWebhooks: {{
			Name: "validity.workflows.kruntimes.io", AdmissionReviewVersions: []string{"v1"}, ClientConfig: client("/validate-workflows-kruntimes-io-v1alpha1"),
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore), MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: ptr.To(int32(2)),
			MatchConditions: []admissionregistrationv1.MatchCondition{
				{Name: "changes-its-spec", Expression: "oldObject == null || object.metadata.generation != oldObject.metadata.generation"},
				{Name: "is-no-child", Expression: "!has(object.metadata.labels) || !('workflows.kruntimes.io/workflow-run-uid' in object.metadata.labels)"}},
			NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
			Rules: []admissionregistrationv1.RuleWithOperations{
				rule("workflows.kruntimes.io", append(create, admissionregistrationv1.Update), "workflows", "actions"),
				rule("workflows.kruntimes.io", create, "workflowruns")},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

// TestTheWebhookLeadsToTheManager follows the references: configuration, Service, port of the Deployment's container, the
// argument that makes the manager listen there.
func TestTheWebhookLeadsToTheManager(t *testing.T) {
	objects := render(t, OverlayDefault)
	configuration := webhooksOf(t, objects)[WorkspaceUseWebhooks]
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
	configuration := webhooksOf(t, objects)[WorkspaceUseWebhooks]
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

// TestAllWebhooksAreReachedAlike lets the two tests above speak for every configuration.
func TestAllWebhooksAreReachedAlike(t *testing.T) {
	all := webhooksOf(t, render(t, OverlayDefault))
	first := all[WorkspaceUseWebhooks]
	for name, other := range all {
		if diff := cmp.Diff(first.Annotations, other.Annotations); diff != "" {
			t.Errorf("annotations of %s (-%s +its own):\n%s", name, first.Name, diff)
		}
		for _, webhook := range other.Webhooks {
			service := *webhook.ClientConfig.Service
			service.Path = first.Webhooks[0].ClientConfig.Service.Path
			if diff := cmp.Diff(first.Webhooks[0].ClientConfig.Service, &service); diff != "" {
				t.Errorf("Service of %s (-%s +its own):\n%s", webhook.Name, first.Webhooks[0].Name, diff)
			}
		}
	}
}

func TestReachWebhooksAt(t *testing.T) {
	got := map[string]admissionregistrationv1.WebhookClientConfig{}
	for _, u := range render(t, OverlayDev) {
		if u.GetKind() != KindWebhooks {
			continue
		}
		if err := ReachWebhooksAt(&u, "https://127.0.0.1:1", []byte("PEM")); err != nil {
			t.Fatal(err)
		}
		reached := webhooksOf(t, []unstructured.Unstructured{u})[u.GetName()]
		got[u.GetName()] = reached.Webhooks[0].ClientConfig
		if len(reached.Annotations) > 0 {
			t.Errorf("cert-manager is still told to put another authority there: %v", reached.Annotations)
		}
		if err := ReachWebhooksAt(&u, "https://127.0.0.1:1", nil); err == nil {
			t.Error("what has no Service was changed a second time")
		}
	}
	want := map[string]admissionregistrationv1.WebhookClientConfig{
		WorkspaceUseWebhooks:     {URL: ptr.To("https://127.0.0.1:1/validate-kruntimes-io-v1alpha1-run"), CABundle: []byte("PEM")},
		WorkflowValidityWebhooks: {URL: ptr.To("https://127.0.0.1:1/validate-workflows-kruntimes-io-v1alpha1"), CABundle: []byte("PEM")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
}
