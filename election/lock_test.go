package election

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
)

// apiFor is an API server that calls everybody user, or answers with an error who asks.
func apiFor(user authenticationv1.UserInfo, answer error) *fake.Clientset {
	api := fake.NewClientset()
	api.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: user}}, answer
	})
	return api
}

// lockOf is a lock of Lease home/one at an API server.
func lockOf(api *fake.Clientset, identity string, c *clocktesting.FakePassiveClock) *lock {
	return &lock{clock: c, LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "home", Name: "one"},
		Client:     ownedLeases{leases: api.CoordinationV1(), reviews: api.AuthenticationV1()},
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity, EventRecorder: record.NewFakeRecorder(1)},
	}}
}

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
		"an account of another namespace":   {user: authenticationv1.UserInfo{Username: "system:serviceaccount:home-2:scheduler", UID: "u-1"}},
		"a user with a certificate":         {user: authenticationv1.UserInfo{Username: "kubernetes-admin", UID: "u-1"}},
		"an account whose UID nobody tells": {user: authenticationv1.UserInfo{Username: "system:serviceaccount:home:scheduler"}},
		"nobody may ask":                    {answer: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))},
		"nobody can ask":                    {answer: apierrors.NewNotFound(schema.GroupResource{}, "")},
		"nobody can ask like this":          {answer: apierrors.NewMethodNotSupported(schema.GroupResource{}, "create")},
		"the API server is not well":        {answer: apierrors.NewInternalError(errors.New("away")), refused: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := apiFor(tc.user, tc.answer)
			l := lockOf(api, "me", clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
			err := l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"})
			if (err != nil) != tc.refused {
				t.Fatalf("creating the Lease: %v", err)
			}
			l.RecordEvent("stopped leading") // as the elector does whatever came of it
			if tc.refused {
				return
			}
			lease, err := api.CoordinationV1().Leases("home").Get(t.Context(), "one", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, lease.OwnerReferences); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			// Who renews leaves them alone, and asks nobody who it is.
			api.ClearActions()
			if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
				t.Fatalf("renewing: %v", err)
			}
			if n := len(api.Actions()); n != 1 {
				t.Errorf("renewing took %d requests", n)
			}
		})
	}
}

// TestALeaseThatIsGoneIsNotTakenFromWhoMayStillWork deletes a Lease, and has a replica that knew its holder make it anew.
func TestALeaseThatIsGoneIsNotTakenFromWhoMayStillWork(t *testing.T) {
	const duration = 15 // s
	began := time.Unix(0, 0)
	renewed := resourcelock.LeaderElectionRecord{HolderIdentity: "other", LeaseDurationSeconds: duration, RenewTime: metav1.NewTime(began)}
	cases := map[string]struct {
		holder string
		// reads are how long after the beginning the Lease is read; without renewals in between.
		reads []time.Duration
		after time.Duration
		want  bool
	}{
		"nobody has ever seen it":           {want: true},
		"it was just seen":                  {holder: "other", reads: []time.Duration{0}, after: time.Second},
		"it would have run out by itself":   {holder: "other", reads: []time.Duration{0}, after: duration * time.Second, want: true},
		"it was seen again as it was":       {holder: "other", reads: []time.Duration{0, 10 * time.Second}, after: duration * time.Second, want: true},
		"its holder had given it up":        {holder: "", reads: []time.Duration{0}, after: time.Second, want: true},
		"it was ours, and we make it again": {holder: "me", reads: []time.Duration{0}, after: time.Second, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api, c := apiFor(authenticationv1.UserInfo{Username: "kubernetes-admin"}, nil), clocktesting.NewFakePassiveClock(began)
			l := lockOf(api, "me", c)
			if len(tc.reads) > 0 {
				held := renewed
				held.HolderIdentity = tc.holder
				if err := lockOf(api, "somebody", c).Create(t.Context(), held); err != nil {
					t.Fatal(err)
				}
			}
			for _, at := range tc.reads {
				c.SetTime(began.Add(at))
				if _, _, err := l.Get(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if len(tc.reads) > 0 {
				if err := api.CoordinationV1().Leases("home").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			c.SetTime(began.Add(tc.after))
			if err := l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); (err == nil) != tc.want {
				t.Errorf("creating it: %v", err)
			}
		})
	}
}

func TestALockIsInTheNamespaceOfThePod(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	options := Options{Config: &rest.Config{}, Name: "one", namespaceFile: file}
	if _, err := NewLock(options); err == nil {
		t.Error("a lock without a namespace was made outside of a Pod")
	}
	if err := os.WriteFile(file, []byte("there\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"", "home"} {
		options.Namespace = namespace
		l, err := NewLock(options)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := l.Describe(), map[string]string{"": "there/one", "home": "home/one"}[namespace]; got != want {
			t.Errorf("the lock is %s, want %s", got, want)
		}
	}
}
