package cluster

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sentinel is the name of a policy, of its binding, and of the only object that it refuses.
const sentinel = "all-policies-are-in-force"

// waitForPolicies waits until all policies are in force. The API server takes in policies and bindings in the order in which they were
// created, and puts all that it knows in force at once. So when a last one refuses, those before it do.
func (c *Cluster) waitForPolicies(ctx context.Context) error {
	meta := metav1.ObjectMeta{Name: sentinel}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}}}},
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "is-the-one", Expression: "object.metadata.name == '" + sentinel + "'"}},
		Validations:     []admissionregistrationv1.Validation{{Expression: "false", Message: "the policies are in force"}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: sentinel, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}}
	for _, object := range []client.Object{policy, binding} {
		if err := c.admin.Create(ctx, object); err != nil {
			return fmt.Errorf("adding a last policy: %w", err)
		}
	}
	refused := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: sentinel, Namespace: metav1.NamespaceDefault}}
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		err := c.admin.Create(ctx, refused.DeepCopy(), client.DryRunAll)
		if isPolicy(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the admission policies to decide: %w", err)
	}
	for _, object := range []client.Object{binding, policy} {
		if err := c.admin.Delete(ctx, object); err != nil {
			return fmt.Errorf("removing the last policy: %w", err)
		}
	}
	return nil
}

// isPolicy tells whether an admission policy, and not RBAC, refused a request.
func isPolicy(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}
