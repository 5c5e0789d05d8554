package config

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// installation is what an overlay renders, by kind and name.
type installation struct {
	t           *testing.T
	namespace   string
	objects     []unstructured.Unstructured
	deployments map[string]*appsv1.Deployment
	services    map[string]*corev1.Service
	roles       map[string]*rbacv1.ClusterRole
}

// checkReferences follows all references between the objects of an overlay, and returns them.
func checkReferences(t *testing.T, objects []unstructured.Unstructured, namespace string) installation {
	t.Helper()
	i := installation{t: t, namespace: namespace, objects: objects,
		deployments: typed[appsv1.Deployment](t, objects, "Deployment"), services: typed[corev1.Service](t, objects, "Service"),
		roles: typed[rbacv1.ClusterRole](t, objects, "ClusterRole")}
	i.checkNamespaces()
	i.checkPods()
	i.checkBindings()
	i.checkWebhooks()
	i.checkSelectors()
	return i
}

// has tells whether there is an object of the kind; in the namespace, unless it is a kind without one.
func (i *installation) has(kind, name string) bool {
	return slices.ContainsFunc(i.objects, func(u unstructured.Unstructured) bool {
		return u.GetKind() == kind && u.GetName() == name && (u.GetNamespace() == i.namespace || u.GetNamespace() == "")
	})
}

func (i *installation) checkNamespaces() {
	i.t.Helper()
	clusterWide := []string{"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding", KindWebhooks, "FlowSchema"}
	for _, u := range i.objects {
		want := i.namespace
		if slices.Contains(clusterWide, u.GetKind()) {
			want = ""
		}
		if u.GetNamespace() != want {
			i.t.Errorf("%s %s is in namespace %q, want %q", u.GetKind(), u.GetName(), u.GetNamespace(), want)
		}
	}
	if !i.has("Namespace", i.namespace) {
		i.t.Errorf("there is no Namespace %s", i.namespace)
	}
}

// checkPods follows what Pods refer to: their account, and what they mount.
func (i *installation) checkPods() {
	i.t.Helper()
	secrets := map[string]bool{}
	for _, c := range typed[certificate](i.t, i.objects, "Certificate") {
		secrets[c.Spec.SecretName] = true
	}
	for name, d := range i.deployments {
		pod := d.Spec.Template
		if !i.has("ServiceAccount", pod.Spec.ServiceAccountName) {
			i.t.Errorf("Deployment %s: there is no ServiceAccount %s", name, pod.Spec.ServiceAccountName)
		}
		if selector, _ := metav1.LabelSelectorAsSelector(d.Spec.Selector); !selector.Matches(labels.Set(pod.Labels)) {
			i.t.Errorf("Deployment %s does not select its own Pods", name)
		}
		for _, v := range pod.Spec.Volumes {
			switch {
			case v.Secret != nil && !secrets[v.Secret.SecretName]:
				i.t.Errorf("Deployment %s: no Certificate makes Secret %s", name, v.Secret.SecretName)
			case v.ConfigMap != nil && !i.has("ConfigMap", v.ConfigMap.Name):
				i.t.Errorf("Deployment %s: there is no ConfigMap %s", name, v.ConfigMap.Name)
			}
		}
		for _, e := range pod.Spec.Containers[0].Env {
			if strings.HasSuffix(e.Name, "CLUSTER_ROLE") && i.roles[e.Value] == nil {
				i.t.Errorf("Deployment %s: %s names ClusterRole %s, which is not there", name, e.Name, e.Value)
			}
		}
	}
}

func (i *installation) checkBindings() {
	i.t.Helper()
	bindings := map[string]rbacv1.ClusterRoleBinding{}
	for name, b := range typed[rbacv1.ClusterRoleBinding](i.t, i.objects, "ClusterRoleBinding") {
		bindings[name] = *b
	}
	for name, b := range typed[rbacv1.RoleBinding](i.t, i.objects, "RoleBinding") {
		bindings["in "+b.Namespace+"/"+name] = rbacv1.ClusterRoleBinding{RoleRef: b.RoleRef, Subjects: b.Subjects}
	}
	for name, b := range bindings {
		if !i.has(b.RoleRef.Kind, b.RoleRef.Name) {
			i.t.Errorf("binding %s: there is no %s %s", name, b.RoleRef.Kind, b.RoleRef.Name)
		}
		for _, s := range b.Subjects {
			if s.Namespace != i.namespace || !i.has(s.Kind, s.Name) {
				i.t.Errorf("binding %s: there is no %s %s/%s", name, s.Kind, s.Namespace, s.Name)
			}
		}
	}
	for name, role := range i.roles {
		for _, rule := range role.Rules {
			for _, resource := range rule.ResourceNames {
				if slices.Contains(rule.Resources, "clusterroles") && i.roles[resource] == nil {
					i.t.Errorf("ClusterRole %s speaks of ClusterRole %s, which is not there", name, resource)
				}
			}
		}
	}
	for name, b := range typed[admissionregistrationv1.ValidatingAdmissionPolicyBinding](i.t, i.objects, "ValidatingAdmissionPolicyBinding") {
		if !i.has("ValidatingAdmissionPolicy", b.Spec.PolicyName) {
			i.t.Errorf("binding %s: there is no policy %s", name, b.Spec.PolicyName)
		}
	}
}

