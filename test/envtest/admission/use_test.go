package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// TestPermissionRule1WhoMayOnlyCreateRunsReachesNoWorkspace tries every way to a reference that a right to Runs opens.
func TestPermissionRule1WhoMayOnlyCreateRunsReachesNoWorkspace(t *testing.T) {
	ns, mallory := team(t)
	const missing = refusal + `user "mallory" may not execute in PersistentWorkspace "secret": the verb "use" on persistentworkspaces/use is missing`
	owner := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ci"}, Spec: workflowsv1alpha1.WorkflowRunSpec{
		Jobs: map[string]workflowsv1alpha1.Job{"build": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}}}}
	shared.Create(t, owner)
	shared.Create(t, child(owner, newWorkspace(ns, "ci-build")))

	ways := map[string]struct {
		create func() error
		want   string
	}{
		"by reference": {func() error { return mallory.Create(t.Context(), newRun(ns, "direct", "secret")) }, missing},
		"by reference with the kind written out": {func() error {
			run := newRun(ns, "direct", "secret")
			run.Spec.Workspace.Kind, run.Spec.Workspace.APIGroup = "PersistentWorkspace", "workspaces.kruntimes.io/v1alpha1"
			return mallory.Create(t.Context(), run)
		}, missing},
		"with generateName": {func() error {
			run := newRun(ns, "", "secret")
			run.GenerateName = "direct-"
			return mallory.Create(t.Context(), run)
		}, missing},
		"in a dry run on the server": {func() error { return mallory.Create(t.Context(), newRun(ns, "direct", "secret"), client.DryRunAll) }, missing},
		"with server-side apply":     {func() error { return apply(t, mallory, newRun(ns, "direct", "secret")) }, missing},
		"with a status that says it has started": {func() error {
			run := newRun(ns, "direct", "secret")
			run.Status = corev1alpha1.RunStatus{Phase: corev1alpha1.RunRunning, AssignedPod: "p", AssignedPodUID: "u"}
			return mallory.Create(t.Context(), run)
		}, missing},
		"with the labels of a child": {func() error {
			run := newRun(ns, "direct", "secret")
			run.Labels = map[string]string{workflowsv1alpha1.LabelWorkflowRunUID: string(owner.UID), workflowsv1alpha1.LabelJob: "build"}
			return mallory.Create(t.Context(), run)
		}, "metadata.labels named workflows.kruntimes.io/* are set only by the control plane"},
		"with the owner of a child": {func() error {
			run := newRun(ns, "direct", "secret")
			run.OwnerReferences = child(owner, newRun(ns, "x", "")).GetOwnerReferences()
			return mallory.Create(t.Context(), run)
		}, "metadata.ownerReferences must not name a WorkflowRun as controller"},
		"with an owner that does not control": {func() error {
			run := newRun(ns, "direct", "secret")
			run.OwnerReferences = child(owner, newRun(ns, "x", "")).GetOwnerReferences()
			run.OwnerReferences[0].Controller = nil
			return mallory.Create(t.Context(), run)
		}, missing},
		"to the workspace of a WorkflowRun": {func() error { return mallory.Create(t.Context(), newRun(ns, "direct", "ci-build")) },
			refusal + `user "mallory" may not execute in PersistentWorkspace "ci-build"`},
		"to a workspace that is not there": {func() error { return mallory.Create(t.Context(), newRun(ns, "direct", "later")) },
			refusal + fmt.Sprintf("namespace %q has no PersistentWorkspace %q: create it before the Run", ns, "later")},
		"to a path": {func() error {
			return mallory.Create(t.Context(), newRun(ns, "direct", "../persistentworkspaces/secret"))
		},
			"has no PersistentWorkspace"},
		"with a Runtime of his own": {func() error {
			run := newRun(ns, "direct", "secret")
			run.Spec.Runtime = "mallorys"
			return mallory.Create(t.Context(), run)
		}, refusal + `PersistentWorkspace "secret" belongs to Runtime "sh", and the Run asks for Runtime "mallorys"`},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) { expectError(t, "the Run", way.create(), way.want) })
	}
	expectNoRunIn(t, ns, "secret")
	expectNoRunIn(t, ns, "ci-build")
	expectNoRunIn(t, ns, "later")
	expectError(t, "a Run of his own", mallory.Create(t.Context(), newRun(ns, "own", "")), "")
}

