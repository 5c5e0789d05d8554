package core

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

const testRole = "kruntimes-runtimed"

// fakeAPI builds a cluster that holds objects, with an index of Pods.
func fakeAPI(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), corev1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&corev1alpha1.Runtime{}).
		WithIndex(&corev1.Pod{}, indexPodRuntime, func(o client.Object) []string { return []string{o.GetAnnotations()[corev1alpha1.AnnotationRuntime]} })
}

// newReconciler returns a Runtime controller on a cluster that holds objects. asked collects the names of what is asked of
// the API server past the cache.
func newReconciler(t *testing.T, funcs interceptor.Funcs, asked *[]string, objects ...client.Object) *RuntimeReconciler {
	t.Helper()
	api := fakeAPI(t, objects...).Build()
	live := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if asked != nil {
			gvk, err := c.GroupVersionKindFor(o)
			if err != nil {
				return err
			}
			*asked = append(*asked, gvk.Kind+" "+key.Name)
		}
		return c.Get(ctx, key, o, options...)
	}}
	return &RuntimeReconciler{Client: interceptor.NewClient(api, funcs), Live: interceptor.NewClient(api, live),
		Clock: testingclock.NewFakePassiveClock(epoch), NodeImage: "node:1", RuntimedClusterRole: testRole}
}

func TestReconcileReturnsWhatHelps(t *testing.T) {
	kind := schema.GroupResource{Group: "kruntimes.io", Resource: "runtimes"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "RoleBinding"}, "x", nil)
	busy := apierrors.NewServiceUnavailable("the API server starts")
	foreign := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "runtime-sh"}}
	type outcome struct {
		Result                 reconcile.Result
		Terminal, Apply, Patch bool
	}
	cases := map[string]struct {
		applyErr, patchErr error
		objects            []client.Object
		want               outcome
	}{
		"all is well": {},
		"what can never be accepted is not tried again":  {applyErr: invalid, want: outcome{Terminal: true, Apply: true}},
		"what passes is tried again":                     {applyErr: busy, want: outcome{Apply: true}},
		"a status that was not written is written again": {patchErr: busy, want: outcome{Patch: true}},
		"a status that was not written is written again, also beside what can never be accepted": {applyErr: invalid, patchErr: busy,
			want: outcome{Apply: true, Patch: true}},
		"a Runtime that was deleted needs nothing": {patchErr: apierrors.NewNotFound(kind, "sh")},
		"a conflict is waited out":                 {patchErr: apierrors.NewConflict(kind, "sh", nil), want: outcome{Result: reconcile.Result{RequeueAfter: conflictDelay}}},
		"a conflict hides no other error": {applyErr: invalid, patchErr: apierrors.NewConflict(kind, "sh", errors.New("stale")),
			want: outcome{Apply: true, Patch: true}},
		"a name that is taken is looked at again": {objects: []client.Object{foreign}, want: outcome{Result: reconcile.Result{RequeueAfter: foreignDelay}}},
		"a name that is taken is looked at again, also beside what can never be accepted": {applyErr: invalid, objects: []client.Object{foreign},
			want: outcome{Result: reconcile.Result{RequeueAfter: foreignDelay}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newReconciler(t, interceptor.Funcs{
				Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
					return tc.applyErr
				},
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					return tc.patchErr
				},
			}, nil, append([]client.Object{runtimeWith(nil)}, tc.objects...)...)
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "sh"}})
			got := outcome{Result: result, Terminal: errors.Is(err, reconcile.TerminalError(nil)),
				Apply: tc.applyErr != nil && errors.Is(err, tc.applyErr), Patch: tc.patchErr != nil && errors.Is(err, tc.patchErr)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("got error %v; outcome (-want +got):\n%s", err, diff)
			}
			if want := tc.want.Terminal || tc.want.Apply || tc.want.Patch; (err != nil) != want {
				t.Errorf("got error %v, want one: %t", err, want)
			}
		})
	}
}

// TestWhatIsNotAppliedShows also has errors that look as if they passed soon: a webhook that does not answer is one.
func TestWhatIsNotAppliedShows(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	cases := map[string]struct {
		err  error
		want string
	}{
		"nothing":                             {want: corev1alpha1.ReasonPodsStarting},
		"an internal error":                   {err: apierrors.NewInternalError(errors.New("duplicate entries for key")), want: corev1alpha1.ReasonDeploymentRefused},
		"a silent webhook":                    {err: apierrors.NewServiceUnavailable("no answer"), want: corev1alpha1.ReasonDeploymentRefused},
		"a lost connection":                   {err: errors.New("connection reset by peer"), want: corev1alpha1.ReasonDeploymentRefused},
		"an invalid object":                   {err: apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "x", nil), want: corev1alpha1.ReasonDeploymentRefused},
		"a namespace that goes needs nothing": {err: terminating, want: corev1alpha1.ReasonPodsStarting},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newReconciler(t, interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				return tc.err
			}}, nil, runtimeWith(nil))
			key := types.NamespacedName{Namespace: "ns", Name: "sh"}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); (err == nil) != (tc.want == corev1alpha1.ReasonPodsStarting) {
				t.Errorf("got error %v", err)
			}
			got := &corev1alpha1.Runtime{}
			if err := r.Live.Get(t.Context(), key, got); err != nil {
				t.Fatal(err)
			}
			for _, c := range got.Status.Conditions {
				if c.Reason != tc.want || tc.want == corev1alpha1.ReasonDeploymentRefused && !strings.Contains(c.Message, tc.err.Error()) {
					t.Errorf("%s is %s: %s; want reason %s and the error", c.Type, c.Reason, c.Message, tc.want)
				}
			}
			if len(got.Status.Conditions) != 2 {
				t.Errorf("got %d conditions", len(got.Status.Conditions))
			}
		})
	}
}

func TestOnlyWhatIsWantedIsAskedForPastTheCache(t *testing.T) {
	cases := map[string]struct {
		account string
		want    []string
	}{
		"an account is made":              {want: []string{"Deployment runtime-sh", "ServiceAccount runtime-sh", "RoleBinding runtime-sh:" + testRole}},
		"the template names another one":  {account: "builder", want: []string{"Deployment runtime-sh", "RoleBinding runtime-sh:" + testRole}},
		"the template names the same one": {account: "runtime-sh", want: []string{"Deployment runtime-sh", "ServiceAccount runtime-sh", "RoleBinding runtime-sh:" + testRole}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked []string
			r := newReconciler(t, interceptor.Funcs{}, &asked)
			if _, err := r.load(t.Context(), runtimeWith(func(r *corev1alpha1.Runtime) { r.Spec.Template.Spec.ServiceAccountName = tc.account })); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, asked); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAMissingIndexIsNoticed keeps the end of a Pod from being missed in silence.
func TestAMissingIndexIsNoticed(t *testing.T) {
	runs := &RunReconciler{Client: newReconciler(t, interceptor.Funcs{}, nil).Client}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := runs.runsOfPod(ended, pod); got != nil {
		t.Errorf("got %v after the end", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("an index that was not registered went unnoticed")
		}
	}()
	runs.runsOfPod(t.Context(), pod)
}
