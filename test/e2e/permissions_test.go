//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

func TestWhoMayExecuteMayNotUseWorkspaces(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", e2e.WithGrace(20)) // its Pod waits so long for workspaces when the test fails
	env.Workspace("ci", "bash")
	env.Workspace("other", "bash")
	user := unique(env, "ann")
	ann := env.WithRole(user, "edit")

	plain := newRun(env, "plain", "")
	allowed(t, "a Run without a workspace", ann.Create(t.Context(), plain))
	jobs := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "jobs"}}
	jobs.Spec.Jobs = map[string]workflowsv1alpha1.Job{"build": {RunsOn: "bash", Steps: []workflowsv1alpha1.Step{
		{Name: "leave", Run: "echo left > file"}, {Name: "find", Run: "cat file"}}}}
	allowed(t, "a WorkflowRun, whose job has a workspace of its own", ann.Create(t.Context(), jobs))
	const refusal = "may not execute in PersistentWorkspace"
	denied(t, "a workspace", ann.Create(t.Context(), newRun(env, "early", "ci")), refusal)
	denied(t, "the workspace of the job", ann.Create(t.Context(), newRun(env, "intruder", "jobs-build")), "PersistentWorkspace")

	grantUse(env, user, "ci")
	inCI := newRun(env, "in-ci", "ci")
	allowed(t, "the workspace that the right names", ann.Create(t.Context(), inCI))
	denied(t, "another workspace", ann.Create(t.Context(), newRun(env, "in-other", "other")), refusal)
	env.Grant(user, "kruntimes-workspace-user")
	env.WaitAllowed(user, useOf("other"))
	inOther := newRun(env, "in-other", "other")
	allowed(t, "every workspace", ann.Create(t.Context(), inOther))
	denied(t, "a workspace that is not there", ann.Create(t.Context(), newRun(env, "nowhere", "nowhere")), "has no PersistentWorkspace")

	for _, run := range []*corev1alpha1.Run{plain, inCI, inOther} {
		if env.WaitRun(run); run.Status.Phase != corev1alpha1.RunSucceeded {
			t.Errorf("Run %s is %s: %s", run.Name, run.Status.Phase, run.Status.Message)
		}
	}
	env.WaitSucceeded("jobs")
	if got := env.Krt("logs", "jobs-build-find"); got != "left\n" {
		t.Errorf("the second step of the job found %q", got)
	}
	env.Kubectl("delete", "persistentworkspaces", "--all") // for which the Pod would wait
}

func TestAUserHasNoSayInAnotherNamespace(t *testing.T) {
	t.Parallel()
	here, there := e2e.New(t), e2e.New(t)
	user := unique(here, "bob")
	bob := here.WithRole(user, "edit")
	here.Grant(user, "kruntimes-workspace-user")
	here.WaitAllowed(user, useOf("secret"))
	for _, env := range []*e2e.Env{here, there} {
		env.Create(&workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Name: "of-" + env.Namespace},
			Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "bash"}})
	}
	allowed(t, "a workspace here", bob.Create(t.Context(), newRun(here, "own", "of-"+here.Namespace)))
	denied(t, "a Run there", bob.Create(t.Context(), newRun(there, "run", "")), "cannot create resource")
	denied(t, "a workspace there, by its name here", bob.Create(t.Context(), newRun(here, "run", "of-"+there.Namespace)), "has no PersistentWorkspace")
	outside := newRun(here, "path", "../"+there.Namespace+"/of-"+there.Namespace)
	denied(t, "a workspace there, by a path", bob.Create(t.Context(), outside), "has no PersistentWorkspace")
	denied(t, "reading Runs there", bob.List(t.Context(), &corev1alpha1.RunList{}, client.InNamespace(there.Namespace)), "cannot list resource")
	call := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: here.Namespace, Name: "call"}}
	call.Spec.Jobs = map[string]workflowsv1alpha1.Job{"a": {Uses: there.Namespace + "/deploy"}}
	denied(t, "a call of a Workflow there", bob.Create(t.Context(), call), "spec.jobs[a].uses")
}

func TestAViewerOnlyReads(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	user := unique(env, "eve")
	eve := env.WithRole(user, "view")
	run := newRun(env, "run", "")
	env.Create(run)
	allowed(t, "reading a Run", eve.Get(t.Context(), client.ObjectKeyFromObject(run), run))
	allowed(t, "listing WorkflowRuns", eve.List(t.Context(), &workflowsv1alpha1.WorkflowRunList{}, client.InNamespace(env.Namespace)))
	writing := []client.Object{
		newRun(env, "own", ""),
		&corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "own"}},
		&workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "own"}},
		&workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "own"}},
		&workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "own"}},
		&workflowsv1alpha1.Action{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "own"}},
	}
	for _, object := range writing {
		denied(t, fmt.Sprintf("creating %T", object), eve.Create(t.Context(), object), "cannot create resource")
	}
	denied(t, "cancelling a Run", eve.Patch(t.Context(), run.DeepCopy(), merge(`{"spec":{"cancelRequested":true}}`)), "cannot patch resource")
	denied(t, "deleting a Run", eve.Delete(t.Context(), run.DeepCopy()), "cannot delete resource")
}