func apply(t *testing.T, c client.Client, run *corev1alpha1.Run) error {
	t.Helper()
	u := &unstructured.Unstructured{}
	raw, err := yaml.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &u.Object); err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(u.Object, "status")
	u.SetGroupVersionKind(corev1alpha1.GroupVersion.WithKind("Run"))
	return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("mallory"), client.ForceOwnership)
}

// TestARunKeepsItsWorkspace holds that what was decided at create cannot be changed afterwards, in whatever way.
func TestARunKeepsItsWorkspace(t *testing.T) {
	ns := shared.Namespace(t)
	startManager(t, ns)
	shared.Create(t, newWorkspace(ns, "secret"))
	shared.Create(t, newWorkspace(ns, "own"))
	mallory := newClient(t, shared.User(t, ns, "mallory", writeRuns, use("own"), writeRunStatus))
	for before, run := range map[string]*corev1alpha1.Run{"no workspace": newRun(ns, "private", ""), "his own workspace": newRun(ns, "shared", "own")} {
		if err := mallory.Create(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		const immutable = "workspace is immutable: create a new Run"
		updated := run.DeepCopy()
		updated.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: "secret", Kind: "PersistentWorkspace", APIGroup: "workspaces.kruntimes.io/v1alpha1"}
		op := "replace"
		if run.Spec.Workspace == nil {
			op = "add"
		}
		expectError(t, before+", update", mallory.Update(t.Context(), updated.DeepCopy()), immutable)
		expectError(t, before+", merge patch", mallory.Patch(t.Context(), run.DeepCopy(),
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"workspace":{"name":"secret"}}}`))), immutable)
		expectError(t, before+", JSON patch", mallory.Patch(t.Context(), run.DeepCopy(),
			client.RawPatch("application/json-patch+json", []byte(`[{"op":"`+op+`","path":"/spec/workspace","value":{"name":"secret"}}]`))), immutable)
		applied := newRun(ns, run.Name, "secret")
		expectError(t, before+", server-side apply", apply(t, mallory, applied), immutable)
		expectError(t, before+", removal of the spec", mallory.Patch(t.Context(), run.DeepCopy(),
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":null}`))), "spec: Required value")
		// The status subresource takes no spec; nothing of it may stick, whether the policy or the API server drops it.
		_ = mallory.Status().Update(t.Context(), updated.DeepCopy())
	}
	expectNoRunIn(t, ns, "secret")
}

// TestPermissionRule2AGrantReachesAsFarAsItSays follows the two ways that the message names.
func TestPermissionRule2AGrantReachesAsFarAsItSays(t *testing.T) {
	ns, elsewhere := shared.Namespace(t), shared.Namespace(t)
	startManager(t, ns)
	startManager(t, elsewhere)
	for _, name := range []string{"ci", "secret"} {
		shared.Create(t, newWorkspace(ns, name))
		shared.Create(t, newWorkspace(elsewhere, name))
	}
	one := newClient(t, shared.User(t, ns, "ann", writeRuns, use("ci")))
	expectError(t, "the workspace that the grant names", one.Create(t.Context(), newRun(ns, "a1", "ci")), "")
	expectError(t, "another workspace", one.Create(t.Context(), newRun(ns, "a2", "secret")), "may not execute in PersistentWorkspace")

	all := newClient(t, shared.User(t, ns, "bob", writeRuns))
	bind(t, ns, config.WorkspaceUserClusterRole, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "bob"})
	shared.User(t, elsewhere, "bob", writeRuns)
	expectEventually(t, all, newRun(ns, "b1", "secret"))
	expectError(t, "the same workspace in another namespace", all.Create(t.Context(), newRun(elsewhere, "b2", "secret")), "may not execute in PersistentWorkspace")

	account := newClient(t, shared.ServiceAccount(t, ns, "bot"))
	bind(t, ns, "kruntimes-edit", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "bot"})
	expectRefusal(t, account, newRun(ns, "c1", "secret"), "ServiceAccount "+ns+"/bot may not execute")
}

// bind gives a subject a ClusterRole in a namespace.
func bind(t *testing.T, namespace, role string, subject rbacv1.Subject) {
	t.Helper()
	shared.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "bind-"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject}})
}

// expectEventually creates a Run as soon as a binding has taken effect.
func expectEventually(t *testing.T, c client.Client, run *corev1alpha1.Run) {
	t.Helper()
	cluster.Eventually(t, "the right to take effect", func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, run.DeepCopy())
		return err == nil, err
	})
}

