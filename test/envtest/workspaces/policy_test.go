package workspaces

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

const (
	cleanupMessage = "the finalizer workspaces.kruntimes.io/cleanup is taken off by runtimed of Pod a, once it has removed the directory; delete the workspace, and wait for that or delete the Pod"
	runtimeMessage = "the Pod of a Runtime may change nothing of a PersistentWorkspace but take the finalizer workspaces.kruntimes.io/cleanup off one that is being deleted and bound to it"
	statusMessage  = "the status of a PersistentWorkspace is written only by the control plane"
)

// everyVerb is what an administrator of a namespace might grant by hand: all of workspaces, and all of the status of Runs
// but "govern".
var everyVerb = []rbacv1.PolicyRule{
	{APIGroups: []string{"workspaces.kruntimes.io"}, Resources: []string{"persistentworkspaces"}, Verbs: []string{"*"}},
	{APIGroups: []string{"workspaces.kruntimes.io"}, Resources: []string{"persistentworkspaces/status"}, Verbs: []string{"*"}},
	{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs/status"}, Verbs: []string{"patch", "update"}},
}

// boundByHand makes workspace ws, which is bound to a Pod as the controller binds it. No manager runs.
func boundByHand(t *testing.T, pod *corev1.Pod, change ...func(*workspacesv1alpha1.PersistentWorkspace)) *workspacesv1alpha1.PersistentWorkspace {
	t.Helper()
	w := newWorkspace(pod.Namespace, "ws", change...)
	w.Finalizers = append(w.Finalizers, workspacesv1alpha1.Finalizer)
	shared.Create(t, w)
	bindByHand(t, w, pod)
	return w
}

func bindByHand(t *testing.T, w *workspacesv1alpha1.PersistentWorkspace, pod *corev1.Pod) {
	t.Helper()
	before := client.MergeFrom(w.DeepCopy())
	w.Status.Phase, w.Status.Runtime, w.Status.Path = workspacesv1alpha1.WorkspaceBound, "sh", workspacesv1alpha1.Path(w.Name)
	w.Status.BoundPod, w.Status.BoundPodUID = pod.Name, string(pod.UID)
	if err := shared.Admin().Status().Patch(t.Context(), w, before); err != nil {
		t.Fatal(err)
	}
}

func TestTheFinalizerIsTakenOffByTheBoundPodOnly(t *testing.T) {
	ns, elsewhere := shared.Namespace(t), shared.Namespace(t)
	pod := shared.RuntimePod(t, ns, "sh", "a")
	callers := map[string]struct {
		client client.Client
		want   string
	}{
		"a neighbour Pod":                   {cluster.Client(t, shared.Pod(t, shared.RuntimePod(t, ns, "sh", "b"))), cleanupMessage},
		"a Pod of the same name elsewhere":  {cluster.Client(t, shared.Pod(t, shared.RuntimePod(t, elsewhere, "sh", "a"))), "cannot patch resource"},
		"the Pod's account without the Pod": {cluster.Client(t, shared.ServiceAccount(t, ns, "runtime-sh")), cleanupMessage},
		"a user with all rights but govern": {cluster.Client(t, shared.User(t, ns, "editor", everyVerb...)), cleanupMessage},
		"the scheduler":                     {cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.SchedulerServiceAccount)), "cannot patch resource"},
	}
	w := boundByHand(t, pod)
	take := func(c client.Client) error {
		return c.Patch(t.Context(), w.DeepCopy(), mergePatch(`{"metadata":{"finalizers":null}}`))
	}
	bound := cluster.Client(t, shared.Pod(t, pod))
	for name, caller := range callers {
		expectError(t, name+", while the workspace is in use", take(caller.client), caller.want)
	}
	expectError(t, "the bound Pod, while the workspace is in use", take(bound), runtimeMessage)
	shared.Delete(t, w)
	for name, caller := range callers {
		expectError(t, name, take(caller.client), caller.want)
	}
	expectError(t, "the bound Pod", letGo(t.Context(), bound, get(t, ns, "ws")), "")
	awaitGone(t, newWorkspace(ns, "ws"))
}

