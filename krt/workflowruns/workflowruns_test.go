package workflowruns

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/test/golden"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func micro(d time.Duration) *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(noon.Add(d))) }

func steps(names ...string) []workflowsv1alpha1.Step {
	var all []workflowsv1alpha1.Step
	for _, name := range names {
		all = append(all, workflowsv1alpha1.Step{Name: name, Run: "true"})
	}
	return all
}

// fresh is a WorkflowRun that nobody has looked at yet.
func fresh() *workflowsv1alpha1.WorkflowRun {
	return &workflowsv1alpha1.WorkflowRun{
		ObjectMeta: metav1.ObjectMeta{Name: "ci", Namespace: "team"},
		Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: map[string]workflowsv1alpha1.Job{
			"build":  {RunsOn: "sh", Steps: steps("checkout", "test", "package")},
			"deploy": {RunsOn: "sh", Needs: []string{"build", "scan"}, Steps: steps("announce")},
			"scan":   {RunsOn: "sh", Steps: steps("all")},
		}},
	}
}

// executing is the same while its steps execute.
func executing() *workflowsv1alpha1.WorkflowRun {
	run := fresh()
	run.Status = workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowRunning, StartTime: micro(0), Jobs: map[string]workflowsv1alpha1.JobStatus{
		"build": {Phase: workflowsv1alpha1.JobRunning, StartTime: micro(time.Second), Steps: []workflowsv1alpha1.StepStatus{
			{Name: "checkout", Phase: corev1alpha1.RunSucceeded, RunName: "ci-build-checkout", StartTime: micro(time.Second), CompletionTime: micro(1400 * time.Millisecond)},
			{Name: "test", Phase: corev1alpha1.RunRunning, RunName: "ci-build-test", StartTime: micro(2 * time.Second)},
			{Name: "package", Phase: corev1alpha1.RunPending},
		}},
		"deploy": {Phase: workflowsv1alpha1.JobWaiting, Pre: []string{"build", "scan"}},
		"scan": {Phase: workflowsv1alpha1.JobRunning, StartTime: micro(time.Second), Steps: []workflowsv1alpha1.StepStatus{
			{Name: "all", Phase: corev1alpha1.RunPending, RunName: "ci-scan-all", StartTime: micro(time.Second)},
		}},
	}}
	return run
}

// failedRun is the same when it has failed.
func failedRun() *workflowsv1alpha1.WorkflowRun {
	run := executing()
	build, deploy, scan := run.Status.Jobs["build"], run.Status.Jobs["deploy"], run.Status.Jobs["scan"]
	build.Steps[1].Phase, build.Steps[1].CompletionTime = corev1alpha1.RunFailed, micro(5*time.Second)
	build.Steps[1].Message = "ScriptFailed, exit code 3: Exit code 3\n1 of 2 tests failed"
	build.Phase, build.CompletionTime, build.Message = workflowsv1alpha1.JobFailed, micro(5*time.Second), "step test: "+build.Steps[1].Message
	deploy.Phase, deploy.Message = workflowsv1alpha1.JobSkipped, "needs job build, which failed"
	scan.Steps[0].Phase, scan.Steps[0].CompletionTime = corev1alpha1.RunSucceeded, micro(90*time.Second)
	scan.Phase, scan.CompletionTime = workflowsv1alpha1.JobSucceeded, micro(91*time.Second)
	scan.Outputs = map[string]corev1alpha1.OutputValue{"report": "https://x\n", "found": "0"}
	run.Status.Jobs = map[string]workflowsv1alpha1.JobStatus{"build": build, "deploy": deploy, "scan": scan}
	run.Status.Phase, run.Status.CompletionTime, run.Status.Message = workflowsv1alpha1.WorkflowFailed, micro(91*time.Second), "job build failed: "+build.Message
	return run
}