// TestTheMessageCanBePasted takes the rule out of a refusal, grants it, and tries again.
func TestTheMessageCanBePasted(t *testing.T) {
	ns, mallory := team(t)
	err := mallory.Create(t.Context(), newRun(ns, "r", "secret"))
	if !apierrors.IsForbidden(err) {
		t.Fatalf("got %v, want a refusal", err)
	}
	_, rest, _ := strings.Cut(err.Error(), "holds the rule ")
	text, _, found := strings.Cut(rest, "}")
	if !found {
		t.Fatalf("there is no rule in %q", err)
	}
	var rule rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict([]byte(text+"}"), &rule); err != nil {
		t.Fatalf("reading the rule %s}: %v", text, err)
	}
	if diff := cmp.Diff(use("secret"), rule); diff != "" {
		t.Errorf("rule (-want +got):\n%s", diff)
	}
	shared.Create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pasted"}, Rules: []rbacv1.PolicyRule{rule}})
	shared.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pasted"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "pasted"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}}})
	expectEventually(t, mallory, newRun(ns, "r", "secret"))
}

// TestPermissionRule2AnAdministratorOfANamespaceGrants needs what ClusterRole admin gets by aggregation, which no controller does here:
// managing roles, and the right itself, because nobody can hand on what he does not hold.
func TestPermissionRule2AnAdministratorOfANamespaceGrants(t *testing.T) {
	ns, mallory := team(t)
	manage := rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"create"}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "use-secret"}, Rules: []rbacv1.PolicyRule{use("secret")}}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "use-secret"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "use-secret"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}}}

	climber := newClient(t, shared.User(t, ns, "climber", manage))
	expectError(t, "who manages roles and lacks the right", climber.Create(t.Context(), role.DeepCopy()), "attempting to grant RBAC permissions not currently held")
	admin := newClient(t, shared.User(t, ns, "admin", manage))
	bind(t, ns, config.WorkspaceUserClusterRole, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "admin"})
	cluster.Eventually(t, "the administrator's rights", func(ctx context.Context) (bool, error) {
		err := admin.Create(ctx, role.DeepCopy())
		return err == nil, err
	})
	if err := admin.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	expectEventually(t, mallory, newRun(ns, "r", "secret"))
}

// TestTheReviewIsAboutTheImpersonated holds that impersonation lends the rights of the other, neither more nor less, and
// that nobody gets to the controller's way by it who may not impersonate.
func TestTheReviewIsAboutTheImpersonated(t *testing.T) {
	asked := &reviews{}
	ns, _ := team(t, asked.record(t))
	shared.User(t, ns, "ann", writeRuns, use("secret"))
	as := func(impersonation rest.ImpersonationConfig) client.Client {
		cfg := shared.ServiceAccount(t, ns, "proxy") // a real identity with a token of its own
		cfg.Impersonate = impersonation
		// Who may not impersonate may not even ask which kinds there are.
		made, err := client.New(cfg, client.Options{Scheme: cluster.Scheme(), Mapper: shared.Admin().RESTMapper()})
		if err != nil {
			t.Fatal(err)
		}
		return patient{made}
	}
	manager := rest.ImpersonationConfig{UserName: "system:serviceaccount:" + config.Namespace + ":" + config.ManagerServiceAccount}
	expectError(t, "the controller, without the right to impersonate", as(manager).Create(t.Context(), newRun(ns, "r0", "secret")),
		"cannot impersonate")
	expectError(t, "ann, without the right to impersonate", as(rest.ImpersonationConfig{UserName: "ann"}).Create(t.Context(), newRun(ns, "r0", "secret")),
		"cannot impersonate")

	grantImpersonation(t, "proxy-"+ns, ns)
	expectEventually(t, as(rest.ImpersonationConfig{UserName: "ann"}), newRun(ns, "r1", "secret"))
	bind(t, ns, "kruntimes-edit", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "bob"})
	expectRefusal(t, as(rest.ImpersonationConfig{UserName: "bob"}), newRun(ns, "r2", "secret"), `user "bob" may not execute`)
	asked.take()

	everything := rest.ImpersonationConfig{UserName: "bob", UID: "uid-7", Groups: []string{"team-a", "team-b"},
		Extra: map[string][]string{"scopes.example.com/level": {"low", "high"}}}
	expectError(t, "bob with groups, UID and extra", as(everything).Create(t.Context(), newRun(ns, "r3", "secret")), `user "bob" may not execute`)
	want := []authorizationv1.SubjectAccessReviewSpec{{User: "bob", UID: "uid-7", Groups: []string{"team-a", "team-b", "system:authenticated"},
		Extra: map[string]authorizationv1.ExtraValue{"scopes.example.com/level": {"low", "high"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: "use", Group: "workspaces.kruntimes.io", Version: "v1alpha1",
			Resource: "persistentworkspaces", Subresource: "use", Name: "secret"}}}
	if diff := cmp.Diff(want, asked.take(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("reviews (-want +got):\n%s", diff)
	}
	shared.Create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "team-b"}, Rules: []rbacv1.PolicyRule{use("secret")}})
	shared.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "team-b"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "team-b"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "team-b"}}})
	expectEventually(t, as(everything), newRun(ns, "r3", "secret"))
	expectError(t, "bob outside of the group", as(rest.ImpersonationConfig{UserName: "bob"}).Create(t.Context(), newRun(ns, "r4", "secret")), `user "bob" may not execute`)
}

