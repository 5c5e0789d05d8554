package core

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

const controller = "system:serviceaccount:kruntimes-system:kruntimes-manager"

// reviewer answers SubjectAccessReviews and keeps them.
type reviewer struct {
	answer func(context.Context, *authorizationv1.SubjectAccessReview) error
	asked  []authorizationv1.SubjectAccessReviewSpec
}

func allow(_ context.Context, review *authorizationv1.SubjectAccessReview) error {
	review.Status.Allowed = true
	return nil
}

// world is an API server with these objects; get, where it is not nil, answers reads before the objects do.
func world(t *testing.T, r *reviewer, get func(context.Context, client.Object) error, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, corev1alpha1.AddToScheme,
		workspacesv1alpha1.AddToScheme, workflowsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			review := object.(*authorizationv1.SubjectAccessReview)
			r.asked = append(r.asked, review.Spec)
			return r.answer(ctx, review)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if get != nil {
				if err := get(ctx, object); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, object, opts...)
		},
	}).Build()
}

func request(t *testing.T, operation admissionv1.Operation, caller authenticationv1.UserInfo, run *corev1alpha1.Run) admission.Request {
	t.Helper()
	raw, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "r", Operation: operation, Namespace: "team-a",
		UserInfo: caller, Object: runtime.RawExtension{Raw: raw}}}
}

