package core

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func isOwner(object client.Object) bool {
	return object.GetObjectKind().GroupVersionKind().Kind == workflowRunKind
}

// reads is a reader that keeps the resource versions for which WorkflowRuns are asked, and answers each in its own way.
type reads struct {
	asked  []string
	answer map[string]func(owner client.Object) error
}

func (r *reads) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if !isOwner(object) {
		return c.Get(ctx, key, object, opts...)
	}
	version := (&client.GetOptions{}).ApplyOptions(opts).AsGetOptions().ResourceVersion
	r.asked = append(r.asked, version)
	return r.answer[version](object)
}

func TestTheOwnerIsReadFromTheWatchCacheFirst(t *testing.T) {
	there := func(uid types.UID) func(client.Object) error {
		return func(owner client.Object) error {
			owner.SetName("ci")
			owner.SetUID(uid)
			return nil
		}
	}
	gone := func(client.Object) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "workflowruns"}, "ci")
	}
	deleted := func(owner client.Object) error {
		now := metav1.Now()
		owner.SetDeletionTimestamp(&now)
		return there(uid)(owner)
	}
	away := func(client.Object) error { return errors.New("connection refused") }
	cases := map[string]struct {
		cached, stored func(client.Object) error
		want           int32
		wantAsked      []string
	}{
		"it is there":                         {cached: there(uid), want: http.StatusOK, wantAsked: []string{"0"}},
		"it is too new for the cache":         {cached: gone, stored: there(uid), want: http.StatusOK, wantAsked: []string{"0", ""}},
		"the cache has one that it replaced":  {cached: there("an-earlier-one"), stored: there(uid), want: http.StatusOK, wantAsked: []string{"0", ""}},
		"it is gone":                          {cached: gone, stored: gone, want: http.StatusForbidden, wantAsked: []string{"0", ""}},
		"it was replaced":                     {cached: gone, stored: there("a-later-one"), want: http.StatusForbidden, wantAsked: []string{"0", ""}},
		"it is being deleted":                 {cached: deleted, want: http.StatusForbidden, wantAsked: []string{"0"}},
		"the API server cannot be reached":    {cached: away, want: http.StatusServiceUnavailable, wantAsked: []string{"0"}},
		"the API server is lost between both": {cached: gone, stored: away, want: http.StatusServiceUnavailable, wantAsked: []string{"0", ""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &reads{answer: map[string]func(client.Object) error{"0": tc.cached, "": tc.stored}}
			api := interceptor.NewClient(world(t, nil, nil, childWorkspace()).(client.WithWatch), interceptor.Funcs{Get: r.get})
			got := handleChild(t, api)
			if got != tc.want {
				t.Errorf("code %d, want %d", got, tc.want)
			}
			if diff := cmp.Diff(tc.wantAsked, r.asked); diff != "" {
				t.Errorf("resource versions (-want +got):\n%s", diff)
			}
		})
	}
}

// handleChild returns the code with which a Run of the controller is answered.
func handleChild(t *testing.T, api client.Client) int32 {
	t.Helper()
	h := &RunHandler{Live: api, Reviews: api, Controller: controller}
	return h.Handle(t.Context(), request(t, admissionv1.Create, authenticationv1.UserInfo{Username: controller}, childRun())).Result.Code
}

// TestAnswersComeBeforeTheAPIServerGivesUp takes the slowest ways to an answer: each read takes as long as it may, or for ever.
func TestAnswersComeBeforeTheAPIServerGivesUp(t *testing.T) {
	const apiServer, justInTime = 5 * time.Second, readTimeout - time.Millisecond
	if slowest := readTimeout + reviewTimeout; slowest > apiServer-time.Second {
		t.Errorf("a review may take until %s, and the API server waits %s", slowest, apiServer)
	}
	if reviewTimeout != 2*time.Second {
		t.Errorf("a review may take %s, want 2s", reviewTimeout)
	}
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context, d time.Duration) error {
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		owners := 0
		api := world(t, nil, func(ctx context.Context, object client.Object) error {
			err := wait(ctx, justInTime)
			if !isOwner(object) || err != nil {
				return err
			}
			if owners++; owners == 1 {
				return apierrors.NewNotFound(schema.GroupResource{}, "ci")
			}
			return wait(ctx, time.Hour)
		}, childWorkspace())
		began := time.Now()
		if code := handleChild(t, api); code != http.StatusGatewayTimeout {
			t.Errorf("code %d, want %d", code, http.StatusGatewayTimeout)
		}
		if took := time.Since(began); took > apiServer-time.Second {
			t.Errorf("the answer took %s, and the API server waits %s", took, apiServer)
		}
	})
}
