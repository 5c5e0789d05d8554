package workflows

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

type outputs = map[string]corev1alpha1.OutputValue

// ci is a job build of two steps, a job deploy that needs it and uses its output, and a job docs on its own.
func ci() map[string]workflowsv1alpha1.Job {
	return map[string]workflowsv1alpha1.Job{
		"build": {
			RunsOn: "sh", Env: map[string]workflowsv1alpha1.EnvValue{"MODE": "job", "LEVEL": "1"},
			Steps: []workflowsv1alpha1.Step{
				{Name: "compile", Run: "make"},
				{Name: "pack", Run: "pack ${{ steps.compile.outputs.file }}", Env: map[string]workflowsv1alpha1.EnvValue{"MODE": "step"}},
			},
			Outputs: map[string]workflowsv1alpha1.Output{"image": {Value: "app:${{ steps.pack.outputs.tag }}"}},
		},
		"deploy": {RunsOn: "sh", Needs: []string{"build"}, Steps: []workflowsv1alpha1.Step{
			{Name: "roll-out", Run: "deploy", Env: map[string]workflowsv1alpha1.EnvValue{"IMAGE": "${{ jobs.build.outputs.image }}"}}}},
		"docs": {RunsOn: "sh", Steps: steps("render")},
	}
}

func TestTheWholeWay(t *testing.T) {
	w := newWorld(t, ci())
	w.reconcile(false)
	if diff := cmp.Diff(map[string]string{"": "Pending", "build": "Pending", "deploy": "Waiting", "docs": "Pending"}, w.phases()); diff != "" {
		t.Fatalf("after initialisation (-want +got):\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(w.run.Status.Conditions, "Accepted") || w.run.Status.SnapshotName == "" {
		t.Fatalf("got status %+v", w.run.Status)
	}
	w.reconcile(false)
	if diff := cmp.Diff([]identity{{job: "build", step: "compile"}, {job: "docs", step: "render"}}, w.active(), cmp.AllowUnexported(identity{})); diff != "" {
		t.Fatalf("started (-want +got):\n%s", diff)
	}
	w.end("build", "compile", corev1alpha1.RunSucceeded, outputs{"file": "a b.tar"})
	w.quiet()
	pack := w.children[identity{job: "build", step: "pack"}]
	wantSpec := corev1alpha1.RunSpec{
		Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "pack a b.tar"},
		Env: []corev1alpha1.EnvVar{{Name: "LEVEL", Value: "1"}, {Name: "MODE", Value: "step"}},
	}
	if diff := cmp.Diff(wantSpec, pack.Spec); diff != "" {
		t.Errorf("the second step's Run (-want +got):\n%s", diff)
	}
	w.end("build", "pack", corev1alpha1.RunSucceeded, outputs{"tag": "v1 ${{ x }}"})
	w.quiet()
	if got := w.run.Status.Jobs["build"].Outputs["image"]; got != "app:v1 ${{ x }}" {
		t.Errorf("got output %q", got)
	}
	rollOut := w.children[identity{job: "deploy", step: "roll-out"}]
	if got := rollOut.Spec.Env[0].Value; got != "app:v1 ${{ x }}" {
		t.Errorf("got IMAGE %q", got)
	}
	w.end("deploy", "roll-out", corev1alpha1.RunSucceeded, nil)
	w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
	w.quiet()
	if diff := cmp.Diff(map[string]string{"": "Succeeded", "build": "Succeeded", "deploy": "Succeeded", "docs": "Succeeded"}, w.phases()); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(w.run.Status.Conditions, "Succeeded") || w.run.Status.CompletionTime == nil {
		t.Errorf("got status %+v", w.run.Status)
	}
}

