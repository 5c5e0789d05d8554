// Package leftovers finds what an installation of kruntimes has left in a cluster.
package leftovers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// kinds are those of which an installation, or a Runtime, makes objects outside of the installation's namespace, and those that tell
// best what is left in it. The others are all in that namespace and go with it: ConfigMaps, Secrets, Services, Roles,
// PodDisruptionBudgets, NetworkPolicies, Leases, and the Issuers and Certificates of cert-manager.
var kinds = []schema.GroupVersionKind{
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
	apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	corev1.SchemeGroupVersion.WithKind("Namespace"),
	corev1.SchemeGroupVersion.WithKind("Pod"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
}

// In returns what a cluster holds that has kruntimes in its name or was made by it, as "Kind name", in order.
func In(ctx context.Context, c client.Reader) ([]string, error) {
	var left []string
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if strings.Contains(o.GetName(), "kruntimes") || o.GetLabels()[corev1alpha1.LabelManagedBy] == corev1alpha1.ManagedBy {
				left = append(left, kind.Kind+" "+o.GetName())
			}
		}
	}
	slices.Sort(left)
	return left, nil
}