func TestTheControlPlaneTakesTheFinalizerOff(t *testing.T) {
	ns := shared.Namespace(t)
	w := boundByHand(t, shared.RuntimePod(t, ns, "sh", "a"))
	manager := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	expectError(t, "the manager", letGo(t.Context(), manager, w), "")
	expectError(t, "the manager changes the spec", manager.Patch(t.Context(), w.DeepCopy(), mergePatch(`{"spec":{"ttlSecondsAfterUnused":1}}`)), "")
}

// TestASuccessorOfTheBoundPodIsAnotherPod has the token of a Pod whose name the workspace knows, with another UID.
func TestASuccessorOfTheBoundPodIsAnotherPod(t *testing.T) {
	ns := shared.Namespace(t)
	first := shared.RuntimePod(t, ns, "sh", "a")
	w := boundByHand(t, first)
	shared.Delete(t, first)
	second := cluster.Client(t, shared.Pod(t, shared.RuntimePod(t, ns, "sh", "a")))
	shared.Delete(t, w)
	expectError(t, "the successor", letGo(t.Context(), second, get(t, ns, "ws")), cleanupMessage)
}

// TestRuntimedChangesNothingElse tries all that runtimed's right to patch would let it do.
func TestRuntimedChangesNothingElse(t *testing.T) {
	ns := shared.Namespace(t)
	pod := shared.RuntimePod(t, ns, "sh", "a")
	boundByHand(t, pod, func(w *workspacesv1alpha1.PersistentWorkspace) {
		w.Finalizers = []string{"example.com/first"}
		w.Labels, w.Annotations = map[string]string{"team": "a"}, map[string]string{"note": "a"}
		w.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
	})
	shared.Create(t, newWorkspace(ns, "waits"))
	bound := cluster.Client(t, shared.Pod(t, pod))
	patch := func(name, text string) error {
		return bound.Patch(t.Context(), newWorkspace(ns, name), mergePatch(text), client.DryRunAll)
	}
	const taken = `"finalizers":["example.com/first"]`
	changes := map[string]string{
		"the spec":                          `{"spec":{"cleanupPolicy":"DeleteAfterTTL","ttlSecondsAfterUnused":0}}`,
		"a label":                           `{"metadata":{"labels":{"team":"b"}}}`,
		"an annotation":                     `{"metadata":{"annotations":{"note":"b"}}}`,
		"the owners":                        `{"metadata":{"ownerReferences":null}}`,
		"a finalizer of somebody else":      `{"metadata":{"finalizers":["workspaces.kruntimes.io/cleanup"]}}`,
		"every finalizer":                   `{"metadata":{"finalizers":null}}`,
		"the finalizer and the spec":        `{"metadata":{` + taken + `},"spec":{"ttlSecondsAfterUnused":0}}`,
		"the finalizer and a label":         `{"metadata":{` + taken + `,"labels":{"team":"b"}}}`,
		"the finalizer and all labels":      `{"metadata":{` + taken + `,"labels":null}}`,
		"the finalizer and an annotation":   `{"metadata":{` + taken + `,"annotations":{"more":"b"}}}`,
		"the finalizer and all annotations": `{"metadata":{` + taken + `,"annotations":null}}`,
		"the finalizer and the owners":      `{"metadata":{` + taken + `,"ownerReferences":null}}`,
		"nothing":                           `{}`,
	}
	expectError(t, "the bound Pod adds a finalizer", patch("ws", `{"metadata":{"finalizers":["example.com/first","example.com/x"]}}`), runtimeMessage)
	for _, deleting := range []bool{false, true} {
		if deleting {
			if err := shared.Admin().Delete(t.Context(), newWorkspace(ns, "ws")); err != nil {
				t.Fatal(err)
			}
		}
		for what, text := range changes {
			expectError(t, "the bound Pod changes "+what, patch("ws", text), runtimeMessage)
		}
	}
	expectError(t, "a workspace without a Pod", patch("waits", `{"metadata":{"labels":{"a":"b"}}}`), runtimeMessage)
	expectError(t, "the finalizer alone", patch("ws", `{"metadata":{`+taken+`}}`), "")
	expectError(t, "creating one", bound.Create(t.Context(), newWorkspace(ns, "own")), "cannot create resource")
	expectError(t, "deleting one", bound.Delete(t.Context(), newWorkspace(ns, "ws")), "cannot delete resource")
	expectError(t, "the status", bound.Status().Patch(t.Context(), newWorkspace(ns, "ws"), mergePatch(`{"status":{"phase":"Released"}}`)), "cannot patch resource")
}

