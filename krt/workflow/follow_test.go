package workflow

import (
	"bytes"
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/stages"
	"kruntimes.io/kruntimes/krt/watch"
)

// play does to the WorkflowRun "ci" what a case says, at least twice a second until the test is over: the watch of a fake
// client does not begin with what there is.
func play(ctx context.Context, t *testing.T, c client.Client, story func(*workflowsv1alpha1.WorkflowRun)) {
	for ctx.Err() == nil {
		run := &workflowsv1alpha1.WorkflowRun{}
		if c.Get(ctx, client.ObjectKey{Namespace: "team", Name: "ci"}, run) == nil {
			story(run)
			if err := c.Update(ctx, run); err != nil && ctx.Err() == nil {
				t.Errorf("updating: %v", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func TestFollowingEnds(t *testing.T) {
	ends := func(phase workflowsv1alpha1.WorkflowPhase) func(*workflowsv1alpha1.WorkflowRun) {
		return func(run *workflowsv1alpha1.WorkflowRun) { run.Status.Phase = phase }
	}
	cancelled := func(run *workflowsv1alpha1.WorkflowRun) {
		if run.Spec.CancelRequested {
			run.Status.Phase = workflowsv1alpha1.WorkflowCancelled
		}
	}
	goesOn := func(*workflowsv1alpha1.WorkflowRun) {}
	cases := map[string]struct {
		story    func(*workflowsv1alpha1.WorkflowRun)
		signals  []os.Signal
		wantCode int
		wantTalk string
	}{
		"well":                       {story: ends(workflowsv1alpha1.WorkflowSucceeded), wantCode: cli.ExitOK},
		"badly":                      {story: ends(workflowsv1alpha1.WorkflowFailed), wantCode: cli.ExitFailed, wantTalk: "krt: WorkflowRun ci Failed\n"},
		"cancelled by somebody else": {story: ends(workflowsv1alpha1.WorkflowCancelled), wantCode: cli.ExitInterrupted, wantTalk: "krt: WorkflowRun ci Cancelled\n"},
		"after ctrl-C": {story: cancelled, signals: []os.Signal{os.Interrupt}, wantCode: cli.ExitInterrupted,
			wantTalk: "krt: cancelling the WorkflowRun; press ctrl-C again to leave at once\nkrt: WorkflowRun ci Cancelled\n"},
		"after SIGTERM": {story: cancelled, signals: []os.Signal{syscall.SIGTERM}, wantCode: 143,
			wantTalk: "krt: told to terminate: cancelling the WorkflowRun; a second signal leaves at once\nkrt: WorkflowRun ci Cancelled\n"},
		"at once after a second SIGTERM": {story: goesOn, signals: []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, wantCode: 143,
			wantTalk: "krt: told to terminate: cancelling the WorkflowRun; a second signal leaves at once\n" +
				"krt: left before the end of WorkflowRun ci, which is being cancelled\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer cancel()
				var out, talk bytes.Buffer
				f := &cli.Factory{IO: genericiooptions.IOStreams{Out: &out, ErrOut: &talk}, Name: "krt", Now: time.Now}
				_, f.Interrupts = cli.NewInterrupts(ctx)
				c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).Build()
				s := &Session{Factory: f, Client: c, View: watch.NewView(f, true), Clock: clock.RealClock{}, Quiet: true}
				go play(ctx, t, c, tc.story)
				go func() {
					for _, sig := range tc.signals {
						<-time.After(time.Second + stages.SameInterrupt)
						f.Interrupts.Notify(sig)
					}
				}()
				run := &workflowsv1alpha1.WorkflowRun{}
				run.Namespace, run.Name = "team", "ci"
				err := s.Do(ctx, run)
				if got := cli.ExitCode(err); got != tc.wantCode {
					t.Errorf("exit code %d, want %d: %v", got, tc.wantCode, err)
				}
				if diff := cmp.Diff(tc.wantTalk, talk.String()); diff != "" {
					t.Errorf("stderr (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// brokenPipe is an output that nobody reads any more.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
}

// Whoever reads the output leaves: the WorkflowRun must not go on unseen.
func TestAReaderWhoLeavesCancelsTheWorkflowRun(t *testing.T) {
	cases := map[string]struct {
		phase      workflowsv1alpha1.WorkflowPhase
		wantCode   int
		wantCancel bool
		wantTalk   string
	}{
		"while it is executed": {phase: workflowsv1alpha1.WorkflowRunning, wantCode: 141, wantCancel: true,
			wantTalk: "krt: nobody reads the output any more: WorkflowRun ci is being cancelled\n"},
		"when it has ended": {phase: workflowsv1alpha1.WorkflowFailed, wantCode: cli.ExitFailed, wantTalk: "krt: WorkflowRun ci Failed\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var talk bytes.Buffer
				f := &cli.Factory{IO: genericiooptions.IOStreams{Out: brokenPipe{}, ErrOut: &talk}, Name: "krt", Now: time.Now}
				_, f.Interrupts = cli.NewInterrupts(t.Context())
				c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).Build()
				s := &Session{Factory: f, Client: c, View: watch.NewView(f, true), Clock: clock.RealClock{}}
				s.View.Talk = &talk
				run := &workflowsv1alpha1.WorkflowRun{}
				run.Namespace, run.Name, run.Status.Phase = "team", "ci", tc.phase
				err := s.Do(t.Context(), run)
				if getErr := c.Get(t.Context(), client.ObjectKeyFromObject(run), run); getErr != nil {
					t.Fatal(getErr)
				}
				want := []any{tc.wantCode, tc.wantCancel, "krt: WorkflowRun ci created in namespace team\n" + tc.wantTalk}
				if diff := cmp.Diff(want, []any{cli.ExitCode(err), run.Spec.CancelRequested, talk.String()}); diff != "" {
					t.Errorf("exit code, cancelRequested, stderr (-want +got):\n%s", diff)
				}
			})
		})
	}
}