func TestDraw(t *testing.T) {
	now := noon.Add(3 * time.Second)
	cases := map[string]struct {
		run     *workflowsv1alpha1.WorkflowRun
		picture Picture
	}{
		"fresh.txt":     {run: fresh()},
		"executing.txt": {run: executing(), picture: Picture{Spinner: Spinner(3)}},
		"failed.txt":    {run: failedRun()},
		"details.txt":   {run: failedRun(), picture: Picture{Details: true}},
		"colours.txt":   {run: failedRun(), picture: Picture{Style: Style{Colours: true}}},
		"narrow.txt":    {run: failedRun(), picture: Picture{Width: 34}},
		"low.txt":       {run: executing(), picture: Picture{Height: 8}},
		"lower.txt":     {run: executing(), picture: Picture{Height: 5}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.picture.Now = now
			lines := tc.picture.Draw(Alone(tc.run))
			if h := tc.picture.Height; h > 0 && len(lines) > h {
				t.Errorf("%d lines, want %d at most", len(lines), h)
			}
			golden.Check(t, name, strings.Join(lines, "\n")+"\n")
		})
	}
}

func TestNarrowLinesFit(t *testing.T) {
	for width := 1; width < 60; width++ {
		for _, line := range (Picture{Width: width, Now: noon, Details: true}).Draw(Alone(failedRun())) {
			if n := len([]rune(line)); n > width {
				t.Fatalf("width %d: %d characters: %q", width, n, line)
			}
		}
	}
}