// TestOtherPodsWriteWorkspacesAsTheirRightsSay has a Pod of a CI system whose account may edit workspaces.
func TestOtherPodsWriteWorkspacesAsTheirRightsSay(t *testing.T) {
	ns := shared.Namespace(t)
	pod := shared.RuntimePod(t, ns, "sh", "a")
	boundByHand(t, pod)
	runner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "runner"},
		Spec: corev1.PodSpec{ServiceAccountName: "ci", Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	shared.ServiceAccount(t, ns, "ci")
	shared.Create(t, runner)
	shared.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ci"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kruntimes-edit"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "ci"}}})
	ci := cluster.Client(t, shared.Pod(t, runner))
	awaitAllowed(t, ci, ns)
	patch := func(text string) error { return ci.Patch(t.Context(), newWorkspace(ns, "ws"), mergePatch(text)) }
	expectError(t, "the spec", patch(`{"spec":{"cleanupPolicy":"DeleteAfterTTL","ttlSecondsAfterUnused":9}}`), "")
	expectError(t, "a label", patch(`{"metadata":{"labels":{"team":"b"}}}`), "")
	expectError(t, "another finalizer", patch(`{"metadata":{"finalizers":["workspaces.kruntimes.io/cleanup","example.com/x"]}}`), "")
	expectError(t, "the finalizer", patch(`{"metadata":{"finalizers":null}}`), cleanupMessage)
	expectError(t, "deleting it", ci.Delete(t.Context(), newWorkspace(ns, "ws")), "")
}

func TestOnlyTheControlPlaneWritesTheStatus(t *testing.T) {
	ns := shared.Namespace(t)
	pod := shared.RuntimePod(t, ns, "sh", "a")
	boundByHand(t, pod)
	user := cluster.Client(t, shared.User(t, ns, "editor", everyVerb...))
	for _, text := range []string{`{"phase":"Lost"}`, `{"phase":"Released"}`, `{"lastUsedTime":"2026-01-01T00:00:00.000000Z"}`} {
		err := user.Status().Patch(t.Context(), newWorkspace(ns, "ws"), mergePatch(`{"status":`+text+`}`))
		expectError(t, "a user who writes "+text, err, statusMessage)
	}
	err := user.Status().Patch(t.Context(), newWorkspace(ns, "ws"), mergePatch(`{"status":null}`))
	expectError(t, "a user who drops the status", err, "boundPod never changes")
	manager := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	expectError(t, "the manager", manager.Status().Patch(t.Context(), newWorkspace(ns, "ws"), mergePatch(`{"status":{"phase":"Lost"}}`)), "")
}

