package core

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// runtimeState is what there is of a Runtime, whoever made it.
type runtimeState struct {
	// deployment, account and binding are nil when they are not there. account is not looked for when the Runtime names
	// another one.
	deployment *appsv1.Deployment
	account    *corev1.ServiceAccount
	binding    *rbacv1.RoleBinding
	// pods carry the label of the Runtime, in no particular order.
	pods []corev1.Pod
	// loadByPod says what keeps ready Pods busy, by the Pod's name. It is nil unless the Runtime is scaled down.
	loadByPod map[string]podLoad
	// claimsByName are the claims that the Runtime names as its workspace and its artifact store, as far as they are there.
	claimsByName map[string]*corev1.PersistentVolumeClaim
}

func (r *RuntimeReconciler) load(ctx context.Context, runtime *corev1alpha1.Runtime) (*runtimeState, error) {
	key := types.NamespacedName{Namespace: runtime.Namespace, Name: childName(runtime.Name)}
	seen := &runtimeState{}
	var err error
	if seen.deployment, err = get(ctx, r, key, &appsv1.Deployment{}); err != nil {
		return nil, fmt.Errorf("reading Deployment %s: %w", key.Name, err)
	}
	if accountOf(runtime) == childName(runtime.Name) {
		if seen.account, err = get(ctx, r, key, &corev1.ServiceAccount{}); err != nil {
			return nil, fmt.Errorf("reading ServiceAccount %s: %w", key.Name, err)
		}
	}
	key.Name = bindingName(runtime.Name, r.RuntimedClusterRole)
	if seen.binding, err = get(ctx, r, key, &rbacv1.RoleBinding{}); err != nil {
		return nil, fmt.Errorf("reading RoleBinding %s: %w", key.Name, err)
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(runtime.Namespace), client.MatchingFields{indexPodRuntime: runtime.Name}); err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	seen.pods = pods.Items
	if scalesDown(runtime, seen) {
		if seen.loadByPod, err = r.weigh(ctx, seen.pods); err != nil {
			return nil, err
		}
	}
	if seen.claimsByName, err = r.claims(ctx, runtime); err != nil {
		return nil, err
	}
	return seen, nil
}

// claims reads the claims that a Runtime names. Claims are not in the cache: there are many, and few are those of Runtimes.
func (r *RuntimeReconciler) claims(ctx context.Context, runtime *corev1alpha1.Runtime) (map[string]*corev1.PersistentVolumeClaim, error) {
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for _, name := range []string{workspaceClaimName(runtime), artifactClaimName(runtime)} {
		if name == "" {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: runtime.Namespace, Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading PersistentVolumeClaim %s: %w", name, err)
		default:
			claims[name] = claim
		}
	}
	return claims, nil
}

// get returns an object, or nil when it is not there. The cache holds only objects with our label, so what it does not
// hold is looked up at the API server: the name may be taken by an object of somebody else.
func get[T client.Object](ctx context.Context, r *RuntimeReconciler, key types.NamespacedName, into T) (T, error) {
	var none T
	err := r.Client.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, into)
	}
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	return into, err
}
