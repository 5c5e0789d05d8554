package cluster

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// User returns the configuration of an ordinary user who holds the given rules in the namespace, and nothing else.
func (c *Cluster) User(tb testing.TB, namespace, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	tb.Helper()
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	c.Create(tb, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
	c.Create(tb, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}})
	for _, rule := range rules {
		c.waitUntilAllowed(tb, name, namespace, rule)
	}
	cfg := c.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: name}
	return cfg
}

func (c *Cluster) waitUntilAllowed(tb testing.TB, user, namespace string, rule rbacv1.PolicyRule) {
	tb.Helper()
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	name := ""
	if len(rule.ResourceNames) > 0 {
		name = rule.ResourceNames[0]
	}
	Eventually(tb, "the rights of "+user+" to take effect", func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: rule.Verbs[0],
				Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Name: name},
		}}
		err := c.admin.Create(ctx, review)
		return review.Status.Allowed, err
	})
}

// ServiceAccount returns the configuration of a ServiceAccount, with a token that is bound to no Pod. The account is
// made where it is not there.
func (c *Cluster) ServiceAccount(tb testing.TB, namespace, name string) *rest.Config {
	tb.Helper()
	return c.tokenConfig(tb, namespace, name, nil)
}

// Pod returns the configuration that the given Pod finds in its projected token: its ServiceAccount, bound to the Pod.
func (c *Cluster) Pod(tb testing.TB, pod *corev1.Pod) *rest.Config {
	tb.Helper()
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	return c.tokenConfig(tb, pod.Namespace, account,
		&authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
}

func (c *Cluster) tokenConfig(tb testing.TB, namespace, name string, bound *authenticationv1.BoundObjectReference) *rest.Config {
	tb.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.admin.Create(tb.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
		tb.Fatalf("creating ServiceAccount %s: %v", name, err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
	if err := c.admin.SubResource("token").Create(tb.Context(), account, request); err != nil {
		tb.Fatalf("requesting a token of ServiceAccount %s: %v", name, err)
	}
	cfg := rest.AnonymousClientConfig(c.Config())
	cfg.QPS = -1
	cfg.BearerToken = request.Status.Token
	return cfg
}

// Client makes an uncached client from one of the configurations above.
func Client(tb testing.TB, cfg *rest.Config) client.Client {
	tb.Helper()
	made, err := client.New(cfg, client.Options{Scheme: Scheme()})
	if err != nil {
		tb.Fatalf("making a client: %v", err)
	}
	return made
}