func TestHandle(t *testing.T) {
	ann := authenticationv1.UserInfo{Username: "ann", UID: "u-1", Groups: []string{"team-a", "system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{"example.com/scope": {"one", "two"}}}
	asked := authorizationv1.SubjectAccessReviewSpec{User: "ann", UID: "u-1", Groups: []string{"team-a", "system:authenticated"},
		Extra: map[string]authorizationv1.ExtraValue{"example.com/scope": {"one", "two"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "team-a", Verb: "use", Group: "workspaces.kruntimes.io", Version: "v1alpha1",
			Resource: "persistentworkspaces", Subresource: "use", Name: "ci-build"}}
	manager := authenticationv1.UserInfo{Username: controller, Groups: []string{"system:serviceaccounts"}}
	private := childRun()
	private.Spec.Workspace = nil
	pathlike := childRun()
	pathlike.Spec.Workspace.Name = "../persistentworkspaces/ci-build"
	orphan := childRun()
	orphan.OwnerReferences = nil
	deny := func(context.Context, *authorizationv1.SubjectAccessReview) error { return nil }
	unreachable := errors.New("dial tcp 10.96.0.1:443: connect: connection refused")
	everything := []client.Object{childWorkspace(), liveOwner()}
	cases := map[string]struct {
		operation admissionv1.Operation // default: create
		caller    authenticationv1.UserInfo
		run       *corev1alpha1.Run // default: childRun
		objects   []client.Object
		get       func(context.Context, client.Object) error
		answer    func(context.Context, *authorizationv1.SubjectAccessReview) error
		wantCode  int32
		// wantMessage is left out where another test has it.
		wantMessage string
		wantAsked   []authorizationv1.SubjectAccessReviewSpec
	}{
		"a Run without a workspace is not asked about": {caller: ann, run: private, answer: deny, wantCode: http.StatusOK},
		"a change is not asked about":                  {operation: admissionv1.Update, caller: ann, answer: deny, wantCode: http.StatusOK},
		"whoever may use the workspace is admitted, and all that is known of him is told": {caller: ann, objects: everything, answer: allow,
			wantCode: http.StatusOK, wantAsked: []authorizationv1.SubjectAccessReviewSpec{asked}},
		"whoever may not is refused": {caller: ann, objects: everything, answer: deny,
			wantCode: http.StatusForbidden, wantAsked: []authorizationv1.SubjectAccessReviewSpec{asked}},
		"an authorizer that denies overrules one that allows": {caller: ann, objects: everything,
			answer: func(_ context.Context, r *authorizationv1.SubjectAccessReview) error {
				r.Status.Allowed, r.Status.Denied = true, true
				return nil
			}, wantCode: http.StatusForbidden, wantAsked: []authorizationv1.SubjectAccessReviewSpec{asked}},
		"a missing workspace is refused without asking":        {caller: ann, answer: allow, wantCode: http.StatusUnprocessableEntity},
		"a name that is a path is that of a missing workspace": {caller: ann, run: pathlike, objects: everything, answer: allow, wantCode: http.StatusUnprocessableEntity},
		"a kind that is not installed is that of a missing workspace": {caller: ann, answer: allow, wantCode: http.StatusUnprocessableEntity,
			get: func(context.Context, client.Object) error { return &meta.NoKindMatchError{} }},
		"a review that fails refuses, and does not tell why": {caller: ann, objects: everything,
			answer:   func(context.Context, *authorizationv1.SubjectAccessReview) error { return unreachable },
			wantCode: http.StatusServiceUnavailable, wantAsked: []authorizationv1.SubjectAccessReviewSpec{asked},
			wantMessage: `spec.workspace.name: whether "ann" may execute in PersistentWorkspace "ci-build" could not be found out: ` +
				`try again, and look into the log of the manager where that does not help`},
		"a review that comes back allowed together with an error refuses": {caller: ann, objects: everything,
			answer: func(ctx context.Context, r *authorizationv1.SubjectAccessReview) error {
				return errors.Join(allow(ctx, r), unreachable)
			}, wantCode: http.StatusServiceUnavailable, wantAsked: []authorizationv1.SubjectAccessReviewSpec{asked}},
		"a review that takes too long refuses": {caller: ann, objects: everything,
			answer: func(ctx context.Context, _ *authorizationv1.SubjectAccessReview) error {
				<-ctx.Done()
				return ctx.Err()
			}, wantCode: http.StatusGatewayTimeout, wantAsked: []authorizationv1.SubjectAccessReviewSpec{asked},
			wantMessage: `spec.workspace.name: whether "ann" may execute in PersistentWorkspace "ci-build" could not be found out in time: try again`},
		"a review that the API server had no time for refuses": {caller: ann, objects: everything,
			answer: func(context.Context, *authorizationv1.SubjectAccessReview) error {
				return apierrors.NewTimeoutError("busy", 1)
			},
			wantCode: http.StatusGatewayTimeout, wantAsked: []authorizationv1.SubjectAccessReviewSpec{asked}},
		"a workspace that cannot be read refuses": {caller: ann, objects: everything, answer: allow, wantCode: http.StatusServiceUnavailable,
			get:         func(context.Context, client.Object) error { return unreachable },
			wantMessage: `spec.workspace.name: PersistentWorkspace "ci-build" could not be read: try again, and look into the log of the manager where that does not help`},
		"a workspace that takes too long to read refuses": {caller: ann, objects: everything, answer: allow, wantCode: http.StatusGatewayTimeout,
			get: func(ctx context.Context, _ client.Object) error {
				<-ctx.Done()
				return ctx.Err()
			}, wantMessage: `spec.workspace.name: PersistentWorkspace "ci-build" could not be read in time: try again`},
		"the controller's child is admitted without asking": {caller: manager, objects: everything, answer: deny, wantCode: http.StatusOK},
		"the controller is not asked for a right when its Run is no child": {caller: manager, run: orphan, objects: everything, answer: allow,
			wantCode: http.StatusForbidden},
		"the controller's child of a WorkflowRun that is gone is refused": {caller: manager, objects: everything[:1], answer: allow,
			wantCode: http.StatusForbidden},
		"the controller's child waits for a WorkflowRun that cannot be read": {caller: manager, objects: everything, answer: allow, wantCode: http.StatusServiceUnavailable,
			get: func(_ context.Context, object client.Object) error {
				if isOwner(object) {
					return unreachable
				}
				return nil
			}},
		"somebody else with the controller's marks is asked for the right": {caller: ann, objects: everything, answer: deny,
			wantCode: http.StatusForbidden, wantAsked: []authorizationv1.SubjectAccessReviewSpec{asked}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &reviewer{answer: tc.answer}
			api := world(t, r, tc.get, tc.objects...)
			h := &RunHandler{Live: api, Reviews: api, Controller: controller, Role: "role"}
			operation, run := tc.operation, tc.run
			if operation == "" {
				operation = admissionv1.Create
			}
			if run == nil {
				run = childRun()
			}
			got := h.Handle(t.Context(), request(t, operation, tc.caller, run))
			if got.Result.Code != tc.wantCode || got.Allowed != (tc.wantCode == http.StatusOK) {
				t.Errorf("allowed %t with code %d (%s), want code %d", got.Allowed, got.Result.Code, got.Result.Message, tc.wantCode)
			}
			if tc.wantMessage != "" && got.Result.Message != tc.wantMessage {
				t.Errorf("got message %q, want %q", got.Result.Message, tc.wantMessage)
			}
			if diff := cmp.Diff(tc.wantAsked, r.asked); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWithoutAControllerEverybodyIsAsked holds that an unset identity is not one that an anonymous caller has.
func TestWithoutAControllerEverybodyIsAsked(t *testing.T) {
	r := &reviewer{answer: func(context.Context, *authorizationv1.SubjectAccessReview) error { return nil }}
	api := world(t, r, nil, childWorkspace(), liveOwner())
	h := &RunHandler{Live: api, Reviews: api}
	for _, user := range []string{"", controller} {
		got := h.Handle(t.Context(), request(t, admissionv1.Create, authenticationv1.UserInfo{Username: user}, childRun()))
		if got.Allowed {
			t.Errorf("%q was admitted without a right", user)
		}
	}
	if len(r.asked) != 2 {
		t.Errorf("%d callers were asked for a right, want 2", len(r.asked))
	}
}

func TestARequestThatHoldsNoRunIsRefused(t *testing.T) {
	h := &RunHandler{}
	for _, raw := range []string{"", "[]", `{"spec":{"workspace":"x"}}`} {
		got := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create,
			Object: runtime.RawExtension{Raw: []byte(raw)}}})
		if got.Allowed || got.Result.Code != http.StatusBadRequest {
			t.Errorf("%q: allowed %t with code %d, want code 400", raw, got.Allowed, got.Result.Code)
		}
	}
}

func TestControllerUserIsTheNameInTokens(t *testing.T) {
	if got := ControllerUser(types.NamespacedName{Namespace: "kruntimes-system", Name: "kruntimes-manager"}); got != controller {
		t.Errorf("got %q, want %q", got, controller)
	}
}

func TestEveryReasonHasACode(t *testing.T) {
	for _, reason := range []metav1.StatusReason{metav1.StatusReasonInvalid, metav1.StatusReasonForbidden, metav1.StatusReasonTimeout, metav1.StatusReasonServiceUnavailable} {
		if codes[reason] < http.StatusBadRequest {
			t.Errorf("%s has code %d", reason, codes[reason])
		}
	}
}
