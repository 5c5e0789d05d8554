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
func (c *Cluster) User(t testing.TB, namespace, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	c.Create(t, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
	c.Create(t, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}})
	for _, rule := range rules {
		c.waitUntilAllowed(t, name, namespace, rule)
	}
	cfg := c.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: name}
	return cfg
}

func (c *Cluster) waitUntilAllowed(t testing.TB, user, namespace string, rule rbacv1.PolicyRule) {
	t.Helper()
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	Eventually(t, "the rights of "+user+" to take effect", func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: rule.Verbs[0],
				Group: rule.APIGroups[0], Resource: resource, Subresource: subresource},
		}}
		err := c.admin.Create(ctx, review)
		return review.Status.Allowed, err
	})
}

// ServiceAccount returns the configuration of a ServiceAccount, with a token that is bound to no Pod. The account is
// made where it is not there.
func (c *Cluster) ServiceAccount(t testing.TB, namespace, name string) *rest.Config {
	t.Helper()
	return c.tokenConfig(t, namespace, name, nil)
}

// Pod returns the configuration that the given Pod finds in its projected token: its ServiceAccount, bound to the Pod.
func (c *Cluster) Pod(t testing.TB, pod *corev1.Pod) *rest.Config {
	t.Helper()
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	return c.tokenConfig(t, pod.Namespace, account,
		&authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
}

func (c *Cluster) tokenConfig(t testing.TB, namespace, name string, bound *authenticationv1.BoundObjectReference) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.admin.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("creating ServiceAccount %s: %v", name, err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
	if err := c.admin.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatalf("requesting a token of ServiceAccount %s: %v", name, err)
	}
	cfg := rest.AnonymousClientConfig(c.Config())
	cfg.QPS = -1
	cfg.BearerToken = request.Status.Token
	return cfg
}

// Client makes an uncached client from one of the configurations above.
func Client(t testing.TB, cfg *rest.Config) client.Client {
	t.Helper()
	made, err := client.New(cfg, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return made
}
