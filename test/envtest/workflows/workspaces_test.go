package workflows

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// startAskedManager runs a manager that the API server asks about Runs with a workspace in a namespace, as in a cluster. The
// namespace has the Runtime without which no workspace is bound.
func startAskedManager(t *testing.T, namespace string, change ...func(*manager.Options)) {
	t.Helper()
	runtime := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sh"}}
	runtime.Spec.Template.Spec.Containers = []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: "sh"}}
	shared.Create(t, runtime)
	address := ""
	shared.StartManager(t, append(change, func(o *manager.Options) { address = o.Admission.Address })...)
	shared.Ask(t, namespace, address)
}

// workspaces are those of a WorkflowRun by name.
func workspaces(t *testing.T, owner *workflowsv1alpha1.WorkflowRun) map[string]*workspacesv1alpha1.PersistentWorkspace {
	t.Helper()
	var list workspacesv1alpha1.PersistentWorkspaceList
	err := shared.Admin().List(t.Context(), &list, client.InNamespace(owner.Namespace),
		client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(owner.UID)})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*workspacesv1alpha1.PersistentWorkspace{}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all
}

// live are the names of the workspaces whose deletion nobody has asked for.
func live(t *testing.T, owner *workflowsv1alpha1.WorkflowRun) []string {
	t.Helper()
	var names []string
	for name, w := range workspaces(t, owner) {
		if w.DeletionTimestamp == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// awaitLive waits until exactly these workspaces are there and not being deleted.
func awaitLive(t *testing.T, owner *workflowsv1alpha1.WorkflowRun, want ...string) {
	t.Helper()
	var got []string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("workspaces: %v", got)
		}
	})
	cluster.Eventually(t, fmt.Sprintf("the workspaces %v", want), func(context.Context) (bool, error) {
		got = live(t, owner)
		return slices.Equal(got, want), nil
	})
}

// awaitPhase waits for the phase of a workspace.
func awaitPhase(t *testing.T, namespace, name string, phase workspacesv1alpha1.WorkspacePhase) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("workspace %s to be %s", name, phase), func(ctx context.Context) (bool, error) {
		w := &workspacesv1alpha1.PersistentWorkspace{}
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, w)
		return w.Status.Phase == phase, err
	})
}

// awaitLoss waits until a workspace is Lost. Where no Run of its job exists it may have been replaced in the same moment.
func awaitLoss(t *testing.T, namespace, name string) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("workspace %s to be Lost", name), func(ctx context.Context) (bool, error) {
		w := &workspacesv1alpha1.PersistentWorkspace{}
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, w)
		return apierrors.IsNotFound(err) || w.Status.Phase == workspacesv1alpha1.WorkspaceLost, client.IgnoreNotFound(err)
	})
}

// places tells in which workspace the Runs of a WorkflowRun are executed, by step.
func places(t *testing.T, owner *workflowsv1alpha1.WorkflowRun) map[string]string {
	t.Helper()
	in := map[string]string{}
	for _, run := range children(t, owner) {
		step := run.Labels[workflowsv1alpha1.LabelJob] + "/" + run.Labels[workflowsv1alpha1.LabelStep]
		in[step] = "none"
		if run.Spec.Workspace != nil {
			in[step] = run.Spec.Workspace.Name
		}
	}
	return in
}

