package workflows

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

const ci = `
jobs:
  build:
    runs-on: sh
    env: {MODE: release}
    steps:
    - {name: compile, run: make}
    - {name: test, run: "make test", timeout: 90s}
    outputs:
      image: {value: "app:${{ steps.compile.outputs.tag }}"}
  deploy:
    runs-on: sh
    needs: [build]
    steps:
    - {name: roll-out, run: 'deploy "$IMAGE"', env: {IMAGE: "${{ jobs.build.outputs.image }}"}}
  docs:
    runs-on: sh
    steps:
    - {name: render, run: make docs}
`

// tag is what step compile writes.
var tag = map[string]result{"build/compile": {phase: corev1alpha1.RunSucceeded, outputs: map[string]string{"tag": "v1 $(x) ${{ y }}"}}}

func results(more map[string]result) map[string]result {
	all := map[string]result{}
	for _, m := range []map[string]result{tag, more} {
		for step, r := range m {
			all[step] = r
		}
	}
	return all
}

func TestAWorkflowRunRunsToItsEnd(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	p := startPlayer(t, ns, results(nil))
	created := newWorkflowRun(t, ns, "ci", ci)
	run := awaitEnd(t, ns, "ci")
	want := map[string]string{
		"": "Succeeded", "build": "Succeeded", "build/compile": "Succeeded", "build/test": "Succeeded",
		"deploy": "Succeeded", "deploy/roll-out": "Succeeded", "docs": "Succeeded", "docs/render": "Succeeded",
	}
	if diff := cmp.Diff(want, summary(run)); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	wantRuns := map[string][]string{"build/compile": {"ci-build-compile"}, "build/test": {"ci-build-test"},
		"deploy/roll-out": {"ci-deploy-roll-out"}, "docs/render": {"ci-docs-render"}}
	if diff := cmp.Diff(wantRuns, p.executions()); diff != "" {
		t.Errorf("executed Runs (-want +got):\n%s", diff)
	}
	for _, kind := range []string{"Accepted", "Succeeded"} {
		if !meta.IsStatusConditionTrue(run.Status.Conditions, kind) {
			t.Errorf("condition %s is not True: %+v", kind, run.Status.Conditions)
		}
	}
	rollOut := &corev1alpha1.Run{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "ci-deploy-roll-out"}, rollOut); err != nil {
		t.Fatal(err)
	}
	if got := rollOut.Spec.Env; len(got) != 1 || got[0].Value != "app:v1 $(x) ${{ y }}" {
		t.Errorf("got env %+v", got)
	}
	wantLabels := map[string]string{
		"app.kubernetes.io/managed-by": "kruntimes", "workflows.kruntimes.io/job": "deploy", "workflows.kruntimes.io/step": "roll-out",
		"workflows.kruntimes.io/workflow-run": "ci", "workflows.kruntimes.io/workflow-run-uid": string(run.UID),
	}
	if diff := cmp.Diff(wantLabels, rollOut.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if !metav1.IsControlledBy(rollOut, run) {
		t.Errorf("got owners %+v", rollOut.OwnerReferences)
	}
	expectSnapshot(t, created, run)
}

// expectSnapshot checks that the ControllerRevision holds exactly the spec that was created.
func expectSnapshot(t *testing.T, created, run *workflowsv1alpha1.WorkflowRun) {
	t.Helper()
	snapshot := &appsv1.ControllerRevision{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: run.Namespace, Name: run.Status.SnapshotName}, snapshot); err != nil {
		t.Fatal(err)
	}
	var got map[string]workflowsv1alpha1.WorkflowRunSpec
	if err := json.Unmarshal(snapshot.Data.Raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]workflowsv1alpha1.WorkflowRunSpec{"spec": created.Spec}, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if !metav1.IsControlledBy(snapshot, run) {
		t.Errorf("the snapshot has owners %+v", snapshot.OwnerReferences)
	}
}

func TestFailureSkipsWhatNeedsIt(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	startPlayer(t, ns, results(map[string]result{"build/test": {phase: corev1alpha1.RunTimeout, reason: corev1alpha1.RunReasonTimeout}}))
	newWorkflowRun(t, ns, "ci", ci)
	run := awaitEnd(t, ns, "ci")
	want := map[string]string{
		"": "Failed", "build": "Failed", "build/compile": "Succeeded", "build/test": "Timeout",
		"deploy": "Skipped", "deploy/roll-out": "Pending", "docs": "Succeeded", "docs/render": "Succeeded",
	}
	if diff := cmp.Diff(want, summary(run)); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if got, want := run.Status.Message, "job build failed: step test: Timeout"; got != want {
		t.Errorf("got message %q, want %q", got, want)
	}
}

