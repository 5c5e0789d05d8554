package e2e

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AsPod returns a client with a real token of a Pod: of its ServiceAccount, bound to it by name and UID, as the kubelet gets it.
func (e *Env) AsPod(pod *corev1.Pod) client.Client {
	e.t.Helper()
	c, err := PodClient(e.t.Context(), e.Client, e.Config, pod)
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}

// PodClient is AsPod for suites without an Env: admin asks for the token, and config says where the API server is.
func PodClient(ctx context.Context, admin client.Client, config *rest.Config, pod *corev1.Pod) (client.Client, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if err := admin.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("asking for a token of Pod %s: %w", pod.Name, err)
	}
	config = rest.AnonymousClientConfig(config)
	config.QPS, config.BearerToken = -1, request.Status.Token
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		return nil, fmt.Errorf("making a client for Pod %s: %w", pod.Name, err)
	}
	return c, nil
}

// WithRole returns a client of a user who has this ClusterRole in the test's namespace, once the API server knows of it. It has
// to be one that lets its holder read Runs.
func (e *Env) WithRole(user, clusterRole string) client.Client {
	e.t.Helper()
	e.Grant(user, clusterRole)
	e.WaitAllowed(user, authorizationv1.ResourceAttributes{Group: "kruntimes.io", Resource: "runs", Verb: "list"})
	return e.As(user)
}

// WaitAllowed waits until the API server lets a user do something in the test's namespace: it hears of bindings with a delay.
func (e *Env) WaitAllowed(user string, what authorizationv1.ResourceAttributes) {
	e.t.Helper()
	what.Namespace = e.Namespace
	e.Eventually(fmt.Sprintf("%s may %s %s/%s %s", user, what.Verb, what.Resource, what.Subresource, what.Name), func() string {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &what}}
		if err := e.Client.Create(e.t.Context(), review); err != nil {
			return err.Error()
		}
		if review.Status.Allowed {
			return ""
		}
		return "not allowed: " + review.Status.Reason
	})
}
