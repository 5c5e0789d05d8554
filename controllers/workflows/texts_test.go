package workflows

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// The clock of whoever ended the last step may be ahead, and the time of a decision may be older than what it rests on.
func TestNothingEndsBeforeWhatIsInside(t *testing.T) {
	w := newWorld(t, map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh", Steps: steps("first", "second")}})
	w.reconcile(false)
	w.reconcile(false)
	w.end("a", "first", corev1alpha1.RunSucceeded, nil)
	w.run.Spec.CancelRequested = true
	last := w.now
	w.now = w.now.Add(-time.Hour)
	w.quiet()
	status := w.run.Status
	if status.Phase != workflowsv1alpha1.WorkflowCancelled {
		t.Fatalf("got status %+v", status)
	}
	for what, got := range map[string]time.Time{"the WorkflowRun": status.CompletionTime.Time, "the job": status.Jobs["a"].CompletionTime.Time} {
		if !got.Equal(last) {
			t.Errorf("%s ended at %s, its last step at %s", what, got, last)
		}
	}
}

// A Runtime that was deleted is to blame for what was lost with its Pods.
func TestALossNamesTheDeletedRuntime(t *testing.T) {
	w := furnished(t)
	w.quiet()
	w.lose("flow-build")
	o := w.observe()
	o.deletedRuntimes = sets.New("sh")
	want := `WorkspaceLost: the workspace of the job was lost, because its Runtime "sh" was deleted: the files of its steps are gone`
	if diff := cmp.Diff(want, o.loss("build")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Only what is gone, or about to go, is deleted; and only jobs without their workspace are looked at.
func TestDeletedRuntimes(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	here, leaving := &corev1alpha1.Runtime{}, &corev1alpha1.Runtime{}
	here.Namespace, here.Name, leaving.Namespace, leaving.Name = "ns", "here", "ns", "leaving"
	at := metav1.NewTime(start)
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"example.com/x"}, &at
	r := &WorkflowRunReconciler{Live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(here, leaving).Build()}
	jobs := map[string]workflowsv1alpha1.Job{}
	for _, name := range []string{"here", "leaving", "gone", "unstarted"} {
		jobs[name] = workflowsv1alpha1.Job{RunsOn: name, Steps: steps("a", "b")}
	}
	w := newWorld(t, jobs)
	w.reconcile(false)
	o := observation{run: w.run, jobWorkspaces: everyJob()}
	for name, js := range w.run.Status.Jobs {
		if name != "unstarted" {
			js.Phase, js.Steps[0].RunName = workflowsv1alpha1.JobRunning, "flow-"+name+"-a"
			w.run.Status.Jobs[name] = js
		}
	}
	if err := r.loadDeletedRuntimes(t.Context(), &o); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sets.New("leaving", "gone"), o.deletedRuntimes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARefusalSaysWhereAnExpressionIsWrong(t *testing.T) {
	w := newWorld(t, map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "echo ${{ inputs.x }}"}, {Name: "s"}}}})
	w.reconcile(false)
	want := "not accepted: spec.jobs[a].steps[0].run: line 1, column 6: ${{ inputs.x }}: a WorkflowRun has no inputs: write the value itself, " +
		"or declare inputs in a Workflow and trigger that; spec.jobs[a].steps[1]: Required value: a step has either run or uses, the name of an Action; " +
		`spec.jobs[a].steps[1].name: Duplicate value: "s"`
	if diff := cmp.Diff(want, w.run.Status.Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestWhyARunDidNotSucceed(t *testing.T) {
	cases := map[string]struct {
		status corev1alpha1.RunStatus
		want   string
	}{
		"a reason and a message":           {corev1alpha1.RunStatus{Phase: corev1alpha1.RunFailed, Reason: "ScriptFailed", Message: "exit code 3"}, "ScriptFailed: exit code 3"},
		"a message that says it again":     {corev1alpha1.RunStatus{Phase: corev1alpha1.RunCancelled, Reason: "Cancelled", Message: "Cancelled"}, "Cancelled"},
		"a phase that says it again":       {corev1alpha1.RunStatus{Phase: corev1alpha1.RunCancelled, Message: "Cancelled"}, "Cancelled"},
		"neither a reason nor a message":   {corev1alpha1.RunStatus{Phase: corev1alpha1.RunTimeout}, "Timeout"},
		"nothing to say about what worked": {corev1alpha1.RunStatus{Phase: corev1alpha1.RunSucceeded, Message: "x"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := explain(&corev1alpha1.Run{Status: tc.status}); got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}
