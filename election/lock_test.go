package election

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestALeaseBelongsToTheAccountThatCreatesIt(t *testing.T) {
	cases := map[string]struct {
		user    authenticationv1.UserInfo
		answer  error
		want    []metav1.OwnerReference
		refused bool
	}{
		"an account of its namespace": {
			user: authenticationv1.UserInfo{Username: "system:serviceaccount:home:scheduler", UID: "u-1"},
			want: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: "scheduler", UID: "u-1"}},
		},
		"an account of another namespace":         {user: authenticationv1.UserInfo{Username: "system:serviceaccount:home-2:scheduler", UID: "u-1"}},
		"a user with a certificate":               {user: authenticationv1.UserInfo{Username: "kubernetes-admin", UID: "u-1"}},
		"an account whose UID nobody tells":       {user: authenticationv1.UserInfo{Username: "system:serviceaccount:home:scheduler"}},
		"nobody may ask":                          {answer: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))},
		"the API server does not answer just now": {answer: apierrors.NewInternalError(errors.New("away")), refused: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientset()
			api.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: tc.user}}, tc.answer
			})
			lock := &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "home", Name: "one"},
				Client:    ownedLeases{leases: api.CoordinationV1(), reviews: api.AuthenticationV1()},
			}
			err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"})
			if (err != nil) != tc.refused {
				t.Fatalf("creating the Lease: %v", err)
			}
			if tc.refused {
				return
			}
			var lease *coordinationv1.Lease
			if lease, err = api.CoordinationV1().Leases("home").Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, lease.OwnerReferences); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			// Who renews leaves them alone, and asks nobody who it is.
			api.ClearActions()
			if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
				t.Fatalf("renewing: %v", err)
			}
			if n := len(api.Actions()); n != 1 {
				t.Errorf("renewing took %d requests", n)
			}
		})
	}
}

func TestALockNeedsANamespace(t *testing.T) {
	if _, err := NewLock(Options{Config: &rest.Config{}, Name: "one"}); err == nil {
		t.Error("a lock without a namespace was made outside of a Pod")
	}
	lock, err := NewLock(Options{Config: &rest.Config{}, Namespace: "home", Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if got := lock.Describe(); got != "home/one" {
		t.Errorf("the lock is %s", got)
	}
}
