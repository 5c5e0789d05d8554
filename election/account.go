package election

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// accountPrefix starts the user names of ServiceAccounts: system:serviceaccount:<namespace>:<name>.
const accountPrefix = "system:serviceaccount:"

// accountIn returns a reference to the ServiceAccount that this process speaks as, or nil when it speaks as somebody else, as one
// of another namespace, or may not ask. Every user may, unless an administrator took that away.
func accountIn(ctx context.Context, reviews authenticationclient.SelfSubjectReviewsGetter, namespace string) (*metav1.OwnerReference, error) {
	review, err := reviews.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking who this process is: %w", err)
	}
	user := review.Status.UserInfo
	name, ok := strings.CutPrefix(user.Username, accountPrefix+namespace+":")
	if !ok || user.UID == "" {
		return nil, nil
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "ServiceAccount", Name: name, UID: types.UID(user.UID)}, nil
}