// grantImpersonation lets ServiceAccount proxy of a namespace be anybody.
func grantImpersonation(t *testing.T, name, namespace string) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"users", "groups"}, Verbs: []string{"impersonate"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"uids", "userextras/scopes.example.com/level"}, Verbs: []string{"impersonate"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "proxy"}}}
	for _, object := range []client.Object{role, binding} {
		shared.Create(t, object)
		t.Cleanup(func() {
			if err := shared.Admin().Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Errorf("deleting %s: %v", object.GetName(), err)
			}
		})
	}
}

// TestARightIsToTheName says what fences a workspace that is deleted and made again: the right, which is to the name as the
// reference is, so that who was admitted before would be admitted now, and nobody else.
func TestARightIsToTheName(t *testing.T) {
	ns, mallory := team(t)
	ann := newClient(t, shared.User(t, ns, "ann", writeRuns, use("secret")))
	expectError(t, "before", ann.Create(t.Context(), newRun(ns, "before", "secret")), "")
	first := newWorkspace(ns, "secret")
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil {
		t.Fatal(err)
	}
	if err := shared.Admin().Delete(t.Context(), newWorkspace(ns, "secret")); err != nil {
		t.Fatal(err)
	}
	second := newWorkspace(ns, "secret")
	cluster.Eventually(t, "the name to be free", func(ctx context.Context) (bool, error) {
		err := shared.Admin().Create(ctx, second)
		return err == nil, err
	})
	if first.UID == second.UID {
		t.Fatal("the workspace was not made again")
	}
	expectError(t, "afterwards", ann.Create(t.Context(), newRun(ns, "afterwards", "secret")), "")
	expectError(t, "mallory", mallory.Create(t.Context(), newRun(ns, "mallorys", "secret")), "may not execute in PersistentWorkspace")
}

// TestAWorkspaceThatIsOfNoUseLeavesTheRunWaiting holds the line between admission and scheduling.
func TestAWorkspaceThatIsOfNoUseLeavesTheRunWaiting(t *testing.T) {
	ns := shared.Namespace(t)
	startManager(t, ns)
	ann := newClient(t, shared.User(t, ns, "ann", writeRuns, use()))
	pending := newWorkspace(ns, "pending")
	shared.Create(t, pending)
	expectError(t, "a workspace without a Pod", ann.Create(t.Context(), newRun(ns, "pending", "pending")), "")

	deleting := newWorkspace(ns, "deleting")
	deleting.Finalizers = []string{"example.com/held"}
	shared.Create(t, deleting)
	if err := shared.Admin().Delete(t.Context(), deleting.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	expectError(t, "a workspace that is being deleted", ann.Create(t.Context(), newRun(ns, "deleting", "deleting")), "")
	seen := &workspacesv1alpha1.PersistentWorkspace{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(deleting), seen); err != nil || seen.DeletionTimestamp == nil {
		t.Errorf("the workspace is not being deleted: %v", err)
	}
}

// TestPermissionRule3NoComponentMayUseWorkspaces asks the API server itself about every identity that we ship.
func TestPermissionRule3NoComponentMayUseWorkspaces(t *testing.T) {
	ns := shared.Namespace(t)
	shared.Create(t, newWorkspace(ns, "secret"))
	shared.RuntimePod(t, ns, "sh", "runtime-sh-0")
	for _, account := range []struct{ namespace, name string }{
		{config.Namespace, config.ManagerServiceAccount}, {config.Namespace, config.SchedulerServiceAccount}, {ns, "runtime-" + corev1alpha1.RuntimeLabelValue("sh")},
	} {
		for _, name := range []string{"secret", ""} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:" + account.namespace + ":" + account.name,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account.namespace, "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: "use", Group: "workspaces.kruntimes.io",
					Resource: "persistentworkspaces", Subresource: "use", Name: name}}}
			if err := shared.Admin().Create(t.Context(), review); err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed {
				t.Errorf("%s may use workspace %q: %s", account.name, name, review.Status.Reason)
			}
		}
	}
}

