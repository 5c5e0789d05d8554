package core

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// everyVerb is what an administrator of a namespace might grant by hand: all of runs and of runs/status but "govern".
var everyVerb = []rbacv1.PolicyRule{
	{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs"}, Verbs: []string{"create", "get", "list", "watch", "update", "patch", "delete"}},
	{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs/status"}, Verbs: []string{"patch", "update", "get"}},
}

func newRun(namespace, name string) *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1alpha1.RunSpec{Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "true"}}}
}

func mergePatch(text string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(text))
}

func patchStatus(t *testing.T, c client.Client, run *corev1alpha1.Run, patch string) error {
	t.Helper()
	return c.Status().Patch(t.Context(), run.DeepCopy(), mergePatch(patch))
}

func TestRunStatusIsWrittenByItsPodAndTheControlPlane(t *testing.T) {
	ns, other := shared.Namespace(t), shared.Namespace(t)
	pod := shared.RuntimePod(t, ns, "sh", "runtime-sh-a")
	neighbour := shared.RuntimePod(t, ns, "sh", "runtime-sh-b")
	namesake := shared.RuntimePod(t, other, "sh", "runtime-sh-a")
	run := newRun(ns, "r")
	shared.Create(t, run)
	assign := `{"status":{"phase":"Scheduled","attempt":1,"assignedPod":"runtime-sh-a","assignedPodUID":"` + string(pod.UID) + `"}}`
	const report = `{"status":{"message":"was here"}}`

	assigned := cluster.Client(t, shared.Pod(t, pod))
	user := cluster.Client(t, shared.User(t, ns, "editor", everyVerb...))
	accountOnly := cluster.Client(t, shared.ServiceAccount(t, ns, "runtime-sh"))
	expectError(t, "a Pod before the Run is assigned", patchStatus(t, assigned, run, report), "is written only by the Pod it is assigned to (none)")
	expectError(t, "a user who assigns", patchStatus(t, user, run, assign), "is written only by the Pod it is assigned to (none) and by the control plane; ask for its end with spec.cancelRequested")
	scheduler := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.SchedulerServiceAccount))
	expectError(t, "the scheduler", patchStatus(t, scheduler, run, assign), "")

	expectError(t, "a neighbour Pod", patchStatus(t, cluster.Client(t, shared.Pod(t, neighbour)), run, report), "assigned to (runtime-sh-a)")
	expectError(t, "a Pod of the same name elsewhere", patchStatus(t, cluster.Client(t, shared.Pod(t, namesake)), run, report), "forbidden")
	expectError(t, "the Pod's account without the Pod", patchStatus(t, accountOnly, run, report), "assigned to (runtime-sh-a)")
	expectError(t, "a user with all rights but govern", patchStatus(t, user, run, report), "assigned to (runtime-sh-a)")
	expectError(t, "a user who drops the status", patchStatus(t, user, run, `{"status":null}`), "the assignment changes only from empty or with a higher attempt")
	expectError(t, "the assigned Pod that passes the Run on", patchStatus(t, assigned, run,
		`{"status":{"attempt":2,"assignedPod":"runtime-sh-b","assignedPodUID":"`+string(neighbour.UID)+`"}}`), "status.assignedPod is set only by the scheduler")
	expectError(t, "the assigned Pod", patchStatus(t, assigned, run, `{"status":{"phase":"Running","message":"was here"}}`), "")
	manager := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	expectError(t, "the manager", patchStatus(t, manager, run, report), "")
	expectError(t, "the assigned Pod that hands back", patchStatus(t, assigned, run,
		`{"status":{"phase":"Pending","attempt":2,"assignedPod":null,"assignedPodUID":null}}`), "")
	expectError(t, "the Pod that handed back", patchStatus(t, assigned, run, report), "assigned to (none)")
}

// TestASuccessorOfTheSameNameIsAnotherPod needs a token of the first Pod and a Run that belongs to the second.
func TestASuccessorOfTheSameNameIsAnotherPod(t *testing.T) {
	ns := shared.Namespace(t)
	first := shared.RuntimePod(t, ns, "sh", "runtime-sh-0")
	run := newRun(ns, "r")
	shared.Create(t, run)
	expectError(t, "assigning", patchStatus(t, shared.Admin(), run, assignment(string(first.UID)+"x")), "")
	expectError(t, "the first Pod", patchStatus(t, cluster.Client(t, shared.Pod(t, first)), run, `{"status":{"message":"x"}}`), "assigned to (runtime-sh-0)")
}

func assignment(uid string) string {
	return `{"status":{"phase":"Scheduled","attempt":1,"assignedPod":"runtime-sh-0","assignedPodUID":"` + uid + `"}}`
}

func TestOnlyTheControlPlaneMakesChildrenOfAWorkflowRun(t *testing.T) {
	ns := shared.Namespace(t)
	user := cluster.Client(t, shared.User(t, ns, "editor", everyVerb...))
	admin := shared.Admin()
	labelled := func(name string) *corev1alpha1.Run {
		r := newRun(ns, name)
		r.Labels = map[string]string{"workflows.kruntimes.io/job": "build", "team": "a"}
		return r
	}
	owned := func(name string, controller bool) *corev1alpha1.Run {
		r := newRun(ns, name)
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "workflows.kruntimes.io/v1alpha1", Kind: "WorkflowRun", Name: "w", UID: "w-uid", Controller: &controller}}
		return r
	}
	const labelMessage = "metadata.labels named workflows.kruntimes.io/* are set only by the control plane"
	const ownerMessage = "metadata.ownerReferences must not name a WorkflowRun as controller"
	expectError(t, "a user creates with the label", user.Create(t.Context(), labelled("a")), labelMessage)
	expectError(t, "a user creates with the controller reference", user.Create(t.Context(), owned("a", true)), ownerMessage)
	expectError(t, "a user names a WorkflowRun as plain owner", user.Create(t.Context(), owned("plain", false)), "")
	expectError(t, "a user makes the plain owner the controller", user.Patch(t.Context(), owned("plain", false),
		mergePatch(`{"metadata":{"ownerReferences":[{"apiVersion":"workflows.kruntimes.io/v1alpha1","kind":"WorkflowRun","name":"w","uid":"w-uid","controller":true}]}}`)), ownerMessage)

	child := labelled("child")
	child.OwnerReferences = owned("x", true).OwnerReferences
	expectError(t, "the control plane creates a child", admin.Create(t.Context(), child), "")
	patch := func(text string) error { return user.Patch(t.Context(), child.DeepCopy(), mergePatch(text)) }
	expectError(t, "a user changes the label", patch(`{"metadata":{"labels":{"workflows.kruntimes.io/job":"test"}}}`), labelMessage)
	expectError(t, "a user removes the label", patch(`{"metadata":{"labels":{"workflows.kruntimes.io/job":null}}}`), labelMessage)
	expectError(t, "a user adds another label of the group", patch(`{"metadata":{"labels":{"workflows.kruntimes.io/step":"x"}}}`), labelMessage)
	expectError(t, "a user changes a label of their own", patch(`{"metadata":{"labels":{"team":"b"}}}`), "")
	expectError(t, "a user cancels", patch(`{"spec":{"cancelRequested":true}}`), "")
	expectError(t, "the garbage collector orphans the child", patch(`{"metadata":{"ownerReferences":null}}`), "")
}