func TestChanges(t *testing.T) {
	var changes Changes
	var got []string
	now := noon.Add(2 * time.Minute)
	for _, run := range []*workflowsv1alpha1.WorkflowRun{fresh(), executing(), executing(), failedRun(), failedRun()} {
		for _, c := range changes.Next(Alone(run), now) {
			text := c.Time.Format("05.0") + " " + c.Path + " " + c.Phase
			if c.Took != nil {
				text += " " + c.Took.String()
			}
			if c.Message != "" {
				text += ": " + Flat(c.Message, 60)
			}
			got = append(got, text)
		}
		got = append(got, "--")
	}
	want := []string{
		"--",
		"00.0  Running", "01.0 build Running", "01.0 scan Running", "01.4 build/checkout Succeeded 400ms", "02.0 build/test Running", "--",
		"--",
		"05.0 build/test Failed 3s: ScriptFailed, exit code 3: Exit code 3; 1 of 2 tests failed", "05.0 build Failed 4s",
		"30.0 scan/all Succeeded 1m29s", "31.0 scan Succeeded 1m30s",
		"31.0 deploy Skipped: needs job build, which failed", "31.0  Failed 1m31s", "--",
		"--",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The times of a step come from the clock of a node, those of jobs from that of the manager.
func TestChangesHoldTheirOrderWhenClocksDiffer(t *testing.T) {
	run := failedRun()
	build := run.Status.Jobs["build"]
	build.Steps[0].CompletionTime, build.Steps[1].CompletionTime = micro(0), micro(10*time.Minute)
	var got []string
	for _, c := range new(Changes).Next(Alone(run), noon.Add(time.Hour)) {
		got = append(got, c.Path+" "+c.Phase)
	}
	want := []string{"build/checkout Succeeded", "scan/all Succeeded", "scan Succeeded", "deploy Skipped", "build/test Failed", "build Failed", " Failed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A step that fails, and whoever wrote a WorkflowRun, must not reach the terminal of whoever looks at it.
func TestNothingReachesTheTerminalUnescaped(t *testing.T) {
	const evil, shown = "x\x1b]52;c;ZXZpbA==\ay", `x\x1b]52;c;ZXZpbA==\ay`
	run := failedRun()
	build := run.Spec.Jobs["build"]
	build.Steps[1].Name, build.Steps[1].Uses, build.Needs = evil, evil, []string{evil}
	run.Spec.Jobs["build"], run.Spec.Jobs[evil] = build, build
	status := run.Status.Jobs["build"]
	status.Steps[1].Name, status.Steps[1].Message, status.Steps[1].RunName = evil, "Exit code 3\n"+evil, evil
	status.Outputs = map[string]corev1alpha1.OutputValue{evil: evil}
	run.Status.Jobs["build"] = status
	var end strings.Builder
	if err := WriteEnd(&end, "kubectl krt", Alone(run)); err != nil {
		t.Fatal(err)
	}
	if want := "\nFirst failure: build/" + shown + " Failed: Exit code 3\n" + shown + "\nIts output: kubectl krt logs " + shown + " -n team\n" +
		"\nOutputs:\n  build." + shown + "=" + shown + "\n"; !strings.HasPrefix(end.String(), want) {
		t.Errorf("got\n%s\nwant it to begin with\n%s", end.String(), want)
	}
	for _, text := range append(Picture{Now: noon, Details: true}.Draw(Alone(run)), Picture{Now: noon}.Draw(Alone(run))...) {
		if strings.ContainsAny(text, "\x1b\a") {
			t.Errorf("a line holds an escape sequence: %q", text)
		}
	}
}

func TestWriteEndTellsThatItCannotWrite(t *testing.T) {
	in, out := io.Pipe()
	_ = in.Close()
	if err := WriteEnd(out, "krt", Alone(failedRun())); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got error %v, want %v", err, io.ErrClosedPipe)
	}
}

func TestFirstFailure(t *testing.T) {
	refused := fresh()
	refused.Status.Phase, refused.Status.Message = workflowsv1alpha1.WorkflowFailed, "spec.jobs[a]: no"
	noOutputs := executing()
	scan := noOutputs.Status.Jobs["scan"]
	scan.Phase, scan.Message = workflowsv1alpha1.JobFailed, "OutputsTooLarge: 5000 bytes"
	noOutputs.Status.Jobs["scan"] = scan
	cancelled := failedRun()
	cancelled.Spec.CancelRequested, cancelled.Status.Phase = true, workflowsv1alpha1.WorkflowCancelled
	cancelled.Status.Jobs["build"].Steps[1].Phase = corev1alpha1.RunCancelled
	between := executing()
	build := between.Status.Jobs["build"]
	build.Phase, build.Message, build.Steps = workflowsv1alpha1.JobFailed, "cancelled before step test", build.Steps[:1]
	between.Status.Jobs = map[string]workflowsv1alpha1.JobStatus{"build": build}
	between.Status.Phase = workflowsv1alpha1.WorkflowCancelled
	asked := between.DeepCopy()
	asked.Status.Phase, asked.Spec.CancelRequested = workflowsv1alpha1.WorkflowRunning, true
	late := failedRun()
	late.Spec.CancelRequested, late.Status.Phase = true, workflowsv1alpha1.WorkflowCancelled
	cases := map[string]struct {
		run  *workflowsv1alpha1.WorkflowRun
		want *Failure
	}{
		"a job that was cancelled between two steps":     {run: between},
		"one whose WorkflowRun is still being cancelled": {run: asked},
		"a step that failed before all was cancelled": {run: late, want: &Failure{Path: "build/test", Phase: "Failed",
			Message: "ScriptFailed, exit code 3: Exit code 3\n1 of 2 tests failed", Run: "ci-build-test"}},
		"nothing failed": {run: executing()},
		"a step": {run: failedRun(), want: &Failure{Path: "build/test", Phase: "Failed",
			Message: "ScriptFailed, exit code 3: Exit code 3\n1 of 2 tests failed", Run: "ci-build-test"}},
		"a job by itself":        {run: noOutputs, want: &Failure{Path: "scan", Phase: "Failed", Message: "OutputsTooLarge: 5000 bytes"}},
		"not accepted":           {run: refused, want: &Failure{Phase: "Failed", Message: "spec.jobs[a]: no"}},
		"an end that was wanted": {run: cancelled},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, FirstFailure(Alone(tc.run))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutputsAndExitCodes(t *testing.T) {
	run := failedRun()
	run.Status.Outputs = map[string]corev1alpha1.OutputValue{"url": "x\ny"}
	if diff := cmp.Diff([]string{`url=x\ny`, "scan.found=0", "scan.report=https://x"}, Outputs(run)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for phase, want := range map[workflowsv1alpha1.WorkflowPhase]int{
		workflowsv1alpha1.WorkflowSucceeded: cli.ExitOK, workflowsv1alpha1.WorkflowFailed: cli.ExitFailed, workflowsv1alpha1.WorkflowCancelled: cli.ExitInterrupted,
	} {
		run.Status.Phase = phase
		if got := ExitCode(run); got != want {
			t.Errorf("%s: exit code %d, want %d", phase, got, want)
		}
	}
}
