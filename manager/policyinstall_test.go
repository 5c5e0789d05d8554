package manager

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kruntimes.io/kruntimes/config/selfinstall"
)

// ownerOf is the ClusterRole that OLM makes for a version.
func ownerOf(version string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "of-" + version, UID: types.UID("uid-" + version), Labels: map[string]string{"olm.owner": version}}}
}

// apiWithOLM holds what OLM makes for these versions, and the ClusterRoles of the bundle.
func apiWithOLM(t *testing.T, versions ...string) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, version := range versions {
		builder = builder.WithObjects(ownerOf(version))
	}
	for _, name := range selfinstall.ClusterRoles {
		builder = builder.WithObjects(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return builder.Build()
}

func keeperOf(t *testing.T, c client.Client, version string) *policyKeeper {
	t.Helper()
	k, err := newPolicyKeeper(c, PolicyOptions{OwnerSelector: "olm.owner=" + version})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// checkOwned wants these versions as owners of all that is kept and adopted, and policies as they should be.
func checkOwned(t *testing.T, k *policyKeeper, versions ...string) {
	t.Helper()
	check := func(o client.Object) {
		var got []string
		for _, r := range o.GetOwnerReferences() {
			got = append(got, strings.TrimPrefix(string(r.UID), "uid-"))
		}
		if diff := cmp.Diff(versions, got); diff != "" {
			t.Errorf("owners of %T %s (-want +got):\n%s", o, o.GetName(), diff)
		}
	}
	for _, want := range k.want {
		have := policyOf(want.GroupVersionKind())
		if err := k.live.Get(t.Context(), client.ObjectKeyFromObject(want), have); err != nil {
			t.Fatal(err)
		}
		if planPolicy(want, have, nil) != nil {
			t.Errorf("%s %s is not as it should be", want.GetKind(), want.GetName())
		}
		check(have)
	}
	for _, name := range selfinstall.ClusterRoles {
		role := &rbacv1.ClusterRole{}
		if err := k.live.Get(t.Context(), client.ObjectKey{Name: name}, role); err != nil {
			t.Fatal(err)
		}
		check(role)
	}
}

// TestNoVersionTakesTheOwnershipOfAnother has the old version start once more after the new one.
func TestNoVersionTakesTheOwnershipOfAnother(t *testing.T) {
	c := apiWithOLM(t, "v1", "v2")
	for _, version := range []string{"v1", "v2", "v1"} {
		if err := keeperOf(t, c, version).install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkOwned(t, keeperOf(t, c, "v2"), "v1", "v2")
}

// TestTheLeaderSetsOwners finds everything there, and owned by nobody.
func TestTheLeaderSetsOwners(t *testing.T) {
	c := apiWithOLM(t, "v1")
	ownerless, err := newPolicyKeeper(c, PolicyOptions{})
	if err == nil {
		err = ownerless.install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	checkOwned(t, ownerless)
	k := keeperOf(t, c, "v1")
	result, err := k.Reconcile(t.Context(), reconcile.Request{})
	if err != nil || result.RequeueAfter != adoptionInterval {
		t.Errorf("got result %v and error %v", result, err)
	}
	checkOwned(t, k, "v1")
}

// TestAnotherReplicaIsFaster lets somebody else write in the moment between reading and writing.
func TestAnotherReplicaIsFaster(t *testing.T) {
	const contested = "kruntimes-run-status"
	cases := map[string]struct {
		// times is how often that happens to a policy.
		times int
		want  string
	}{
		"once":            {times: 1},
		"again and again": {times: 1000, want: "restoring ValidatingAdmissionPolicy " + contested},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			left := tc.times
			c := interceptor.NewClient(apiWithOLM(t, "v1"), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
					other := o.DeepCopyObject().(client.Object)
					if o.GetName() == contested {
						other.SetLabels(nil) // So that there is something to restore.
					}
					if err := c.Create(ctx, other, options...); err != nil {
						return err
					}
					return c.Create(ctx, o, options...)
				},
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
					if left--; left >= 0 {
						return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), nil)
					}
					return c.Update(ctx, o, options...)
				},
			})
			k := keeperOf(t, c, "v1")
			err := k.install(t.Context())
			if got := fmt.Sprint(err); (err == nil) != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Fatalf("got error %v, want %q", err, tc.want)
			}
			if err == nil {
				checkOwned(t, k, "v1")
			}
		})
	}
}

// TestARefusedAdoptionEndsNothing is what a cluster does that asks for the right to delete, where the manager does not have it. The
// leader goes on trying.
func TestARefusedAdoptionEndsNothing(t *testing.T) {
	refuse := true
	c := interceptor.NewClient(apiWithOLM(t, "v1"), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if refuse {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "clusterroles"}, o.GetName(), nil)
			}
			return c.Patch(ctx, o, patch, options...)
		},
	})
	var log strings.Builder
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { log.WriteString(args) }, funcr.Options{}))
	k := keeperOf(t, c, "v1")
	if err := k.install(ctx); err != nil {
		t.Errorf("the installation ended with %v", err)
	}
	if !strings.Contains(log.String(), "adopting ClusterRole "+selfinstall.ClusterRoles[0]) {
		t.Errorf("the log has no word of it: %s", log.String())
	}
	if _, err := k.Reconcile(ctx, reconcile.Request{}); !apierrors.IsForbidden(err) {
		t.Errorf("the leader got error %v, want it to try again", err)
	}
	refuse = false
	if _, err := k.Reconcile(ctx, reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	checkOwned(t, k, "v1")
}

// TestNothingIsCreatedForNobody takes the owner away, and all that it owned, as OLM and the garbage collector do.
func TestNothingIsCreatedForNobody(t *testing.T) {
	c := apiWithOLM(t, "v1")
	k := keeperOf(t, c, "v1")
	if err := k.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), ownerOf("v1")); err != nil {
		t.Fatal(err)
	}
	for _, policy := range k.want {
		if err := c.Delete(t.Context(), policy.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Reconcile(t.Context(), reconcile.Request{}); err == nil {
		t.Error("nobody says that the owner has gone")
	}
	for _, policy := range k.want {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(policy), policyOf(policy.GroupVersionKind())); !apierrors.IsNotFound(err) {
			t.Errorf("%s %s: got error %v, want it not to be there", policy.GetKind(), policy.GetName(), err)
		}
	}
}
