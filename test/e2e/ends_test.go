//go:build e2e

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

func TestARunEndsWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	parent := e2e.New(t)
	parent.Runtime("bash", e2e.WithCapacity("8"))
	for name, test := range map[string]func(*testing.T, *e2e.Env){
		"cancelled, with a trap for what it has to clean up": cancelledWithTrap,
		"cancelled, deaf to all but SIGKILL":                 cancelledAndDeaf,
		"cancelled before it had a place":                    cancelledInVain,
		"out of time":                                        outOfTime,
		"removed some time after its end":                    removedAfterwards,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, parent.In(t))
		})
	}
}

func cancelledWithTrap(t *testing.T, env *e2e.Env) {
	run := began(env, "trap 'echo cleaned; exit 0' TERM\necho began\nwhile true; do sleep 0.2 || true; done\n")
	env.Krt("cancel", "run", run.Name)
	env.WaitRun(run)
	if run.Status.Phase != corev1alpha1.RunCancelled || run.Status.Reason != corev1alpha1.RunReasonCancelled || run.Status.ExitCode == nil || *run.Status.ExitCode != 0 {
		t.Errorf("the Run ended %+v", run.Status)
	}
	if got := env.Krt("logs", run.Name); got != "began\ncleaned\n" {
		t.Errorf("logs: %q", got)
	}
	if got := env.TryKrt("", "wait", run.Name, "--for=succeeded"); got.Code != 1 {
		t.Errorf("krt wait for the success of a cancelled Run: %+v", got)
	}
	env.Kubectl("wait", "--for=condition=Succeeded=false", "run/"+run.Name)
	env.WaitEvent(run, "Normal Cancelled ")
}

// The children of the script ignore SIGTERM as well, and one has left its process group: after the grace none is left.
func cancelledAndDeaf(t *testing.T, env *e2e.Env) {
	run := began(env, "trap '' TERM\necho began\nsetsid sleep 4321 &\nsleep 4322 & wait\nwhile true; do sleep 0.2; done\n")
	before := time.Now()
	env.Kubectl("patch", "run", run.Name, "--type=merge", `--patch={"spec":{"cancelRequested":true}}`)
	env.WaitRun(run)
	if took := run.Status.CompletionTime.Sub(before); took < corev1alpha1.StopGrace {
		t.Errorf("it was killed after %s, before its grace of %s", took, corev1alpha1.StopGrace)
	}
	if run.Status.Phase != corev1alpha1.RunCancelled || run.Status.ExitCode == nil || *run.Status.ExitCode != 137 {
		t.Errorf("the Run ended %+v, want Cancelled with exit code 137", run.Status)
	}
	const list = `for p in /proc/[0-9]*/cmdline; do tr '\0' ' ' < "$p" 2>/dev/null; echo; done`
	got := env.Exec(run.Status.AssignedPod, corev1alpha1.ContainerRuntime, "/bin/bash", "-c", list)
	if !strings.Contains(got.Stdout, "/proc/") || strings.Contains(got.Stdout, "sleep 432") {
		t.Errorf("processes of the container after its end: %+v", got)
	}
}

func cancelledInVain(t *testing.T, env *e2e.Env) {
	run := env.Run("nowhere", "true")
	env.Eventually("the Run says why it waits", func() string {
		return without(env.Krt("get", "runs", run.Name), "RuntimeNotFound")
	})
	env.Krt("cancel", "run", run.Name)
	env.WaitRun(run)
	if run.Status.Phase != corev1alpha1.RunCancelled || run.Status.AssignedPod != "" || run.Status.Attempt != 0 {
		t.Errorf("the Run ended %+v", run.Status)
	}
}

func outOfTime(t *testing.T, env *e2e.Env) {
	got := env.TryKrt("echo began; exec sleep 600\n", "run", "slow", "--runtime=bash", "--timeout=2s", "--file=-", "--follow")
	if got.Code != 124 || got.Stdout != "began\n" {
		t.Errorf("krt run: %+v, want exit code 124", got)
	}
	run := env.WaitRun(&corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "slow"}})
	if run.Status.Phase != corev1alpha1.RunTimeout || run.Status.Reason != corev1alpha1.RunReasonTimeout || run.Status.Message != "Stopped after the timeout of 2s" {
		t.Errorf("the Run ended %+v", run.Status)
	}
	if took := run.Status.CompletionTime.Sub(run.Status.StartTime.Time); took < 2*time.Second || took > 2*time.Second+corev1alpha1.StopGrace {
		t.Errorf("it was stopped after %s", took)
	}
	env.WaitEvent(run, "Warning Timeout Stopped after the timeout of 2s")
}

func removedAfterwards(t *testing.T, env *e2e.Env) {
	at := time.Now()
	run := env.Run("bash", "true", func(r *corev1alpha1.Run) { r.Spec.TTLSecondsAfterFinished = ptr.To[int32](2) })
	jobs := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}
	jobs.Spec.Jobs = map[string]workflowsv1alpha1.Job{"a": {RunsOn: "bash", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}}
	jobs.Spec.TTLSecondsAfterFinished = ptr.To[int32](2)
	env.Create(jobs)
	env.WaitGone(run)
	env.WaitGone(jobs)
	if took := time.Since(at); took < 2*time.Second {
		t.Errorf("they were gone after %s already", took)
	}
	env.WaitGone(&corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "short-lived-a-s"}})
	env.Eventually("the snapshot is gone", func() string {
		var revisions appsv1.ControllerRevisionList
		if err := env.Client.List(t.Context(), &revisions, client.InNamespace(env.Namespace)); err != nil {
			return err.Error()
		}
		for _, revision := range revisions.Items {
			if strings.HasPrefix(revision.Name, "short-lived-") {
				return revision.Name
			}
		}
		return ""
	})
}