// Whatever RBAC gives somebody by mistake, policies keep results and children for the control plane.
func TestNobodyWritesResultsOrPlantsChildren(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	user := unique(env, "mallory")
	mallory := env.WithRole(user, "edit")
	run, parent := newRun(env, "run", ""), &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "parent"}}
	parent.Spec.Jobs = map[string]workflowsv1alpha1.Job{"a": {RunsOn: "bash", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}}
	env.Create(run)
	env.Create(parent)
	workspace := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Name: "ws"}, Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "bash"}}
	env.Create(workspace)

	results := map[string]func() error{
		"a Run": func() error {
			return mallory.Status().Patch(t.Context(), run.DeepCopy(), merge(`{"status":{"phase":"Cancelled","message":"forged"}}`))
		},
		"a workspace": func() error {
			return mallory.Status().Patch(t.Context(), workspace.DeepCopy(), merge(`{"status":{"observedGeneration":7}}`))
		},
	}
	for what, try := range results {
		denied(t, "an editor writes the status of "+what, try(), "cannot patch resource")
	}
	denied(t, "an editor writes the status of a WorkflowRun",
		mallory.Status().Patch(t.Context(), parent.DeepCopy(), merge(`{"status":{"phase":"Succeeded"}}`)), "cannot patch resource")
	grantStatus(env, user)
	for what, try := range results {
		denied(t, "an editor with a right to it writes the status of "+what, try(), "written only by the")
	}
	allowed(t, "a status in a manifest", mallory.Patch(t.Context(), run.DeepCopy(), merge(`{"status":{"phase":"Succeeded"}}`)))
	if env.Refresh(run); run.Status.Phase != corev1alpha1.RunPending {
		t.Errorf("a status in a manifest made the Run %s", run.Status.Phase)
	}

	children := map[string]func() client.Object{
		"a Run": func() client.Object { return newRun(env, "planted", "") },
		"a WorkflowRun": func() client.Object {
			c := parent.DeepCopy()
			c.ObjectMeta = metav1.ObjectMeta{Namespace: env.Namespace, Name: "planted"}
			return c
		},
		"a workspace": func() client.Object {
			return &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "planted"}, Spec: workspace.Spec}
		},
	}
	for what, planted := range children {
		labelled, owned := planted(), planted()
		labelled.SetLabels(map[string]string{workflowsv1alpha1.LabelWorkflowRunUID: string(parent.UID), workflowsv1alpha1.LabelJob: "a"})
		denied(t, what+" with the labels of a child", mallory.Create(t.Context(), labelled), "set only by the control plane")
		owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: workflowsv1alpha1.GroupVersion.String(), Kind: "WorkflowRun",
			Name: parent.Name, UID: parent.UID, Controller: ptr.To(true)}})
		denied(t, what+" with a WorkflowRun as controller", mallory.Create(t.Context(), owned), "only the control plane makes children")
	}
	denied(t, "labels afterwards", mallory.Patch(t.Context(), run.DeepCopy(),
		merge(`{"metadata":{"labels":{"`+workflowsv1alpha1.LabelWorkflowRunUID+`":"`+string(parent.UID)+`"}}}`)), "set only by the control plane")
}