func TestEndings(t *testing.T) {
	cases := map[string]struct {
		play        func(w *world)
		want        map[string]string
		wantMessage string
	}{
		"a failed step fails its job, and what needs the job is skipped while others go on": {
			play: func(w *world) {
				w.end("build", "compile", corev1alpha1.RunFailed, nil)
				w.quiet()
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want:        map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
			wantMessage: "job build failed: step compile: ScriptFailed, exit code 3",
		},
		"a timeout of a step fails its job": {
			play: func(w *world) {
				w.end("build", "compile", corev1alpha1.RunTimeout, nil)
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want:        map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
			wantMessage: "job build failed: step compile: Timeout",
		},
		"a child that somebody cancelled fails its job, and nothing else": {
			play: func(w *world) {
				w.end("docs", "render", corev1alpha1.RunCancelled, nil)
				w.end("build", "compile", corev1alpha1.RunSucceeded, outputs{"file": "x"})
				w.quiet()
				w.end("build", "pack", corev1alpha1.RunSucceeded, outputs{"tag": "1"})
				w.quiet()
				w.end("deploy", "roll-out", corev1alpha1.RunSucceeded, nil)
			},
			want:        map[string]string{"": "Failed", "build": "Succeeded", "deploy": "Succeeded", "docs": "Failed"},
			wantMessage: "job docs failed: step render: Cancelled",
		},
		"a child that was deleted by hand is not made again": {
			play: func(w *world) {
				w.deleted[identity{job: "build", step: "compile"}] = true
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want: map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
			wantMessage: "job build failed: step compile: ChildDeleted: Run flow-build-compile is gone; it is not made again, " +
				"for it may have been executed",
		},
		"an output that a step did not write fails the job that reads it": {
			play: func(w *world) {
				w.end("build", "compile", corev1alpha1.RunSucceeded, outputs{"fiel": "x"})
				w.quiet()
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want: map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
		},
		"a Run that is refused for good fails its job": {
			play: func(w *world) {
				w.refusals[identity{job: "build", step: "pack"}] = "spec.source: too long"
				w.end("build", "compile", corev1alpha1.RunSucceeded, outputs{"file": "x"})
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want:        map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
			wantMessage: "job build failed: step pack: ChildRefused: spec.source: too long",
		},
		"cancelled: active children end, and jobs that were never started stay as they are": {
			play: func(w *world) {
				w.run.Spec.CancelRequested = true
				w.quiet()
				for _, id := range w.active() {
					if !w.children[id].Spec.CancelRequested {
						w.t.Errorf("child %v was not cancelled", id)
					}
				}
				w.end("build", "compile", corev1alpha1.RunTimeout, nil)
				w.end("docs", "render", corev1alpha1.RunCancelled, nil)
			},
			want:        map[string]string{"": "Cancelled", "build": "Failed", "deploy": "Waiting", "docs": "Failed"},
			wantMessage: "cancelled on request (spec.cancelRequested)",
		},
		"cancelled between two steps: the next one is not started": {
			play: func(w *world) {
				w.run.Spec.CancelRequested = true
				w.end("build", "compile", corev1alpha1.RunSucceeded, outputs{"file": "x"})
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want:        map[string]string{"": "Cancelled", "build": "Failed", "deploy": "Waiting", "docs": "Succeeded"},
			wantMessage: "cancelled on request (spec.cancelRequested)",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ci())
			w.quiet()
			tc.play(w)
			w.quiet()
			if diff := cmp.Diff(tc.want, w.phases()); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
			if tc.wantMessage != "" && w.run.Status.Message != tc.wantMessage {
				t.Errorf("got message %q, want %q", w.run.Status.Message, tc.wantMessage)
			}
		})
	}
}

func TestARefusedWorkflowRunHasNoChildren(t *testing.T) {
	jobs := ci()
	deploy := jobs["deploy"]
	deploy.Needs = []string{"biuld"}
	jobs["deploy"] = deploy
	w := newWorld(t, jobs)
	w.quiet()
	if w.run.Status.Phase != workflowsv1alpha1.WorkflowFailed || len(w.children) != 0 || w.run.Status.SnapshotName != "" {
		t.Errorf("got phase %s, %d children, snapshot %q", w.run.Status.Phase, len(w.children), w.run.Status.SnapshotName)
	}
	accepted := meta.FindStatusCondition(w.run.Status.Conditions, "Accepted")
	if accepted == nil || accepted.Status != "False" || !strings.Contains(accepted.Message, `"biuld"`) {
		t.Errorf("got condition %+v", accepted)
	}
}

func TestAHeldChildIsTriedAgainWhenItIsDue(t *testing.T) {
	w := newWorld(t, ci())
	w.reconcile(false)
	id := identity{job: "build", step: "compile"}
	w.held[id] = hold{until: w.now.Add(firstHold), reason: "exceeded quota"}
	w.quiet()
	if got := w.run.Status.Jobs["build"].Message; got != "step compile cannot be created yet: exceeded quota" {
		t.Errorf("got message %q", got)
	}
	if d := calculate(w.observe()); d.recheck != firstHold {
		t.Errorf("looks again after %v, want %v", d.recheck, firstHold)
	}
	w.now = w.now.Add(firstHold)
	w.quiet()
	if js := w.run.Status.Jobs["build"]; js.Phase != workflowsv1alpha1.JobRunning || js.Message != "" {
		t.Errorf("got job %+v", js)
	}
}

func TestExpiry(t *testing.T) {
	w := newWorld(t, map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh", Steps: steps("s")}})
	w.run.Spec.TTLSecondsAfterFinished = ptr.To[int32](10)
	w.quiet()
	w.end("a", "s", corev1alpha1.RunSucceeded, nil)
	w.quiet()
	w.now = w.run.Status.CompletionTime.Add(4e9)
	if d := calculate(w.observe()); d.expire || d.recheck != 6e9 {
		t.Errorf("after 4 s: %+v", d)
	}
	w.now = w.run.Status.CompletionTime.Add(10e9)
	if d := calculate(w.observe()); !d.expire {
		t.Errorf("after 10 s: %+v", d)
	}
	o := w.observe()
	o.isAwaited = true
	if d := calculate(o); d.expire || d.recheck != awaitCaller {
		t.Errorf("while its caller waits for it: %+v", d)
	}
}

func TestOutputBounds(t *testing.T) {
	big := strings.Repeat("x", 4000)
	var names []string
	for i := range 16 {
		names = append(names, "s"+string(rune('a'+i)))
	}
	w := newWorld(t, map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh", Steps: steps(names...)}, "b": {RunsOn: "sh", Steps: steps("s")}})
	w.quiet()
	w.end("b", "s", corev1alpha1.RunSucceeded, nil)
	// 256 KiB hold 65 values of 4,000 bytes with their names; the fifth step goes over.
	fill := outputs{}
	for i := range 15 {
		fill["k"+string(rune('a'+i))] = corev1alpha1.OutputValue(big)
	}
	for _, name := range names[:5] {
		w.end("a", name, corev1alpha1.RunSucceeded, fill)
		w.quiet()
	}
	js := w.run.Status.Jobs["a"]
	if js.Phase != workflowsv1alpha1.JobFailed || !strings.HasPrefix(js.Message, "step se: OutputsTooLarge: ") {
		t.Errorf("got job %s: %q", js.Phase, js.Message)
	}
	if len(js.Steps[4].Outputs) != 0 || len(js.Steps[3].Outputs) != 15 || js.Steps[4].Phase != corev1alpha1.RunSucceeded {
		t.Errorf("got %d outputs of the fourth step and %d of the fifth (%s)", len(js.Steps[3].Outputs), len(js.Steps[4].Outputs), js.Steps[4].Phase)
	}
	if got := w.run.Status.Jobs["b"].Phase; got != workflowsv1alpha1.JobSucceeded {
		t.Errorf("job b is %s", got)
	}
}

func TestAStatusThatGrowsTooLargeFailsItsJob(t *testing.T) {
	// Control characters take six bytes each in JSON: few bytes of outputs, much status.
	value := corev1alpha1.OutputValue(strings.Repeat("\x01", 4000))
	w := newWorld(t, map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh", Steps: steps("s1", "s2", "s3")}})
	w.quiet()
	fill := outputs{}
	for i := range 15 {
		fill["k"+string(rune('a'+i))] = value
	}
	w.end("a", "s1", corev1alpha1.RunSucceeded, fill)
	w.quiet()
	w.end("a", "s2", corev1alpha1.RunSucceeded, fill)
	w.quiet()
	w.end("a", "s3", corev1alpha1.RunSucceeded, fill)
	w.quiet()
	js := w.run.Status.Jobs["a"]
	if js.Phase != workflowsv1alpha1.JobFailed || !strings.HasPrefix(js.Message, "step s3: StatusTooLarge: ") {
		t.Errorf("got job %s: %q", js.Phase, js.Message)
	}
	encoded, err := json.Marshal(w.run.Status)
	if err != nil || len(encoded) > workflowsv1alpha1.MaxStatusBytes {
		t.Errorf("the status has %d bytes, more than %d (%v)", len(encoded), workflowsv1alpha1.MaxStatusBytes, err)
	}
}

func TestAJobOutputOverItsBoundFailsTheJob(t *testing.T) {
	jobs := map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh", Steps: steps("s"), Outputs: map[string]workflowsv1alpha1.Output{
		"twice": {Value: "${{ steps.s.outputs.half }}${{ steps.s.outputs.half }}"}}}}
	for size, want := range map[int]workflowsv1alpha1.JobPhase{2048: workflowsv1alpha1.JobSucceeded, 2049: workflowsv1alpha1.JobFailed} {
		w := newWorld(t, jobs)
		w.quiet()
		w.end("a", "s", corev1alpha1.RunSucceeded, outputs{"half": corev1alpha1.OutputValue(strings.Repeat("x", size))})
		w.quiet()
		if js := w.run.Status.Jobs["a"]; js.Phase != want {
			t.Errorf("two halves of %d bytes: got %s (%s), want %s", size, js.Phase, js.Message, want)
		}
	}
}