// TestPermissionRule4SchedulerAndRuntimedAskNobody asks the API server itself: neither may read who may do what, nor
// WorkflowRuns, so that they decide on the reference alone. The scheduler may ask for reviews, of those who read its metrics.
func TestPermissionRule4SchedulerAndRuntimedAskNobody(t *testing.T) {
	ns := shared.Namespace(t)
	shared.RuntimePod(t, ns, "sh", "runtime-sh-0")
	scheduler := "system:serviceaccount:" + config.Namespace + ":" + config.SchedulerServiceAccount
	runtimed := "system:serviceaccount:" + ns + ":runtime-" + corev1alpha1.RuntimeLabelValue("sh")
	may := func(user, verb, group, resource string) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: []string{"system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: verb, Group: group, Resource: resource}}}
		if err := shared.Admin().Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	for _, user := range []string{scheduler, runtimed} {
		for _, asked := range []struct{ verb, group, resource string }{
			{"create", "authorization.k8s.io", "subjectaccessreviews"}, {"create", "authorization.k8s.io", "localsubjectaccessreviews"},
			{"get", "rbac.authorization.k8s.io", "roles"}, {"list", "rbac.authorization.k8s.io", "rolebindings"},
			{"get", "workflows.kruntimes.io", "workflowruns"}, {"list", "workflows.kruntimes.io", "workflows"},
		} {
			isForMetrics := user == scheduler && asked.resource == "subjectaccessreviews"
			if may(user, asked.verb, asked.group, asked.resource) != isForMetrics {
				t.Errorf("%s may %s %s: %t", user, asked.verb, asked.resource, !isForMetrics)
			}
		}
	}
	if !may(scheduler, "list", "workspaces.kruntimes.io", "persistentworkspaces") || !may(scheduler, "patch", "kruntimes.io", "runs/status") {
		t.Error("the scheduler may not do its own work: the test asks about nobody")
	}
}

// TestTheReferenceThatIsStoredIsTheOneThatIsDecidedOn sends bodies that two readers could read in two ways.
func TestTheReferenceThatIsStoredIsTheOneThatIsDecidedOn(t *testing.T) {
	ns := shared.Namespace(t)
	startManager(t, ns)
	shared.Create(t, newWorkspace(ns, "own"))
	shared.Create(t, newWorkspace(ns, "secret"))
	cfg := shared.User(t, ns, "mallory", writeRuns, use("own"))
	cfg.GroupVersion, cfg.APIPath = &corev1alpha1.GroupVersion, "/apis"
	cfg.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	mallory, err := rest.RESTClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		// workspace is a part of the spec, as JSON.
		workspace string
		want      string
	}{
		"the right one first":           {`"workspace":{"name":"own"},"workspace":{"name":"secret"}`, "may not execute"},
		"the right name first":          {`"workspace":{"name":"own","name":"secret"}`, "may not execute"},
		"another spelling of the field": {`"Workspace":{"name":"secret"}`, ""},
		"another spelling of the name":  {`"workspace":{"name":"own","Name":"secret"}`, ""},
		"an escaped name":               {`"workspace":{"name":"\u0073ecret"}`, "may not execute"},
		"an escaped field":              {`"\u0077orkspace":{"name":"secret"}`, "may not execute"},
		"nothing":                       {`"workspace":null`, ""},
		"no name":                       {`"workspace":{}`, "spec.workspace.name: Required value"},
		"an empty name":                 {`"workspace":{"name":""}`, "spec.workspace.name: Invalid value"},
		"a list":                        {`"workspace":[{"name":"secret"}]`, "must be of type object"},
		"another kind":                  {`"workspace":{"name":"secret","kind":"Secret"}`, "spec.workspace.kind: Unsupported value"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			body := `{"apiVersion":"kruntimes.io/v1alpha1","kind":"Run","metadata":{"generateName":"r-"},"spec":{"runtime":"sh","source":{"inline":"true"},` + tc.workspace + `}}`
			err := patiently(func() error {
				raw, err := mallory.Post().Namespace(ns).Resource("runs").SetHeader("Content-Type", "application/json").Body([]byte(body)).DoRaw(t.Context())
				if err != nil {
					return fmt.Errorf("%w: %s", err, raw)
				}
				return nil
			})
			expectError(t, "the Run", err, tc.want)
		})
	}
	expectNoRunIn(t, ns, "secret")
}