// quota bounds how many objects of a resource a namespace may hold, and can be changed with allow.
func quota(t *testing.T, namespace, resourceName, hard string) (allow func(string)) {
	t.Helper()
	list := corev1.ResourceList{corev1.ResourceName("count/" + resourceName): resource.MustParse(hard)}
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: resourceName}, Spec: corev1.ResourceQuotaSpec{Hard: list}}
	shared.Create(t, q)
	q.Status = corev1.ResourceQuotaStatus{Hard: list, Used: corev1.ResourceList{corev1.ResourceName("count/" + resourceName): resource.MustParse("0")}}
	if err := shared.Admin().Status().Update(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	return func(hard string) {
		t.Helper()
		patch := fmt.Sprintf(`{"status":{"hard":{"count/%s":%q}}}`, resourceName, hard)
		if err := shared.Admin().Status().Patch(t.Context(), q, mergePatch(patch)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryJobHasAWorkspaceUntilItsEnd(t *testing.T) {
	ns := shared.Namespace(t)
	startAskedManager(t, ns)
	startPlayer(t, ns, results(map[string]result{"build/test": {holds: corev1alpha1.RunRunning}}))
	run := newWorkflowRun(t, ns, "ci", ci)
	await(t, ns, "ci", "its second step", func(run *workflowsv1alpha1.WorkflowRun) bool { return summary(run)["build/test"] == "Running" })
	awaitLive(t, run, "ci-build", "ci-deploy") // That of docs, which has ended, is gone.
	got := workspaces(t, run)["ci-build"]
	want := metav1.ObjectMeta{
		Labels: map[string]string{
			"app.kubernetes.io/managed-by": "kruntimes", "workflows.kruntimes.io/job": "build",
			"workflows.kruntimes.io/workflow-run": "ci", "workflows.kruntimes.io/workflow-run-uid": string(run.UID),
		},
		Finalizers: []string{"workspaces.kruntimes.io/cleanup"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "workflows.kruntimes.io/v1alpha1", Kind: "WorkflowRun", Name: "ci",
			UID: run.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}},
	}
	if diff := cmp.Diff(want, metav1.ObjectMeta{Labels: got.Labels, Finalizers: got.Finalizers, OwnerReferences: got.OwnerReferences}); diff != "" {
		t.Errorf("metadata of a workspace (-want +got):\n%s", diff)
	}
	wantSpec := workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh", Mode: "RuntimePodLocal", CleanupPolicy: "Retain"}
	if diff := cmp.Diff(wantSpec, got.Spec); diff != "" || got.Status.Phase != workspacesv1alpha1.WorkspaceBound {
		t.Errorf("it is %s, its spec (-want +got):\n%s", got.Status.Phase, diff)
	}
	if diff := cmp.Diff(map[string]string{"build/compile": "ci-build", "build/test": "ci-build", "docs/render": "ci-docs"}, places(t, run)); diff != "" {
		t.Errorf("Runs by workspace (-want +got):\n%s", diff)
	}
	if err := shared.Admin().Patch(t.Context(), run, mergePatch(`{"spec":{"cancelRequested":true}}`)); err != nil {
		t.Fatal(err)
	}
	run = awaitEnd(t, ns, "ci")
	if run.Status.Phase != workflowsv1alpha1.WorkflowCancelled {
		t.Errorf("got %s: %s", run.Status.Phase, run.Status.Message)
	}
	awaitLive(t, run)
}

// configuration writes a file for the manager that says how the workspaces of jobs are made.
func configuration(t *testing.T, jobWorkspaces ...string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: config.kruntimes.io/v1alpha1\nkind: ManagerConfiguration\njobWorkspaces:\n"
	for _, line := range jobWorkspaces {
		text += "  " + line + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheConfigurationLimitsWorkspacesToJobsOfSeveralRuns(t *testing.T) {
	ns := shared.Namespace(t)
	file := configuration(t, "jobs: WithSeveralRuns", "cleanupPolicy: DeleteAfterTTL", "ttlSecondsAfterUnused: 600")
	startAskedManager(t, ns, func(o *manager.Options) { o.ConfigFile = file })
	startPlayer(t, ns, results(map[string]result{"build/test": {holds: corev1alpha1.RunRunning}}))
	run := newWorkflowRun(t, ns, "ci", ci)
	await(t, ns, "ci", "its second step", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return summary(run)["build/test"] == "Running" && summary(run)["docs"] == "Succeeded"
	})
	if diff := cmp.Diff(map[string]string{"build/compile": "ci-build", "build/test": "ci-build", "docs/render": "none"}, places(t, run)); diff != "" {
		t.Errorf("Runs by workspace (-want +got):\n%s", diff)
	}
	all := workspaces(t, run)
	if names := slices.Sorted(maps.Keys(all)); !slices.Equal(names, []string{"ci-build"}) {
		t.Fatalf("got workspaces %v", names)
	}
	want := workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh", Mode: "RuntimePodLocal", CleanupPolicy: "DeleteAfterTTL",
		TTLSecondsAfterUnused: ptr.To[int32](600)}
	if diff := cmp.Diff(want, all["ci-build"].Spec); diff != "" {
		t.Errorf("its spec (-want +got):\n%s", diff)
	}
}

// TestD10LostBeforeTheFirstRunExists has the Pod of the workspaces go while a quota holds all Runs back.
func TestD10LostBeforeTheFirstRunExists(t *testing.T) {
	ns := shared.Namespace(t)
	allow := quota(t, ns, "runs.kruntimes.io", "0")
	first := shared.RuntimePod(t, ns, "sh", "first")
	startAskedManager(t, ns)
	run := newWorkflowRun(t, ns, "ci", ci)
	for _, name := range []string{"ci-build", "ci-deploy", "ci-docs"} {
		awaitPhase(t, ns, name, workspacesv1alpha1.WorkspaceBound)
	}
	shared.Delete(t, first)
	awaitLoss(t, ns, "ci-deploy")
	startPlayer(t, ns, results(nil))
	allow("100")
	run = awaitEnd(t, ns, run.Name)
	if run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		t.Fatalf("got %s: %s", run.Status.Phase, run.Status.Message)
	}
	in := places(t, run)
	if len(in) != 4 || in["build/compile"] != in["build/test"] {
		t.Errorf("Runs are in workspaces %v", in)
	}
	for step, name := range in {
		job, _, _ := strings.Cut(step, "/")
		if !strings.HasPrefix(name, "ci-"+job+"-") {
			t.Errorf("step %s was executed in workspace %q, not in a new one", step, name)
		}
	}
	awaitLive(t, run)
}

func TestD10LostInMidJob(t *testing.T) {
	for name, deletesRuntime := range map[string]bool{"because its Pod is gone": false, `because its Runtime "sh" was deleted`: true} {
		t.Run(name, func(t *testing.T) { loseInMidJob(t, name, deletesRuntime) })
	}
}

func loseInMidJob(t *testing.T, why string, deletesRuntime bool) {
	ns := shared.Namespace(t)
	startAskedManager(t, ns)
	p := startPlayer(t, ns, results(map[string]result{"build/compile": {holds: corev1alpha1.RunRunning}}))
	newWorkflowRun(t, ns, "ci", ci)
	await(t, ns, "ci", "docs to end", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return summary(run)["docs"] == "Succeeded" && summary(run)["build/compile"] == "Running"
	})
	awaitPhase(t, ns, "ci-build", workspacesv1alpha1.WorkspaceBound)
	if deletesRuntime {
		shared.Delete(t, &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "sh"}})
	}
	shared.Delete(t, p.pod)
	run := awaitEnd(t, ns, "ci")
	if got := summary(run); got["build"] != "Failed" || got["deploy"] != "Skipped" || got["docs"] != "Succeeded" {
		t.Errorf("got phases %v", got)
	}
	want := "WorkspaceLost: the workspace of the job was lost, " + why + ": the files of its steps are gone; step compile: "
	if got := run.Status.Jobs["build"].Message; !strings.HasPrefix(got, want) {
		t.Errorf("job build says %q, want it to begin with %q", got, want)
	}
	if got := children(t, run); len(got) != 2 {
		t.Errorf("got %d children, want 2: nothing is started in a lost workspace", len(got))
	}
	awaitLive(t, run)
}

