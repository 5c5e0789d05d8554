package admission

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// child makes an object one of a WorkflowRun's, for job "build".
func child[T client.Object](owner *workflowsv1alpha1.WorkflowRun, object T) T {
	object.SetLabels(map[string]string{workflowsv1alpha1.LabelWorkflowRunUID: string(owner.UID), workflowsv1alpha1.LabelJob: "build"})
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, workflowsv1alpha1.GroupVersion.WithKind("WorkflowRun"))})
	return object
}

func newWorkflowRun(namespace, name string) *workflowsv1alpha1.WorkflowRun {
	return &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: workflowsv1alpha1.WorkflowRunSpec{
		Jobs: map[string]workflowsv1alpha1.Job{"build": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}}}}
}

// family is a WorkflowRun with a workspace and a Run that is to be created.
type family struct {
	owner     *workflowsv1alpha1.WorkflowRun
	workspace *workspacesv1alpha1.PersistentWorkspace
	run       *corev1alpha1.Run
}

// TestPermissionRule3TheControllerExecutesOnlyInWorkspacesOfTheSameJob tries rule 3 of the permission boundary with the real identity of
// the manager, and whatever a confused controller could ask for.
func TestPermissionRule3TheControllerExecutesOnlyInWorkspacesOfTheSameJob(t *testing.T) {
	asked := &reviews{}
	ns := shared.Namespace(t)
	startManager(t, ns, asked.record(t))
	controller := newClient(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	stranger := newWorkflowRun(ns, "stranger")
	shared.Create(t, stranger)
	cases := map[string]struct {
		// change is made before the workspace is created, end after that.
		change, end func(*testing.T, *family)
		want        string
	}{
		"children of one live WorkflowRun and job": {},
		"a Run of nobody":                          {change: func(_ *testing.T, f *family) { f.run.OwnerReferences = nil }, want: "the Run has no WorkflowRun as its controller"},
		"a Run that is owned and not controlled":   {change: func(_ *testing.T, f *family) { f.run.OwnerReferences[0].Controller = nil }, want: "the Run has no WorkflowRun as its controller"},
		"a Run with a malformed owner": {change: func(_ *testing.T, f *family) { f.run.OwnerReferences[0].APIVersion = "kruntimes.io/v1alpha1" },
			want: "the Run has no WorkflowRun as its controller"},
		"a workspace of nobody": {change: func(_ *testing.T, f *family) { f.workspace.OwnerReferences = nil }, want: "has no WorkflowRun as its controller"},
		"a workspace of another WorkflowRun": {change: func(_ *testing.T, f *family) { f.workspace = child(stranger, f.workspace) },
			want: "belongs to another WorkflowRun"},
		"a workspace with another UID": {change: func(_ *testing.T, f *family) {
			f.workspace.OwnerReferences[0].UID = "00000000-0000-4000-8000-000000000000"
		},
			want: "belongs to another WorkflowRun"},
		"both with the UID of another WorkflowRun under this one's name": {change: func(_ *testing.T, f *family) {
			for _, object := range []client.Object{f.run, f.workspace} {
				child(stranger, object)
				refs := object.GetOwnerReferences()
				refs[0].Name = f.owner.Name
				object.SetOwnerReferences(refs)
			}
		}, want: "is gone"},
		"both of a WorkflowRun that never was": {change: func(_ *testing.T, f *family) {
			never := newWorkflowRun(ns, "never")
			never.UID = "00000000-0000-4000-8000-000000000000"
			child(never, f.run)
			child(never, f.workspace)
		}, want: `WorkflowRun "never" with UID 00000000-0000-4000-8000-000000000000 is gone`},
		"both of a WorkflowRun that is deleted": {end: func(t *testing.T, f *family) { shared.Delete(t, f.owner) }, want: "is gone"},
		"both of a WorkflowRun that was replaced under its name": {end: func(t *testing.T, f *family) {
			shared.Delete(t, f.owner)
			shared.Create(t, newWorkflowRun(ns, f.owner.Name))
		}, want: "is gone"},
		"both of a WorkflowRun that is being deleted": {change: func(t *testing.T, f *family) {
			held := f.owner.DeepCopy()
			held.Finalizers = []string{"example.com/held"}
			if err := shared.Admin().Update(t.Context(), held); err != nil {
				t.Fatal(err)
			}
		}, end: func(t *testing.T, f *family) { shared.Delete(t, f.owner) }, want: "is being deleted"},
		"a Run without the label of its WorkflowRun": {change: func(_ *testing.T, f *family) { delete(f.run.Labels, workflowsv1alpha1.LabelWorkflowRunUID) },
			want: "the Run's label workflows.kruntimes.io/workflow-run-uid is not the UID"},
		"a workspace without the label of its WorkflowRun": {change: func(_ *testing.T, f *family) { delete(f.workspace.Labels, workflowsv1alpha1.LabelWorkflowRunUID) },
			want: "label workflows.kruntimes.io/workflow-run-uid of PersistentWorkspace"},
		"a workspace with the label of another WorkflowRun": {change: func(_ *testing.T, f *family) {
			f.workspace.Labels[workflowsv1alpha1.LabelWorkflowRunUID] = string(stranger.UID)
		}, want: "label workflows.kruntimes.io/workflow-run-uid of PersistentWorkspace"},
		"no job": {change: func(_ *testing.T, f *family) {
			delete(f.run.Labels, workflowsv1alpha1.LabelJob)
			delete(f.workspace.Labels, workflowsv1alpha1.LabelJob)
		}, want: "the Run has no label workflows.kruntimes.io/job"},
		"a workspace of another job": {change: func(_ *testing.T, f *family) { f.workspace.Labels[workflowsv1alpha1.LabelJob] = "deploy" },
			want: `is that of job "deploy", and the Run is of job "build"`},
		"a workspace of another Runtime": {change: func(_ *testing.T, f *family) { f.workspace.Spec.Runtime = "python" }, want: `belongs to Runtime "python"`},
		"a workspace that is not there":  {end: func(t *testing.T, f *family) { f.run.Spec.Workspace.Name = "not-there" }, want: "has no PersistentWorkspace"},
	}
	n := 0
	for name, tc := range cases {
		n++
		f := &family{owner: newWorkflowRun(ns, "ci-"+string(rune('a'+n)))}
		t.Run(name, func(t *testing.T) {
			shared.Create(t, f.owner)
			f.workspace = child(f.owner, newWorkspace(ns, f.owner.Name+"-build"))
			f.run = child(f.owner, newRun(ns, f.owner.Name+"-build-s", f.workspace.Name))
			if tc.change != nil {
				tc.change(t, f)
			}
			shared.Create(t, f.workspace)
			if tc.end != nil {
				tc.end(t, f)
			}
			asked.take()
			dryRun := f.run.DeepCopy()
			expectError(t, "a dry run", controller.Create(t.Context(), dryRun, client.DryRunAll), tc.want)
			expectError(t, "the Run", controller.Create(t.Context(), f.run), tc.want)
			if specs := asked.take(); len(specs) > 0 {
				t.Errorf("the API server was asked about the controller: %v", specs)
			}
		})
	}
}

// TestPermissionRule3NobodyElseIsTakenForTheController gives an identity all that the policies ask of the control plane, so that it can
// copy every mark of a child, and holds that it is asked for the right all the same.
func TestPermissionRule3NobodyElseIsTakenForTheController(t *testing.T) {
	ns := shared.Namespace(t)
	startManager(t, ns)
	govern := rbacv1.PolicyRule{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs/status"}, Verbs: []string{"govern"}}
	owner := newWorkflowRun(ns, "ci")
	shared.Create(t, owner)
	shared.Create(t, child(owner, newWorkspace(ns, "ci-build")))
	governor := newClient(t, shared.User(t, ns, "governor", writeRuns, govern))
	run := child(owner, newRun(ns, "ci-build-s", "ci-build"))
	expectError(t, "a governor with all marks of a child", governor.Create(t.Context(), run.DeepCopy()), `user "governor" may not execute`)

	// ServiceAccounts whose names begin, end or sound like the controller's.
	for _, account := range []struct{ namespace, name string }{{ns, config.ManagerServiceAccount}, {config.Namespace, config.ManagerServiceAccount + "-2"},
		{config.Namespace, config.SchedulerServiceAccount}} {
		namesake := newClient(t, shared.ServiceAccount(t, account.namespace, account.name))
		subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: account.namespace, Name: account.name}
		bind(t, ns, "kruntimes-edit", subject)
		bind(t, ns, "kruntimes-scheduler", subject) // governs
		want := "ServiceAccount " + account.namespace + "/" + account.name + " may not execute"
		expectRefusal(t, namesake, run, want)
	}
	expectNoRunIn(t, ns, "ci-build")
}

// expectRefusal creates a Run until the reason for its refusal is want: rights may take a moment to have an effect.
func expectRefusal(t *testing.T, c client.Client, run *corev1alpha1.Run, want string) {
	t.Helper()
	cluster.Eventually(t, "a refusal with "+want, func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, run.DeepCopy())
		if err != nil && strings.Contains(err.Error(), want) {
			return true, nil
		}
		return false, err
	})
}