func TestTheStatusIsNotSetAtCreate(t *testing.T) {
	ns := shared.Namespace(t)
	user := cluster.Client(t, shared.User(t, ns, "editor", everyVerb...))
	w := newWorkspace(ns, "forged", func(w *workspacesv1alpha1.PersistentWorkspace) {
		w.Status = workspacesv1alpha1.PersistentWorkspaceStatus{Phase: "Bound", BoundPod: "a", BoundPodUID: "a", Path: "/etc"}
	})
	expectError(t, "creating it", user.Create(t.Context(), w), "")
	if got := standingOf(get(t, ns, "forged")); got != (standing{Phase: "Pending"}) {
		t.Errorf("stored as %+v", got)
	}
	expectError(t, "patching it", user.Patch(t.Context(), w, mergePatch(`{"status":{"phase":"Bound","boundPod":"a","boundPodUID":"a","path":"/etc"}}`)), "")
	if got := standingOf(get(t, ns, "forged")); got != (standing{Phase: "Pending"}) {
		t.Errorf("stored as %+v after a patch", got)
	}
}

func TestOnlyTheControlPlaneMakesWorkspacesOfAWorkflowRun(t *testing.T) {
	ns := shared.Namespace(t)
	user := cluster.Client(t, shared.User(t, ns, "editor", everyVerb...))
	const labels = "metadata.labels named workflows.kruntimes.io/* are set only by the control plane"
	const owners = "metadata.ownerReferences must not name a WorkflowRun as controller"
	labelled := func(w *workspacesv1alpha1.PersistentWorkspace) {
		w.Labels = map[string]string{workflowsv1alpha1.LabelJob: "build"}
	}
	owned := func(w *workspacesv1alpha1.PersistentWorkspace) {
		yes := true
		w.OwnerReferences = []metav1.OwnerReference{{APIVersion: workflowsv1alpha1.GroupVersion.String(), Kind: "WorkflowRun", Name: "w", UID: "w", Controller: &yes}}
	}
	expectError(t, "a label at create", user.Create(t.Context(), newWorkspace(ns, "a", labelled)), labels)
	expectError(t, "a controller at create", user.Create(t.Context(), newWorkspace(ns, "a", owned)), owners)
	expectError(t, "neither", user.Create(t.Context(), newWorkspace(ns, "a")), "")
	expectError(t, "a label later", user.Patch(t.Context(), newWorkspace(ns, "a"), mergePatch(`{"metadata":{"labels":{"workflows.kruntimes.io/job":"b"}}}`)), labels)
	expectError(t, "a controller later", user.Patch(t.Context(), newWorkspace(ns, "a"), mergePatch(
		`{"metadata":{"ownerReferences":[{"apiVersion":"workflows.kruntimes.io/v1alpha1","kind":"WorkflowRun","name":"w","uid":"w","controller":true}]}}`)), owners)
	shared.Create(t, newWorkspace(ns, "child", labelled, owned))
	expectError(t, "removing a label", user.Patch(t.Context(), newWorkspace(ns, "child"), mergePatch(`{"metadata":{"labels":null}}`)), labels)
	expectError(t, "orphaning it", user.Patch(t.Context(), newWorkspace(ns, "child"), mergePatch(`{"metadata":{"ownerReferences":null}}`)), "")
}

// TestAControllerOfAnotherNamespaceMakesWorkspaces has one that may do everything by name, and proves itself as a Pod.
func TestAControllerOfAnotherNamespaceMakesWorkspaces(t *testing.T) {
	ns, elsewhere := shared.Namespace(t), shared.Namespace(t)
	shared.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "deployer"}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "deployer"}, Spec: corev1.PodSpec{ServiceAccountName: "deployer",
		Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}}
	shared.Create(t, pod)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "deployer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}}}}
	shared.Create(t, role)
	shared.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "deployer"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: elsewhere, Name: "deployer"}}})
	deployer := cluster.Client(t, shared.Pod(t, pod))
	w := newWorkspace(ns, "theirs")
	cluster.Eventually(t, "the workspace to be made", func(ctx context.Context) (bool, error) {
		err := deployer.Create(ctx, w.DeepCopy())
		return err == nil, err
	})
	expectError(t, "labelling it", deployer.Patch(t.Context(), w, mergePatch(`{"metadata":{"labels":{"a":"b"}}}`)), "")
}
