package workflows

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// release is a job build, a call deploy that needs it, and a job report that needs the call.
func release() map[string]workflowsv1alpha1.Job {
	return map[string]workflowsv1alpha1.Job{
		"build": {RunsOn: "sh", Steps: steps("pack"), Outputs: map[string]workflowsv1alpha1.Output{"tag": {Value: "${{ steps.pack.outputs.tag }}"}}},
		"deploy": {Needs: []string{"build"}, Uses: "deploy-workflow", With: map[string]workflowsv1alpha1.InputValue{
			"image": "app:${{ jobs.build.outputs.tag }}", "fixed": "a$b"}},
		"report": {RunsOn: "sh", Needs: []string{"deploy"}, Steps: []workflowsv1alpha1.Step{{Name: "say", Run: "true",
			Env:       map[string]workflowsv1alpha1.EnvValue{"ENDPOINT": "${{ jobs.deploy.outputs.endpoint }}"},
			Artifacts: []workflowsv1alpha1.StepArtifact{{From: "jobs.deploy.artifacts.log", Path: "log"}}}}},
	}
}

// TestACallIsOneJobOfItsCaller plays a call from its readiness to what its caller takes over.
func TestACallIsOneJobOfItsCaller(t *testing.T) {
	w := newWorld(t, release())
	w.quiet()
	if len(w.calls) > 0 {
		t.Fatalf("the call began before the job that it needs has ended: %v", w.calls)
	}
	w.end("build", "pack", corev1alpha1.RunSucceeded, outputs{"tag": "v1 ${{ x }}"})
	w.reconcile(false)
	d := calculate(w.observe())
	if len(w.calls) == 0 {
		t.Fatalf("nothing was called: %+v", d.start)
	}
	w.quiet()
	js := w.run.Status.Jobs["deploy"]
	if js.Phase != workflowsv1alpha1.JobRunning || js.WorkflowRunName != "flow-call-deploy" || len(js.Steps) > 0 || js.StartTime == nil {
		t.Errorf("got job %+v", js)
	}
	w.endCall("deploy", workflowsv1alpha1.WorkflowSucceeded, func(child *workflowsv1alpha1.WorkflowRun) {
		child.Annotations = map[string]string{workflowsv1alpha1.AnnotationOutputPrefix + "endpoint": "https://${{ jobs.apply.outputs.host }}/${{ '${{' }}"}
		child.Status.Jobs = map[string]workflowsv1alpha1.JobStatus{
			"apply": {Phase: workflowsv1alpha1.JobSucceeded, Outputs: outputs{"host": "h ${{ y }}"}, Pre: []string{"z"},
				Artifacts: map[string]corev1alpha1.ArtifactRef{"log": ref("log", "apply")}},
			"z": {Phase: workflowsv1alpha1.JobSucceeded, Artifacts: map[string]corev1alpha1.ArtifactRef{"log": ref("log", "z"), "map": ref("map", "z")}},
		}
	})
	w.quiet()
	js = w.run.Status.Jobs["deploy"]
	if diff := cmp.Diff(outputs{"endpoint": "https://h ${{ y }}/${{"}, js.Outputs); diff != "" {
		t.Errorf("outputs of the call (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]corev1alpha1.ArtifactRef{"log": ref("log", "apply"), "map": ref("map", "z")}, js.Artifacts); diff != "" {
		t.Errorf("artifacts of the call (-want +got):\n%s", diff)
	}
	say := w.children[identity{job: "report", step: "say"}]
	if say == nil || say.Spec.Env[0].Value != "https://h ${{ y }}/${{" || say.Spec.ArtifactInputs[0].Artifact.Location.Filesystem.Path != ref("log", "apply").Location.Filesystem.Path {
		t.Errorf("what needs the call got %+v", say)
	}
}

// TestWhatACallHandsOver is evaluated where the call becomes ready, and goes on as text.
func TestWhatACallHandsOver(t *testing.T) {
	w := newWorld(t, release())
	w.quiet()
	w.end("build", "pack", corev1alpha1.RunSucceeded, outputs{"tag": "v1 ${{ x }}"})
	got := calculate(w.observe()).start
	want := []target{{id: identity{job: "deploy"}, call: &call{workflow: "deploy-workflow", with: map[string]string{"image": "app:v1 ${{ x }}", "fixed": "a$b"}}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(target{}, identity{}, call{})); diff != "" {
		t.Errorf("to start (-want +got):\n%s", diff)
	}
}

// TestHowCallsEnd is the table of the design.
func TestHowCallsEnd(t *testing.T) {
	cases := map[string]struct {
		phase   workflowsv1alpha1.WorkflowPhase
		change  func(*workflowsv1alpha1.WorkflowRun)
		want    workflowsv1alpha1.JobPhase
		message string
	}{
		"Pending":   {workflowsv1alpha1.WorkflowPending, nil, workflowsv1alpha1.JobRunning, ""},
		"Running":   {workflowsv1alpha1.WorkflowRunning, nil, workflowsv1alpha1.JobRunning, ""},
		"Succeeded": {workflowsv1alpha1.WorkflowSucceeded, nil, workflowsv1alpha1.JobSucceeded, ""},
		"Succeeded, and an output cannot be had": {workflowsv1alpha1.WorkflowSucceeded, func(c *workflowsv1alpha1.WorkflowRun) {
			c.Annotations = map[string]string{workflowsv1alpha1.AnnotationOutputPrefix + "x": "${{ jobs.a.outputs.x }}"}
		}, workflowsv1alpha1.JobFailed, "WorkflowRun flow-call-a succeeded, but: ExpressionFailed: outputs.x: "},
		"Failed": {workflowsv1alpha1.WorkflowFailed, func(c *workflowsv1alpha1.WorkflowRun) { c.Status.Message = "job b failed" },
			workflowsv1alpha1.JobFailed, "WorkflowRun flow-call-a failed: job b failed"},
		"Cancelled by somebody": {workflowsv1alpha1.WorkflowCancelled, nil, workflowsv1alpha1.JobFailed, "WorkflowRun flow-call-a was cancelled"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]workflowsv1alpha1.Job{"a": {Uses: "other"}})
			w.quiet()
			w.endCall("a", tc.phase, tc.change)
			w.quiet()
			got := w.run.Status.Jobs["a"]
			if got.Phase != tc.want || !strings.HasPrefix(got.Message, tc.message) || tc.message == "" && got.Message != "" {
				t.Errorf("got %s: %q, want %s: %q", got.Phase, got.Message, tc.want, tc.message)
			}
		})
	}
}