// TestNobodyMakesAWorkspaceThatOfHisWorkflowRun holds the other side of the controller's way: who may change workspaces, and
// not use them, cannot have his WorkflowRun execute in one by making it the WorkflowRun's child.
func TestNobodyMakesAWorkspaceThatOfHisWorkflowRun(t *testing.T) {
	ns, _ := team(t)
	writeWorkspaces := rbacv1.PolicyRule{APIGroups: []string{"workspaces.kruntimes.io"}, Resources: []string{"persistentworkspaces"},
		Verbs: []string{"create", "get", "update", "patch", "delete"}}
	mallory := newClient(t, shared.User(t, ns, "editor", writeRuns, writeWorkspaces))
	owner := newWorkflowRun(ns, "mallorys")
	shared.Create(t, owner)
	// The manager writes the workspace meanwhile.
	update := func(change func(marked client.Object)) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			secret := newWorkspace(ns, "secret")
			if err := mallory.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
				return err
			}
			marked := child(owner, secret)
			change(marked)
			return mallory.Update(t.Context(), marked)
		})
	}
	expectError(t, "labels", update(func(marked client.Object) { marked.SetOwnerReferences(nil) }), "are set only by the control plane")
	expectError(t, "an owner", update(func(marked client.Object) { marked.SetLabels(nil) }), "must not name a WorkflowRun as controller")
	expectError(t, "a new workspace with both", mallory.Create(t.Context(), child(owner, newWorkspace(ns, "mallorys-build"))), "are set only by the control plane")

	controller := newClient(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	run := child(owner, newRun(ns, "mallorys-build-s", "secret"))
	expectError(t, "the controller, if it were led there", controller.Create(t.Context(), run), "has no WorkflowRun as its controller")
	expectNoRunIn(t, ns, "secret")
}