func TestARefusedWorkflowRunSaysWhyAndHasNoChildren(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	newWorkflowRun(t, ns, "circle", "jobs: {a: {runs-on: sh, needs: [b], steps: [{name: s, run: x}]}, b: {runs-on: sh, needs: [a], steps: [{name: s, run: x}]}}")
	run := awaitEnd(t, ns, "circle")
	accepted := meta.FindStatusCondition(run.Status.Conditions, "Accepted")
	if accepted == nil || accepted.Status != "False" || !strings.Contains(accepted.Message, "a -> b -> a") || run.Status.Phase != "Failed" {
		t.Errorf("got phase %s, condition %+v", run.Status.Phase, accepted)
	}
	if got := children(t, run); len(got) > 0 {
		t.Errorf("got %d children", len(got))
	}
}

func TestCancelEndsActiveChildrenAndStartsNoMore(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	startPlayer(t, ns, results(map[string]result{"build/compile": {holds: corev1alpha1.RunRunning}, "docs/render": {holds: corev1alpha1.RunPending}}))
	run := newWorkflowRun(t, ns, "ci", ci)
	await(t, ns, "ci", "build and docs to run", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return summary(run)["build/compile"] == "Running" && summary(run)["docs"] == "Running"
	})
	if err := shared.Admin().Patch(t.Context(), run, mergePatch(`{"spec":{"cancelRequested":true}}`)); err != nil {
		t.Fatal(err)
	}
	run = awaitEnd(t, ns, "ci")
	want := map[string]string{
		"": "Cancelled", "build": "Failed", "build/compile": "Cancelled", "build/test": "Pending",
		"deploy": "Waiting", "deploy/roll-out": "Pending", "docs": "Failed", "docs/render": "Cancelled",
	}
	if diff := cmp.Diff(want, summary(run)); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if got := len(children(t, run)); got != 2 {
		t.Errorf("got %d children, want 2", got)
	}
}

func TestATakenNameIsLeftAlone(t *testing.T) {
	ns := shared.Namespace(t)
	stranger := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ci-build-compile"}, Spec: corev1alpha1.RunSpec{
		Runtime: "sh", Mode: corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Args: []string{"true"}}}}}
	shared.Create(t, stranger)
	shared.StartManager(t)
	p := startPlayer(t, ns, results(nil))
	newWorkflowRun(t, ns, "ci", ci)
	run := awaitEnd(t, ns, "ci")
	if run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		t.Errorf("got %s: %s", run.Status.Phase, run.Status.Message)
	}
	got := p.executions()["build/compile"]
	if len(got) != 1 || !strings.HasPrefix(got[0], "ci-build-compile-") || run.Status.Jobs["build"].Steps[0].RunName != got[0] {
		t.Errorf("executed %v, recorded %s", got, run.Status.Jobs["build"].Steps[0].RunName)
	}
}

// TestASuccessorHasItsOwnChildren deletes a WorkflowRun and creates it again while its children are still there: nobody
// collects garbage here.
func TestASuccessorHasItsOwnChildren(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	startPlayer(t, ns, results(map[string]result{"build/compile": {holds: corev1alpha1.RunPending}, "docs/render": {holds: corev1alpha1.RunPending}}))
	first := newWorkflowRun(t, ns, "ci", ci)
	await(t, ns, "ci", "its first children", func(run *workflowsv1alpha1.WorkflowRun) bool { return run.Status.Phase == "Running" })
	shared.Delete(t, first)
	second := newWorkflowRun(t, ns, "ci", ci)
	await(t, ns, "ci", "its first children", func(run *workflowsv1alpha1.WorkflowRun) bool { return run.Status.Phase == "Running" })
	if a, b := children(t, first), children(t, second); len(a) != 2 || len(b) != 2 {
		t.Errorf("the first has %d children, the second %d; want 2 each", len(a), len(b))
	}
}