// TestD10DeletedInMidJob deletes the workspace by hand while no Run can be cancelled by its Pod's end.
func TestD10DeletedInMidJob(t *testing.T) {
	ns := shared.Namespace(t)
	startAskedManager(t, ns)
	startPlayer(t, ns, results(map[string]result{"build/compile": {holds: corev1alpha1.RunRunning}}))
	created := newWorkflowRun(t, ns, "ci", ci)
	await(t, ns, "ci", "compile to run", func(run *workflowsv1alpha1.WorkflowRun) bool { return summary(run)["build/compile"] == "Running" })
	shared.Delete(t, workspaces(t, created)["ci-build"])
	run := awaitEnd(t, ns, "ci")
	want := "WorkspaceLost: the workspace of the job was deleted while the job ran: the files of its steps are gone; step compile: Cancelled"
	if got := run.Status.Jobs["build"].Message; got != want {
		t.Errorf("job build says %q, want %q", got, want)
	}
}

// TestD10LostAfterwardsIsIgnored lets the Pod go when the last step of build has ended and its WorkflowRun has not.
func TestD10LostAfterwardsIsIgnored(t *testing.T) {
	ns := shared.Namespace(t)
	startAskedManager(t, ns)
	allow := quota(t, ns, "runs.kruntimes.io", "3")
	p := startPlayer(t, ns, results(nil))
	newWorkflowRun(t, ns, "ci", ci)
	await(t, ns, "ci", "build and docs to end", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return summary(run)["build"] == "Succeeded" && summary(run)["docs"] == "Succeeded"
	})
	awaitPhase(t, ns, "ci-deploy", workspacesv1alpha1.WorkspaceBound)
	shared.Delete(t, p.pod)
	awaitLoss(t, ns, "ci-deploy")
	second := shared.RuntimePod(t, ns, "sh", "second")
	p.move(second)
	allow("100")
	run := awaitEnd(t, ns, "ci")
	if run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		t.Errorf("got %s: %s", run.Status.Phase, run.Status.Message)
	}
	if in := places(t, run); !strings.HasPrefix(in["deploy/roll-out"], "ci-deploy-") {
		t.Errorf("deploy was executed in workspace %q, which was lost before", in["deploy/roll-out"])
	}
	awaitLive(t, run)
}

