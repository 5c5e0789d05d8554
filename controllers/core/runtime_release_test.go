package core

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// podOfSh is a Pod of the Runtime sh.
func podOfSh(phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: childLabels("sh"),
		Annotations: map[string]string{corev1alpha1.AnnotationRuntime: "sh"}}, Status: corev1.PodStatus{Phase: phase}}
}

// rightsOfSh are what the Runtime sh leaves, with a binding to an earlier ClusterRole, and what only looks like it.
func rightsOfSh() (ours, others []client.Object) {
	sh := runtimeWith(nil)
	ours = []client.Object{
		&corev1.ServiceAccount{ObjectMeta: rightsMeta(sh, "runtime-sh")},
		&rbacv1.RoleBinding{ObjectMeta: rightsMeta(sh, "runtime-sh:"+testRole)},
		&rbacv1.RoleBinding{ObjectMeta: rightsMeta(sh, "runtime-sh:earlier")},
	}
	unmarked := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "unmarked", Labels: childLabels("sh")}}
	long := &rbacv1.RoleBinding{ObjectMeta: rightsMeta(sh, "runtime-sh:of-another")}
	long.Annotations[corev1alpha1.AnnotationRuntime] = "one-with-the-same-label"
	others = []client.Object{unmarked, long, &corev1.ServiceAccount{ObjectMeta: rightsMeta(sh, "default")}, &rbacv1.RoleBinding{ObjectMeta: rightsMeta(sh, "admins")}}
	return ours, others
}

func TestRightsOutliveThePods(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "sh")
	hideRuntime := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if _, ok := o.(*corev1alpha1.Runtime); ok {
			return notFound
		}
		return c.Get(ctx, key, o, options...)
	}}
	hidePods := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ok := list.(*corev1.PodList); ok {
			return nil
		}
		return c.List(ctx, list, options...)
	}}
	cases := map[string]struct {
		left   []client.Object
		cached interceptor.Funcs
		want   bool
	}{
		"nothing is left":                     {want: true},
		"a Pod executes":                      {left: []client.Object{podOfSh(corev1.PodRunning)}},
		"a Pod starts":                        {left: []client.Object{podOfSh(corev1.PodPending)}},
		"a Pod has ended":                     {left: []client.Object{podOfSh(corev1.PodFailed)}, want: true},
		"a Pod that the cache has not seen":   {left: []client.Object{podOfSh(corev1.PodRunning)}, cached: hidePods},
		"a Runtime that the cache has missed": {left: []client.Object{runtimeWith(nil)}, cached: hideRuntime},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ours, others := rightsOfSh()
			r := newReconciler(t, tc.cached, nil, slices.Concat(ours, others, tc.left)...)
			for range 2 { // The second time there is nothing to do.
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "sh"}}); err != nil {
					t.Fatal(err)
				}
			}
			checkPresent(t, r.Live, !tc.want, ours...)
			checkPresent(t, r.Live, true, others...)
		})
	}
}

// TestRightsAreDeletedAsTheyWereSeen has somebody change one, or make it anew, after the cache has seen it.
func TestRightsAreDeletedAsTheyWereSeen(t *testing.T) {
	ours, _ := rightsOfSh()
	for _, o := range ours {
		o.SetUID(types.UID("of-" + o.GetName()))
	}
	seen := map[string]metav1.Preconditions{}
	stale := interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if accounts, ok := list.(*corev1.ServiceAccountList); ok && len(accounts.Items) > 0 {
				accounts.Items[0].ResourceVersion = "1"
			}
			return err
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if p := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions; p != nil {
				seen[fmt.Sprintf("%T %s", o, o.GetName())] = *p
			}
			return c.Delete(ctx, o, options...)
		},
	}
	r := newReconciler(t, stale, nil, ours...)
	_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "sh"}})
	if !apierrors.IsConflict(err) {
		t.Errorf("got error %v, want a conflict, after which it is tried again", err)
	}
	want := map[string]metav1.Preconditions{}
	for i, o := range ours {
		want[fmt.Sprintf("%T %s", o, o.GetName())] = metav1.Preconditions{UID: ptr.To(o.GetUID()), ResourceVersion: ptr.To([]string{"1", "999", "999"}[i])}
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("what deletions ask for (-want +got):\n%s", diff)
	}
	checkPresent(t, r.Live, true, ours[0])
	checkPresent(t, r.Live, false, ours[1:]...)
}

// TestRightsOfAnotherOwnerAreLeftToIt: an earlier version handed them over to the garbage collector.
func TestRightsOfAnotherOwnerAreLeftToIt(t *testing.T) {
	ours, _ := rightsOfSh()
	for _, o := range ours {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "kruntimes.io/v1alpha1", Kind: "Runtime", Name: "sh", UID: runtimeWith(nil).UID}})
	}
	r := newReconciler(t, interceptor.Funcs{}, nil, ours...)
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "sh"}}); err != nil {
		t.Fatal(err)
	}
	checkPresent(t, r.Live, true, ours...)
}

func checkPresent(t *testing.T, c client.Reader, want bool, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if got := err == nil; got != want {
			t.Errorf("%T %s is there: %t, want %t", o, o.GetName(), got, want)
		}
	}
}
