// Package admission attacks the decision who may execute in a PersistentWorkspace, with real identities, the real roles and
// policies, and a manager that a real API server asks over TLS.
package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/groups"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	shared = cluster.MustStart()
	defer shared.Stop()
	m.Run()
}

// What users may be given.
var (
	writeRuns = rbacv1.PolicyRule{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs"},
		Verbs: []string{"create", "get", "list", "update", "patch", "delete"}}
	writeRunStatus = rbacv1.PolicyRule{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs/status"}, Verbs: []string{"update", "patch"}}
)

// use is the right to use workspaces: those named, or all of a namespace.
func use(names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"workspaces.kruntimes.io"}, Resources: []string{"persistentworkspaces/use"},
		Verbs: []string{"use"}, ResourceNames: names}
}

// startManager runs a manager that the API server asks about Runs in the namespace. Unless it is
// changed, it leaves WorkflowRuns alone, so that tests can make what a controller would make.
func startManager(t *testing.T, namespace string, change ...func(*manager.Options)) (stop func()) {
	t.Helper()
	address := ""
	quiet := func(o *manager.Options) {
		o.Groups = []string{groups.Core, groups.Workspaces}
		address = o.Admission.Address
	}
	stop = shared.StartManager(t, append([]func(*manager.Options){quiet}, change...)...)
	shared.Ask(t, namespace, address)
	cluster.Eventually(t, "the manager to answer", func(ctx context.Context) (bool, error) {
		err := shared.Admin().Create(ctx, newRun(namespace, "probe", "no-such-workspace"), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "has no PersistentWorkspace"), nil
	})
	return stop
}

// newRun makes a Run of Runtime "sh" in a workspace; in none where that is empty.
func newRun(namespace, name, workspace string) *corev1alpha1.Run {
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1alpha1.RunSpec{Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "true"}}}
	if workspace != "" {
		run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: workspace}
	}
	return run
}

func newWorkspace(namespace, name string) *workspacesv1alpha1.PersistentWorkspace {
	return &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh"}}
}

// team makes a namespace with a manager that decides there, a workspace "secret" of another team, and a user "mallory" who
// may do everything with Runs and nothing with workspaces.
func team(t *testing.T, change ...func(*manager.Options)) (namespace string, mallory client.Client) {
	t.Helper()
	namespace = shared.Namespace(t)
	startManager(t, namespace, change...)
	shared.Create(t, newWorkspace(namespace, "secret"))
	return namespace, newClient(t, shared.User(t, namespace, "mallory", writeRuns, writeRunStatus))
}

// newClient makes a client that asks again where the machine was too busy for an answer within the bounds of admission.
func newClient(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	return patient{cluster.Client(t, cfg)}
}

type patient struct{ client.Client }

// Create returns what admission has decided, or anything else that is not for lack of time.
func (p patient) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	return patiently(func() error { return p.Client.Create(ctx, object, opts...) })
}

// Apply is Create for server-side apply.
func (p patient) Apply(ctx context.Context, object runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return patiently(func() error { return p.Client.Apply(ctx, object, opts...) })
}

// attempts bound how often is asked: each time takes seconds.
const attempts = 30

// patiently calls ask until the answer is not one for lack of time.
func patiently(ask func() error) (err error) {
	for range attempts {
		err = ask()
		if err == nil || !strings.Contains(err.Error(), "in time: try again") && !strings.Contains(err.Error(), "context deadline exceeded") {
			return err
		}
	}
	return err
}

// refusal is what the webhook's refusals begin with.
const refusal = `admission webhook "workspace-use.kruntimes.io" denied the request: spec.workspace.name: `

// expectError checks that err holds want, or that there is no error where want is empty.
func expectError(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: got error %v, want none", what, err)
	case want != "" && err == nil:
		t.Errorf("%s: accepted, want an error with %q", what, want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("%s: got error %v, want one with %q", what, err, want)
	}
}

// expectNoRunIn checks that no Run of the namespace names the workspace.
func expectNoRunIn(t *testing.T, namespace, workspace string) {
	t.Helper()
	runs := &corev1alpha1.RunList{}
	if err := shared.Admin().List(t.Context(), runs, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for _, run := range runs.Items {
		if run.Spec.Workspace != nil && run.Spec.Workspace.Name == workspace {
			t.Errorf("Run %s is to execute in workspace %s", run.Name, workspace)
		}
	}
}

// reviews keeps the SubjectAccessReviews of a manager.
type reviews struct {
	mu    sync.Mutex
	specs []authorizationv1.SubjectAccessReviewSpec
}

// isReview tells whether a request creates a SubjectAccessReview.
func isReview(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") }

// record puts the recorder into the way of a manager to the API server.
func (r *reviews) record(t *testing.T) func(*manager.Options) {
	return func(o *manager.Options) {
		// What a manager sends is to be read as text.
		o.Config.ContentType = "application/json"
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return cluster.RoundTripper(func(request *http.Request) (*http.Response, error) {
				if isReview(request) {
					body, err := io.ReadAll(request.Body)
					if err != nil {
						return nil, err
					}
					request.Body = io.NopCloser(bytes.NewReader(body))
					var review authorizationv1.SubjectAccessReview
					if err := json.Unmarshal(body, &review); err != nil {
						t.Errorf("a review cannot be read: %v: %s", err, body)
					}
					r.mu.Lock()
					r.specs = append(r.specs, review.Spec)
					r.mu.Unlock()
				}
				return next.RoundTrip(request)
			})
		})
	}
}

// take returns what was asked since it was called last.
func (r *reviews) take() []authorizationv1.SubjectAccessReviewSpec {
	r.mu.Lock()
	defer r.mu.Unlock()
	specs := r.specs
	r.specs = nil
	return specs
}
