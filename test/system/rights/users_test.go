package rights

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Verbs of people.
const (
	reading = "get list watch"
	writing = "create update patch delete deletecollection"
)

// asked are all rights that make a difference, as "verb resource.group".
func asked() []string {
	var all []string
	for _, resource := range []string{"runs.kruntimes.io", "runs/status.kruntimes.io", "runtimes.kruntimes.io", "runtimes/status.kruntimes.io",
		"persistentworkspaces.workspaces.kruntimes.io", "persistentworkspaces/status.workspaces.kruntimes.io",
		"workflowruns.workflows.kruntimes.io", "workflowruns/status.workflows.kruntimes.io", "workflows.workflows.kruntimes.io",
		"workflows/status.workflows.kruntimes.io", "actions.workflows.kruntimes.io", "actions/status.workflows.kruntimes.io"} {
		for _, verb := range strings.Fields(reading + " " + writing + " govern use") {
			all = append(all, verb+" "+resource)
		}
	}
	for _, verb := range []string{"get", "update", "patch"} {
		all = append(all, verb+" runtimes/scale.kruntimes.io")
	}
	return append(all, "use persistentworkspaces/use.workspaces.kruntimes.io", "bind clusterroles.rbac.authorization.k8s.io")
}

// may lists the rights that follow from resources and verbs.
func may(verbs string, resources ...string) []string {
	var all []string
	for _, resource := range resources {
		for _, verb := range strings.Fields(verbs) {
			all = append(all, verb+" "+resource)
		}
	}
	return all
}

// TestPeopleMayWhatTheirRolesSay asks the API server about users who have one ClusterRole each in a namespace: those of Kubernetes
// that contain ours by aggregation, and ours by themselves.
func TestPeopleMayWhatTheirRolesSay(t *testing.T) {
	kinds := []string{"runs.kruntimes.io", "runtimes.kruntimes.io", "persistentworkspaces.workspaces.kruntimes.io",
		"workflowruns.workflows.kruntimes.io", "workflows.workflows.kruntimes.io", "actions.workflows.kruntimes.io"}
	read := append(may(reading, kinds...), "get runtimes/scale.kruntimes.io")
	edit := slices.Concat(read, may(writing, kinds...), may("update patch", "runtimes/scale.kruntimes.io"))
	use := []string{"use persistentworkspaces/use.workspaces.kruntimes.io"}
	cases := map[string][]string{
		"view": read, "edit": edit, "admin": slices.Concat(edit, use),
		"kruntimes-view": read, "kruntimes-edit": edit, "kruntimes-workspace-user": use,
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "people-"}}
	if err := admin.Create(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	for role, want := range cases {
		t.Run(role, func(t *testing.T) {
			user := "bound-to-" + role
			if err := admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: space.Name, Name: user},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the binding and the aggregation to take effect", func() (bool, error) { return allowed(t.Context(), space.Name, user, want[0]) })
			got := sets.New[string]()
			for _, right := range asked() {
				ok, err := allowed(t.Context(), space.Name, user, right)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					got.Insert(right)
				}
			}
			if diff := cmp.Diff(sets.List(sets.New(want...)), sets.List(got)); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
			if ok, err := allowed(t.Context(), "default", user, want[0]); ok || err != nil {
				t.Errorf("%s in another namespace: %v, %v", want[0], ok, err)
			}
		})
	}
}

// allowed asks whether a user has a right in a namespace.
func allowed(ctx context.Context, namespace, user, right string) (bool, error) {
	verb, what, _ := strings.Cut(right, " ")
	resource, group, _ := strings.Cut(what, ".")
	resource, subresource, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource}}}
	err := admin.Create(ctx, review)
	return review.Status.Allowed, err
}
