package admission

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/groups"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// intercept answers the manager's reviews in the place of the API server.
func intercept(answer func(next http.RoundTripper, r *http.Request) (*http.Response, error)) func(*manager.Options) {
	return func(o *manager.Options) {
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return cluster.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if isReview(r) {
					return answer(next, r)
				}
				return next.RoundTrip(r)
			})
		})
	}
}

// TestPermissionRule1ASlowReviewRefusesInTime delays the review of a user who holds the right by 3 s: were it waited for, he would be
// admitted, and were the API server the one to lose patience, the message would be its own.
func TestPermissionRule1ASlowReviewRefusesInTime(t *testing.T) {
	ns, _ := team(t, intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(3 * time.Second):
			return next.RoundTrip(r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}))
	ann := cluster.Client(t, shared.User(t, ns, "ann", writeRuns, use("secret")))
	began := time.Now()
	err := createReviewed(t, ann, newRun(ns, "r", "secret"))
	took := time.Since(began)
	expectError(t, "the Run", err, refusal+`whether "ann" may execute in PersistentWorkspace "secret" could not be found out in time: try again`)
	if !apierrors.IsTimeout(err) {
		t.Errorf("got reason %s, want %s", apierrors.ReasonForError(err), "Timeout")
	}
	if took < 2*time.Second {
		t.Errorf("the refusal took %s, want at least 2s", took)
	}
	expectNoRunIn(t, ns, "secret")
}

// createReviewed creates a Run, again where the machine was too busy for the review to be reached.
func createReviewed(t *testing.T, c client.Client, run *corev1alpha1.Run) (err error) {
	t.Helper()
	for range attempts {
		err = c.Create(t.Context(), run.DeepCopy())
		if err == nil || !strings.Contains(err.Error(), "could not be read in time") && !strings.Contains(err.Error(), "context deadline exceeded") {
			return err
		}
	}
	return err
}

func TestPermissionRule1AFailingReviewRefuses(t *testing.T) {
	answers := map[string]struct {
		answer func(next http.RoundTripper, r *http.Request) (*http.Response, error)
	}{
		"an API server that cannot be reached": {func(http.RoundTripper, *http.Request) (*http.Response, error) {
			return nil, errors.New("no route to host")
		}},
		"an API server that fails": {func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			r.URL.Path += "-of-another-kind"
			return next.RoundTrip(r)
		}},
	}
	for name, tc := range answers {
		t.Run(name, func(t *testing.T) {
			ns, _ := team(t, intercept(tc.answer))
			ann := cluster.Client(t, shared.User(t, ns, "ann", writeRuns, use("secret")))
			err := createReviewed(t, ann, newRun(ns, "r", "secret"))
			expectError(t, "the Run", err, refusal+`whether "ann" may execute in PersistentWorkspace "secret" could not be found out`)
			if !apierrors.IsServiceUnavailable(err) {
				t.Errorf("got reason %s, want ServiceUnavailable", apierrors.ReasonForError(err))
			}
			expectNoRunIn(t, ns, "secret")
		})
	}
}

// TestPermissionRule1WithoutAManagerOnlyRunsWithAWorkspaceAreRefused takes the manager away: what it decides on is refused, for everybody,
// and nothing else is touched.
func TestPermissionRule1WithoutAManagerOnlyRunsWithAWorkspaceAreRefused(t *testing.T) {
	ns := shared.Namespace(t)
	stop := startManager(t, ns)
	shared.Create(t, newWorkspace(ns, "ci"))
	ann := newClient(t, shared.User(t, ns, "ann", writeRuns, use("ci")))
	before := newRun(ns, "before", "ci")
	expectError(t, "a Run with a workspace, with a manager", ann.Create(t.Context(), before), "")
	stop()

	const down = `failed calling webhook "workspace-use.kruntimes.io"`
	expectError(t, "a Run with a workspace", ann.Create(t.Context(), newRun(ns, "with", "ci")), down)
	expectError(t, "a Run with a workspace, of the administrator", shared.Admin().Create(t.Context(), newRun(ns, "with", "ci")), down)
	expectError(t, "a dry run with a workspace", ann.Create(t.Context(), newRun(ns, "with", "ci"), client.DryRunAll), down)
	expectError(t, "a Run without a workspace", ann.Create(t.Context(), newRun(ns, "without", "")), "")
	patch := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	expectError(t, "the cancel of a Run with a workspace", ann.Patch(t.Context(), before.DeepCopy(), patch(`{"spec":{"cancelRequested":true}}`)), "")
	expectError(t, "the status of a Run with a workspace", shared.Admin().Status().Patch(t.Context(), before.DeepCopy(), patch(`{"status":{"message":"x"}}`)), "")
	expectError(t, "the deletion of a Run with a workspace", ann.Delete(t.Context(), before.DeepCopy()), "")
}

// TestAManagerThatIsNotTrustedDecidesNothing asks a server with a certificate of another authority.
func TestAManagerThatIsNotTrustedDecidesNothing(t *testing.T) {
	ns := shared.Namespace(t)
	address := freeAddress(t)
	impostor := cluster.UntrustedCertificates(t)
	shared.StartManager(t, func(o *manager.Options) {
		o.Groups = []string{groups.Core, groups.Workspaces}
		o.Admission.Address, o.Admission.CertDir = address, impostor
	})
	shared.Ask(t, ns, address)
	shared.Create(t, newWorkspace(ns, "ci"))
	expectRefusal(t, shared.Admin(), newRun(ns, "r", "ci"), "certificate signed by unknown authority")
}