func TestAForeignWorkspaceIsLeftAlone(t *testing.T) {
	ns := shared.Namespace(t)
	foreign := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ci-build"},
		Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh"}}
	shared.Create(t, foreign)
	startAskedManager(t, ns)
	startPlayer(t, ns, results(nil))
	newWorkflowRun(t, ns, "ci", ci)
	run := awaitEnd(t, ns, "ci")
	if run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		t.Errorf("got %s: %s", run.Status.Phase, run.Status.Message)
	}
	in := places(t, run)
	if name := in["build/compile"]; !strings.HasPrefix(name, "ci-build-") || in["build/test"] != name {
		t.Errorf("build was executed in workspaces %v", in)
	}
	awaitLive(t, run)
	after := &workspacesv1alpha1.PersistentWorkspace{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(foreign), after); err != nil || after.DeletionTimestamp != nil || after.UID != foreign.UID {
		t.Errorf("the foreign workspace: %v, deletion %v", err, after.DeletionTimestamp)
	}
}

// TestAQuotaForWorkspacesHoldsTheirJobsBackAndNothingElse has a quota for one workspace, and raises it.
func TestAQuotaForWorkspacesHoldsTheirJobsBackAndNothingElse(t *testing.T) {
	ns := shared.Namespace(t)
	allow := quota(t, ns, "persistentworkspaces.workspaces.kruntimes.io", "1")
	startAskedManager(t, ns)
	startPlayer(t, ns, results(map[string]result{"docs/render": {holds: corev1alpha1.RunRunning}, "build/compile": {holds: corev1alpha1.RunRunning}}))
	newWorkflowRun(t, ns, "ci", ci)
	run := await(t, ns, "ci", "one job to run and another to say what it waits for", func(run *workflowsv1alpha1.WorkflowRun) bool {
		phases := summary(run)
		return (phases["docs/render"] == "Running" || phases["build/compile"] == "Running") &&
			strings.Contains(run.Status.Jobs["build"].Message+run.Status.Jobs["docs"].Message, "its workspace cannot be created yet: ")
	})
	if got := len(children(t, run)); got != 1 {
		t.Errorf("got %d children, want 1", got)
	}
	allow("100")
	await(t, ns, "ci", "both jobs to run", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return summary(run)["docs/render"] == "Running" && summary(run)["build/compile"] == "Running"
	})
}

// TestAQuotaOfOneWorkspaceLetsAChainEnd has jobs that each need the one before. The only workspace goes to the one that can run.
func TestAQuotaOfOneWorkspaceLetsAChainEnd(t *testing.T) {
	ns := shared.Namespace(t)
	allow := quota(t, ns, "persistentworkspaces.workspaces.kruntimes.io", "1")
	startAskedManager(t, ns)
	startPlayer(t, ns, nil)
	newWorkflowRun(t, ns, "chain", `jobs:
  z: {runs-on: sh, steps: [{name: s, run: x}]}
  m: {runs-on: sh, needs: [z], steps: [{name: s, run: x}]}
  a: {runs-on: sh, needs: [m], steps: [{name: s, run: x}]}`)
	removed := 0
	end := await(t, ns, "chain", "its end", func(run *workflowsv1alpha1.WorkflowRun) bool {
		if n := removeReleased(t, ns); n > 0 { // There is no controller here that counts down what a quota says is used.
			removed += n
			allow(strconv.Itoa(1 + removed))
		}
		return run.Status.Phase.IsTerminal()
	})
	if end.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		t.Errorf("got %s: %s", end.Status.Phase, end.Status.Message)
	}
}

// removeReleased does what runtimed does when it has removed the directory of a workspace, and returns how many there were.
func removeReleased(t *testing.T, namespace string) (removed int) {
	t.Helper()
	var all workspacesv1alpha1.PersistentWorkspaceList
	if err := shared.Admin().List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if w := &all.Items[i]; w.Status.Phase == workspacesv1alpha1.WorkspaceReleased && w.DeletionTimestamp != nil {
			if err := shared.Admin().Patch(t.Context(), w, mergePatch(`{"metadata":{"finalizers":null}}`)); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			removed++
		}
	}
	return removed
}

// TestAManyfoldWorkflowRunMakesEachWorkspaceOnce has as many jobs as there may be.
func TestAManyfoldWorkflowRunMakesEachWorkspaceOnce(t *testing.T) {
	ns := shared.Namespace(t)
	startAskedManager(t, ns)
	startPlayer(t, ns, nil)
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "many"}, Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: grid(64, 1)}}
	shared.Create(t, run)
	end := awaitEnd(t, ns, "many")
	if end.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		t.Errorf("got %s: %s", end.Status.Phase, end.Status.Message)
	}
	in := places(t, end)
	for step, name := range in {
		if job, _, _ := strings.Cut(step, "/"); name != "many-"+job {
			t.Errorf("step %s was executed in workspace %q", step, name)
		}
	}
	if len(in) != 64 {
		t.Errorf("got Runs of %d steps", len(in))
	}
	awaitLive(t, end)
}