// The tokens are real ones, as the kubelet gives them to two Pods of one Runtime: same account, same rights.
func TestAPodForgesNothingOfAnotherPod(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", e2e.WithReplicas(2), e2e.WithGrace(20))
	workspace := env.Workspace("ws", "bash")
	run := env.Run("bash", "echo begun; exec sleep 600", func(r *corev1alpha1.Run) { r.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: "ws"} })
	env.WaitPhase(run, corev1alpha1.RunRunning)
	var own, other client.Client
	var neighbour corev1.Pod
	for _, pod := range env.Pods("bash") {
		if string(pod.UID) == run.Status.AssignedPodUID {
			own = env.AsPod(&pod)
			continue
		}
		other, neighbour = env.AsPod(&pod), pod
	}
	if own == nil || other == nil || workspace.Status.BoundPod != run.Status.AssignedPod {
		t.Fatalf("the Run is on Pod %s, the workspace on %s, of Pods %v", run.Status.AssignedPod, workspace.Status.BoundPod, env.Pods("bash"))
	}
	status := func(c client.Client, text string) error {
		return c.Status().Patch(t.Context(), run.DeepCopy(), merge(`{"status":`+text+`}`), client.DryRunAll)
	}
	const result = `{"phase":"Succeeded","outputs":{"forged":"yes"}}`
	onlyIts := "is written only by the Pod it is assigned to (" + run.Status.AssignedPod + ")"
	denied(t, "a result by the other Pod", status(other, result), onlyIts)
	denied(t, "an end by the other Pod", status(other, `{"phase":"Failed","reason":"RuntimePodLost"}`), onlyIts)
	denied(t, "handing the Run back by the other Pod", status(other, `{"phase":"Pending","attempt":2,"assignedPod":null,"assignedPodUID":null}`), onlyIts)
	stolen := fmt.Sprintf(`{"phase":"Running","attempt":2,"assignedPod":%q,"assignedPodUID":%q}`, neighbour.Name, neighbour.UID)
	denied(t, "taking the Run over", status(other, stolen), onlyIts)
	denied(t, "giving the Run to the other Pod, by its own", status(own, stolen), "status.assignedPod is set only by the scheduler")
	allowed(t, "a result by its own Pod", status(own, result))

	finalizers := func(c client.Client) error {
		return c.Patch(t.Context(), workspace.DeepCopy(), merge(`{"metadata":{"finalizers":null}}`), client.DryRunAll)
	}
	denied(t, "the finalizer of a workspace that is in use", finalizers(own), "may change nothing of a PersistentWorkspace")
	denied(t, "the finalizer of another Pod's workspace", finalizers(other), "")
	for what, try := range map[string]error{
		"creating a Run":      other.Create(t.Context(), newRun(env, "own", "")),
		"changing a Run":      other.Patch(t.Context(), run.DeepCopy(), merge(`{"spec":{"cancelRequested":true}}`)),
		"deleting a Run":      other.Delete(t.Context(), run.DeepCopy()),
		"reading Secrets":     other.List(t.Context(), &corev1.SecretList{}, client.InNamespace(env.Namespace)),
		"listing Pods":        other.List(t.Context(), &corev1.PodList{}, client.InNamespace(env.Namespace)),
		"Runs anywhere else":  other.List(t.Context(), &corev1alpha1.RunList{}, client.InNamespace(e2e.SystemNamespace)),
		"the workspace's end": other.Delete(t.Context(), workspace.DeepCopy()),
	} {
		denied(t, what, try, "cannot")
	}
	env.LosePod(&neighbour)
	env.Eventually("the token of a Pod that is gone is good for nothing", func() string {
		if err := status(other, result); !apierrors.IsUnauthorized(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
	if env.Refresh(run); run.Status.Phase != corev1alpha1.RunRunning || len(run.Status.Outputs) > 0 {
		t.Errorf("after all of that the Run is %+v", run.Status)
	}
	env.Kubectl("delete", "runs,persistentworkspaces", "--all") // for which the Pod would wait
}

// newRun is a Run that is not created yet, in a workspace unless that is "".
func newRun(env *e2e.Env, name, workspace string) *corev1alpha1.Run {
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}}
	run.Spec.Runtime, run.Spec.Source = "bash", &corev1alpha1.RunSource{Inline: "true"}
	if workspace != "" {
		run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: workspace}
	}
	return run
}

// unique makes the name of a user that no other test knows.
func unique(env *e2e.Env, name string) string { return name + "-of-" + env.Namespace }

func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

func allowed(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s was refused: %v", what, err)
	}
}

func denied(t *testing.T, what string, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: got %v, want a refusal that says %q", what, err, words)
	}
}

func useOf(workspace string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{
		Group: workspacesv1alpha1.GroupVersion.Group, Resource: "persistentworkspaces", Subresource: "use", Verb: "use", Name: workspace,
	}
}

// grantUse lets a user use one workspace, as docs/security.md tells it.
func grantUse(env *e2e.Env, user, workspace string) {
	grantRule(env, user, "use-"+workspace, rbacv1.PolicyRule{APIGroups: []string{workspacesv1alpha1.GroupVersion.Group},
		Resources: []string{"persistentworkspaces/use"}, Verbs: []string{"use"}, ResourceNames: []string{workspace}})
	env.WaitAllowed(user, useOf(workspace))
}

// grantStatus gives a user what no role of kruntimes gives to people.
func grantStatus(env *e2e.Env, user string) {
	for group, resource := range map[string]string{corev1alpha1.GroupVersion.Group: "runs", workspacesv1alpha1.GroupVersion.Group: "persistentworkspaces"} {
		grantRule(env, user, "status-of-"+resource, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource + "/status"}, Verbs: []string{"patch"}})
		env.WaitAllowed(user, authorizationv1.ResourceAttributes{Group: group, Resource: resource, Subresource: "status", Verb: "patch"})
	}
}

func grantRule(env *e2e.Env, user, name string, rule rbacv1.PolicyRule) {
	env.Create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}})
	env.Create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}})
}