func TestAChildDeletedByHandFailsItsStep(t *testing.T) {
	for _, phase := range []corev1alpha1.RunPhase{corev1alpha1.RunPending, corev1alpha1.RunScheduled, corev1alpha1.RunRunning} {
		t.Run(string(phase), func(t *testing.T) {
			ns := shared.Namespace(t)
			shared.StartManager(t)
			p := startPlayer(t, ns, results(map[string]result{"build/compile": {holds: phase}}))
			newWorkflowRun(t, ns, "ci", ci)
			await(t, ns, "ci", "docs to end", func(run *workflowsv1alpha1.WorkflowRun) bool { return summary(run)["docs"] == "Succeeded" })
			child := &corev1alpha1.Run{}
			cluster.Eventually(t, "the child to be "+string(phase), func(ctx context.Context) (bool, error) {
				err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: ns, Name: "ci-build-compile"}, child)
				return child.Status.Phase == phase, err
			})
			shared.Delete(t, child)
			run := awaitEnd(t, ns, "ci")
			if got := run.Status.Jobs["build"].Message; !strings.HasPrefix(got, "step compile: ChildDeleted: ") {
				t.Errorf("got message %q", got)
			}
			if got := p.executions()["build/compile"]; len(got) > 0 {
				t.Errorf("executed again: %v", got)
			}
			if left := children(t, run); len(left) != 1 {
				t.Errorf("got %d children, want only that of docs", len(left))
			}
		})
	}
}

// TestQuotaHoldsAStepBackAndNothingElse has a quota for one Run, and raises it.
func TestQuotaHoldsAStepBackAndNothingElse(t *testing.T) {
	ns := shared.Namespace(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "runs"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/runs.kruntimes.io": resource.MustParse("1")}}}
	shared.Create(t, quota)
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{"count/runs.kruntimes.io": resource.MustParse("0")}}
	if err := shared.Admin().Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	shared.StartManager(t)
	startPlayer(t, ns, results(map[string]result{}))
	newWorkflowRun(t, ns, "ci", ci)
	run := await(t, ns, "ci", "a job that says what it waits for", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return strings.Contains(run.Status.Jobs["build"].Message+run.Status.Jobs["docs"].Message, "exceeded quota")
	})
	if got := len(children(t, run)); got != 1 {
		t.Errorf("got %d children, want 1", got)
	}
	if err := shared.Admin().Status().Patch(t.Context(), quota, mergePatch(`{"status":{"hard":{"count/runs.kruntimes.io":"100"}}}`)); err != nil {
		t.Fatal(err)
	}
	run = awaitEnd(t, ns, "ci")
	if run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		t.Errorf("got %s: %s", run.Status.Phase, run.Status.Message)
	}
}

func TestAFinishedWorkflowRunExpires(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	startPlayer(t, ns, results(nil))
	newWorkflowRun(t, ns, "ci", ci+"ttlSecondsAfterFinished: 1\n")
	cluster.Eventually(t, "the WorkflowRun to be deleted", func(ctx context.Context) (bool, error) {
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: ns, Name: "ci"}, &workflowsv1alpha1.WorkflowRun{})
		return client.IgnoreNotFound(err) == nil && err != nil, client.IgnoreNotFound(err)
	})
}

func TestTheWorkflowRunControllerSurvivesAKillAtEveryWrite(t *testing.T) {
	players := map[string]*player{}
	cluster.KillAtEveryWrite(t, cluster.Kills{
		MaxWrites: 60,
		Prepare: func(t *testing.T) string {
			ns := shared.Namespace(t)
			players[ns] = startPlayer(t, ns, results(nil))
			newWorkflowRun(t, ns, "ci", ci)
			return ns
		},
		Start: func(t *testing.T, f *cluster.Fault) func() {
			return shared.StartManager(t, func(o *manager.Options) { f.WrapConfig(o.Config) })
		},
		Done: func(t *testing.T, ns string) bool {
			run := get(t, ns, "ci")
			return run.Status.Phase.IsTerminal() && len(live(t, run)) == 0
		},
		Check: func(t *testing.T, ns string) {
			run := awaitEnd(t, ns, "ci")
			if run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
				t.Errorf("got %s: %s", run.Status.Phase, run.Status.Message)
			}
			for step, names := range players[ns].executions() {
				if len(names) != 1 {
					t.Errorf("step %s was executed by %v", step, names)
				}
			}
			want := map[string]string{"build/compile": "ci-build", "build/test": "ci-build", "deploy/roll-out": "ci-deploy", "docs/render": "ci-docs"}
			if diff := cmp.Diff(want, places(t, run)); diff != "" {
				t.Errorf("children by workspace (-want +got):\n%s", diff)
			}
			awaitLive(t, run)
		},
	})
}