func TestACallWhoseChildIsGoneFailsItsJob(t *testing.T) {
	w := newWorld(t, map[string]workflowsv1alpha1.Job{"a": {Uses: "other"}})
	w.quiet()
	w.deleted[identity{job: "a"}] = true
	w.quiet()
	want := "ChildDeleted: WorkflowRun flow-call-a is gone; it is not made again, for it may have been executed"
	if got := w.run.Status.Jobs["a"]; got.Phase != workflowsv1alpha1.JobFailed || got.Message != want {
		t.Errorf("got %s: %q", got.Phase, got.Message)
	}
}

func TestACancelGoesToTheChildrenOfCallsOnly(t *testing.T) {
	w := newWorld(t, map[string]workflowsv1alpha1.Job{"a": {Uses: "other"}, "b": {RunsOn: "sh", Steps: steps("s")}, "c": {Uses: "other", Needs: []string{"a"}}})
	w.quiet()
	w.run = w.run.DeepCopy()
	w.run.Spec.CancelRequested = true
	w.quiet()
	if !w.calls["a"].Spec.CancelRequested || !w.children[identity{job: "b", step: "s"}].Spec.CancelRequested || w.calls["c"] != nil {
		t.Errorf("calls %+v", w.calls)
	}
	if w.run.Status.Phase.IsTerminal() {
		t.Error("it has ended before its children")
	}
	w.endCall("a", workflowsv1alpha1.WorkflowCancelled, nil)
	w.end("b", "s", corev1alpha1.RunCancelled, nil)
	w.quiet()
	if diff := cmp.Diff(map[string]string{"": "Cancelled", "a": "Failed", "b": "Failed", "c": "Waiting"}, w.phases()); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
}

func TestASecondChildOfACallIsCancelled(t *testing.T) {
	w := newWorld(t, map[string]workflowsv1alpha1.Job{"a": {Uses: "other"}})
	w.quiet()
	o := w.observe()
	o.surplusCalls = []*workflowsv1alpha1.WorkflowRun{{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Status: workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowRunning}}}
	d := calculate(o)
	if len(d.cancel) != 1 || d.cancel[0].GetName() != "second" {
		t.Errorf("to cancel: %v", d.cancel)
	}
}