// checkWebhooks follows each webhook to the port of a container, and to the certificate that is shown there.
func (i *installation) checkWebhooks() {
	i.t.Helper()
	certificates := typed[certificate](i.t, i.objects, "Certificate")
	for name, configuration := range webhooksOf(i.t, i.objects) {
		namespace, issued, _ := strings.Cut(configuration.Annotations["cert-manager.io/inject-ca-from"], "/")
		c := certificates[issued]
		if c == nil || namespace != i.namespace {
			i.t.Errorf("%s trusts Certificate %s/%s, which is not there", name, namespace, issued)
			continue
		}
		for _, webhook := range configuration.Webhooks {
			asked := webhook.ClientConfig.Service
			if host := asked.Name + "." + asked.Namespace + ".svc"; !slices.Contains(c.Spec.DNSNames, host) {
				i.t.Errorf("%s asks %s, and the certificate is for %v", name, host, c.Spec.DNSNames)
			}
			if service := i.services[asked.Name]; service == nil || asked.Namespace != i.namespace || service.Spec.Ports[0].Port != *asked.Port {
				i.t.Errorf("%s asks Service %s/%s, which is not there", name, asked.Namespace, asked.Name)
			}
		}
	}
	issuers := typed[issuer](i.t, i.objects, "Issuer")
	for name, c := range certificates {
		if issuers[c.Spec.IssuerRef.Name] == nil {
			i.t.Errorf("Certificate %s: there is no Issuer %s", name, c.Spec.IssuerRef.Name)
		}
	}
}

// checkSelectors looks whether everything that selects Pods finds those of one Deployment, and the ports that it names.
func (i *installation) checkSelectors() {
	i.t.Helper()
	for name, s := range i.services {
		for _, port := range s.Spec.Ports {
			i.selects("Service "+name, labels.SelectorFromSet(s.Spec.Selector), port.TargetPort.StrVal)
		}
	}
	for name, b := range typed[policyv1.PodDisruptionBudget](i.t, i.objects, "PodDisruptionBudget") {
		selector, _ := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		i.selects("PodDisruptionBudget "+name, selector, "")
	}
	for name, p := range typed[networkingv1.NetworkPolicy](i.t, i.objects, "NetworkPolicy") {
		selector, _ := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				if n := len(i.selected(selector, port.Port.StrVal)); n == 0 {
					i.t.Errorf("NetworkPolicy %s opens port %s of no Pod", name, port.Port.StrVal)
				}
			}
		}
	}
	for _, u := range i.objects {
		if u.GetKind() == "ServiceMonitor" {
			wanted, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector", "matchLabels")
			found := 0
			for _, s := range i.services {
				if labels.SelectorFromSet(wanted).Matches(labels.Set(s.Labels)) && slices.ContainsFunc(s.Spec.Ports,
					func(p corev1.ServicePort) bool { return p.Name == "metrics" }) {
					found++
				}
			}
			if found != 1 {
				i.t.Errorf("ServiceMonitor %s finds %d Services with metrics, want 1", u.GetName(), found)
			}
		}
	}
}

func (i *installation) selects(what string, selector labels.Selector, port string) {
	i.t.Helper()
	if found := i.selected(selector, port); len(found) != 1 {
		i.t.Errorf("%s finds %v, want one Deployment with port %q", what, found, port)
	}
}

// selected returns the Deployments whose Pods a selector finds, and whose container has the port where one is named.
func (i *installation) selected(selector labels.Selector, port string) []string {
	var found []string
	for name, d := range i.deployments {
		hasPort := port == "" || slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports,
			func(p corev1.ContainerPort) bool { return p.Name == port })
		if selector.Matches(labels.Set(d.Spec.Template.Labels)) && hasPort {
			found = append(found, name)
		}
	}
	return found
}