const ending = `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: endless}
spec:
  jobs:
    inner:
      runs-on: bash
      steps: [{name: endless, run: "echo began; exec sleep 600"}, {name: never, run: "true"}]
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: cancelled}
spec:
  jobs:
    done: {runs-on: bash, steps: [{name: quick, run: "true"}]}
    own:
      needs: [done]
      runs-on: bash
      steps: [{name: endless, run: "echo began; exec sleep 600"}, {name: never, run: "true"}]
    call: {needs: [done], uses: endless}
    behind: {needs: [own], runs-on: bash, steps: [{name: never, run: "true"}]}
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: late}
spec:
  jobs:
    slow:
      runs-on: bash
      steps: [{name: endless, timeout: 2s, run: "exec sleep 600"}, {name: never, run: "true"}]
    behind: {needs: [slow], runs-on: bash, steps: [{name: never, run: "true"}]}
    beside: {runs-on: bash, steps: [{name: quick, timeout: 1m, run: "true"}]}
`

// startEndless applies ending, and waits until what is endless in there executes.
func startEndless(env *e2e.Env) {
	env.Manifests(ending)
	env.WaitStep("cancelled", "own", "endless")
	env.WaitWorkflowRunUntil("cancelled", "has made its call", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return run.Status.Jobs["call"].WorkflowRunName != ""
	})
	env.WaitStep("cancelled-call-call", "inner", "endless")
}

// The Runtime names no grace period, and the script and what holds its workspace need all the time that they have to end. More
// than five seconds after the first look, Kubernetes looks at such a namespace again only when it changes.
func TestANamespaceGoesWithAllThatExecutesInIt(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", e2e.WithCapacity("8"))
	env.Workspace("kept", "bash")
	env.WaitPhase(env.Run("bash", "trap '' TERM\nwhile true; do sleep 1; done\n", e2e.InWorkspace("kept")), corev1alpha1.RunRunning)
	startEndless(env)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}
	if err := env.Client.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	env.WaitGone(namespace)
}

func TestAWorkflowRunEndsWithItsCallsWhenItIsCancelledAndFailsWhenAStepIsOutOfTime(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", e2e.WithCapacity("8"))
	startEndless(env)
	env.Krt("cancel", "workflowrun", "cancelled")

	run := env.WaitWorkflowRun("cancelled")
	want := map[string]string{
		"": "Cancelled", "done": "Succeeded", "done/quick": "Succeeded", "own": "Failed", "own/endless": "Cancelled", "own/never": "Pending",
		"call": "Failed", "behind": "Waiting", "behind/never": "Pending",
	}
	if diff := cmp.Diff(want, e2e.Phases(run)); diff != "" {
		t.Errorf("phases of the cancelled WorkflowRun (-want +got):\n%s", diff)
	}
	want = map[string]string{"": "Cancelled", "inner": "Failed", "inner/endless": "Cancelled", "inner/never": "Pending"}
	if diff := cmp.Diff(want, e2e.Phases(env.WorkflowRun("cancelled-call-call"))); diff != "" {
		t.Errorf("phases of its call (-want +got):\n%s", diff)
	}
	env.WaitEvent(run, "Normal Cancelled cancelled on request")
	if got := env.TryKrt("", "wait", "workflowrun", "cancelled", "--for=succeeded"); got.Code != 1 {
		t.Errorf("krt wait for its success: %+v", got)
	}
	if got := env.Krt("describe", "workflowrun", "cancelled"); !strings.Contains(got, "cancelled on request (spec.cancelRequested)") {
		t.Errorf("krt describe does not say why:\n%s", got)
	}

	late := env.WaitWorkflowRun("late")
	want = map[string]string{
		"": "Failed", "slow": "Failed", "slow/endless": "Timeout", "slow/never": "Pending", "behind": "Skipped", "behind/never": "Pending",
		"beside": "Succeeded", "beside/quick": "Succeeded",
	}
	if diff := cmp.Diff(want, e2e.Phases(late)); diff != "" {
		t.Errorf("phases of the WorkflowRun with a timeout (-want +got):\n%s", diff)
	}
	if got := late.Status.Jobs["slow"].Message; !strings.Contains(got, "step endless: ") || !strings.Contains(got, "timeout of 2s") {
		t.Errorf("the job says %q", got)
	}
	env.WaitEvent(late, "Warning JobFailed job slow failed: step endless: ")
	noExecution(t, env)
}

// noExecution expects that no script of the tests here executes in any Pod.
func noExecution(t *testing.T, env *e2e.Env) {
	t.Helper()
	for _, pod := range env.Pods("bash") {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		got := env.Exec(pod.Name, corev1alpha1.ContainerRuntime, "/bin/bash", "-c", `cat /proc/[0-9]*/cmdline | tr '\0' ' '`)
		if !strings.Contains(got.Stdout, "cmdline") || strings.Contains(got.Stdout, "sleep 600") {
			t.Errorf("processes of Pod %s: %+v", pod.Name, got)
		}
	}
}

// began starts a Run and waits until its script has said a word.
func began(env *e2e.Env, script string) *corev1alpha1.Run {
	run := env.WaitPhase(env.Run("bash", script), corev1alpha1.RunRunning)
	env.Eventually("the script of Run "+run.Name+" has begun", func() string { return without(env.TryKrt("", "logs", run.Name).Stdout, "began") })
	return run
}

// without returns text unless it holds words.
func without(text, words string) string {
	if strings.Contains(text, words) {
		return ""
	}
	return "no " + words + ": " + text
}
