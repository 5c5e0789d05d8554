package election

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// ownedLeases are Leases that belong to the ServiceAccount that creates them.
type ownedLeases struct {
	leases  coordinationclient.LeasesGetter
	reviews authenticationclient.SelfSubjectReviewsGetter
}

// Leases returns those of one namespace.
func (o ownedLeases) Leases(namespace string) coordinationclient.LeaseInterface {
	return ownedLeasesIn{LeaseInterface: o.leases.Leases(namespace), namespace: namespace, reviews: o.reviews}
}

type ownedLeasesIn struct {
	coordinationclient.LeaseInterface
	namespace string
	reviews   authenticationclient.SelfSubjectReviewsGetter
}

// Create gives the Lease its owner. One that is there already keeps those that it has: API servers that check owner references
// let only those change them who may delete the object. As the clients of client-go do, it returns an object with an error as
// well, which LeaseLock counts on.
func (l ownedLeasesIn) Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error) {
	owner, err := accountIn(ctx, l.reviews, l.namespace)
	if err != nil {
		return lease, err
	}
	if owner != nil {
		lease.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return l.LeaseInterface.Create(ctx, lease, opts)
}

// accountIn returns a reference to the ServiceAccount that this process speaks as, or nil when it speaks as somebody else, as one
// of another namespace, or cannot ask: every user may, but an administrator can take that, and the whole kind, away.
func accountIn(ctx context.Context, reviews authenticationclient.SelfSubjectReviewsGetter, namespace string) (*metav1.OwnerReference, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := reviews.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking who this process is: %w", err)
	}
	user := review.Status.UserInfo
	home, name, err := serviceaccount.SplitUsername(user.Username)
	if err != nil || home != namespace || user.UID == "" {
		return nil, nil
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "ServiceAccount", Name: name, UID: types.UID(user.UID)}, nil
}
