package watch

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// workflowRun has one job with one step, in a phase.
func workflowRun(phase workflowsv1alpha1.WorkflowPhase, step corev1alpha1.RunPhase) *workflowsv1alpha1.WorkflowRun {
	run := &workflowsv1alpha1.WorkflowRun{
		ObjectMeta: metav1.ObjectMeta{Name: "ci", Namespace: "team", UID: "1"},
		Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: map[string]workflowsv1alpha1.Job{
			"build": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "test", Run: "true"}}},
		}},
		Status: workflowsv1alpha1.WorkflowRunStatus{Phase: phase, StartTime: ptr.To(metav1.NewMicroTime(noon))},
	}
	status := workflowsv1alpha1.StepStatus{Name: "test", Phase: step, RunName: "ci-build-test", StartTime: run.Status.StartTime}
	job := workflowsv1alpha1.JobStatus{Phase: workflowsv1alpha1.JobRunning, StartTime: run.Status.StartTime}
	if phase.IsTerminal() {
		run.Status.CompletionTime = ptr.To(metav1.NewMicroTime(noon.Add(time.Second)))
		status.CompletionTime, job.CompletionTime = run.Status.CompletionTime, run.Status.CompletionTime
		job.Phase = workflowsv1alpha1.JobPhase(phase)
	}
	job.Steps = []workflowsv1alpha1.StepStatus{status}
	run.Status.Jobs = map[string]workflowsv1alpha1.JobStatus{"build": job}
	return run
}

func TestLinesWithoutATerminal(t *testing.T) {
	var out, talk bytes.Buffer
	v := &View{Out: &out, Talk: &talk, Now: func() time.Time { return noon }}
	for _, run := range []*workflowsv1alpha1.WorkflowRun{
		workflowRun(workflowsv1alpha1.WorkflowRunning, corev1alpha1.RunRunning),
		workflowRun(workflowsv1alpha1.WorkflowRunning, corev1alpha1.RunRunning),
		workflowRun(workflowsv1alpha1.WorkflowSucceeded, corev1alpha1.RunSucceeded),
	} {
		if err := errors.Join(v.show(workflowruns.Alone(run)), v.tick()); err != nil {
			t.Fatal(err)
		}
	}
	v.Say("%d words", 2)
	if err := v.end(); err != nil {
		t.Fatal(err)
	}
	want := `12:00:00.000  ci                        Running
12:00:00.000  build                     Running
12:00:00.000  build/test                Running
12:00:01.000  build/test                Succeeded  1s
12:00:01.000  build                     Succeeded  1s
12:00:01.000  ci                        Succeeded  1s
`
	if diff := cmp.Diff([]string{want, "krt: 2 words\n"}, []string{out.String(), talk.String()}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPhasesStandBehindTheLongestPath(t *testing.T) {
	var out bytes.Buffer
	v := &View{Out: &out, Now: func() time.Time { return noon }}
	run := workflowRun(workflowsv1alpha1.WorkflowRunning, corev1alpha1.RunRunning)
	run.Spec.Jobs["build"].Steps[0].Name, run.Status.Jobs["build"].Steps[0].Name = "unpack-all-of-it-and-look", "unpack-all-of-it-and-look"
	if err := v.show(workflowruns.Alone(run)); err != nil {
		t.Fatal(err)
	}
	want := `12:00:00.000  ci                               Running
12:00:00.000  build                            Running
12:00:00.000  build/unpack-all-of-it-and-look  Running
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPicturesOnATerminal(t *testing.T) {
	var out bytes.Buffer
	v := &View{Out: &out, Now: func() time.Time { return noon.Add(time.Second) },
		Terminal: cli.Terminal{Live: true, Size: func() (int, int) { return 40, 24 }}}
	step := func(what func() error, want string) {
		t.Helper()
		out.Reset()
		if err := what(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	const head, tail = "\x1b[?25l\x1b[?7l", "\x1b[J\x1b[?7h"
	picture := func(spinner string) string {
		return spinner + " ci          Running  1s  0/1 jobs\x1b[K\n└─ " + spinner + " build    Running  1s\x1b[K\n   └─ " + spinner + " test  Running  1s\x1b[K\n"
	}
	step(func() error {
		return v.show(workflowruns.Alone(workflowRun(workflowsv1alpha1.WorkflowRunning, corev1alpha1.RunRunning)))
	},
		head+"\r"+picture("⠋")+tail)
	step(v.tick, head+"\r\x1b[3A"+picture("⠙")+tail)
	step(func() error { v.Say("hi"); return nil }, "\r\x1b[3A\x1b[Jkrt: hi\n"+head+"\r"+picture("⠙")+tail)
	step(v.end, head+"\r\x1b[3A"+picture("●")+tail+showCursor)
	step(func() error { v.Say("bye"); return nil }, "\r\x1b[Jkrt: bye\n")
}

func TestShowEnds(t *testing.T) {
	ended := workflowRun(workflowsv1alpha1.WorkflowFailed, corev1alpha1.RunFailed)
	active := workflowRun(workflowsv1alpha1.WorkflowRunning, corev1alpha1.RunRunning)
	cases := map[string]struct {
		first   *workflowsv1alpha1.WorkflowRun
		stored  *workflowsv1alpha1.WorkflowRun
		wantErr error
	}{
		"with a WorkflowRun that has ended":       {first: ended, stored: ended},
		"with one that ends between two watches":  {first: active, stored: ended},
		"with one that does not exist any longer": {first: active, wantErr: &DeletedError{Name: "ci"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(cli.NewScheme())
			if tc.stored != nil {
				b = b.WithObjects(tc.stored.DeepCopy())
			}
			c := b.Build()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if tc.wantErr == nil && tc.first != tc.stored {
				go func() { // an update, for the watch of the fake client does not begin with what there is
					for ctx.Err() == nil {
						again := &workflowsv1alpha1.WorkflowRun{}
						if c.Get(ctx, client.ObjectKeyFromObject(tc.stored), again) != nil || c.Update(ctx, again) != nil {
							return
						}
					}
				}()
			}
			if tc.wantErr != nil {
				go func() {
					for ctx.Err() == nil {
						other := tc.first.DeepCopy()
						other.UID, other.ResourceVersion = "2", ""
						_ = c.Create(ctx, other)
						_ = c.Delete(ctx, other)
					}
				}()
			}
			v := &View{Out: &bytes.Buffer{}, Talk: &bytes.Buffer{}, Now: func() time.Time { return noon }}
			got, err := v.Show(ctx, c, clock.RealClock{}, tc.first.DeepCopy())
			if diff := cmp.Diff(tc.wantErr, err); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if tc.wantErr == nil && got.Run.Status.Phase != workflowsv1alpha1.WorkflowFailed {
				t.Errorf("phase %s", got.Run.Status.Phase)
			}
		})
	}
}
