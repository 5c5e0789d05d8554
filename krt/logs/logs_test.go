package logs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/follow"
	"kruntimes.io/kruntimes/runtimed/logrecord"
)

func TestParsing(t *testing.T) {
	type parsed struct {
		Name               string
		Follow, Timestamps bool
		Tail               *int
		Since              time.Duration
	}
	cases := map[string]struct {
		args    []string
		want    parsed
		wantErr string
	}{
		"a name":              {args: []string{"build"}, want: parsed{Name: "build"}},
		"a name after a kind": {args: []string{"run", "build", "-f", "--timestamps"}, want: parsed{Name: "build", Follow: true, Timestamps: true}},
		"bounds":              {args: []string{"run/build", "--tail", "0", "--since", "5m"}, want: parsed{Name: "build", Tail: ptr.To(0), Since: 5 * time.Minute}},
		"all lines":           {args: []string{"build", "--tail=-1"}, want: parsed{Name: "build"}},
		"no name":             {wantErr: "which Run or WorkflowRun?"},
		"two names":           {args: []string{"a", "b"}, wantErr: "one Run at a time, but there are 2 names"},
		"a tail of words":     {args: []string{"a", "--tail", "some"}, wantErr: "--tail some: must be a number of lines, or all"},
		"a time to come":      {args: []string{"a", "--since", "-1s"}, wantErr: `invalid argument "-1s" for "--since" flag: must not be negative`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got parsed
			cmd := NewCmd(&cli.Factory{}, func(_ context.Context, o *options) error {
				got = parsed{Name: o.name, Follow: o.follow, Timestamps: o.timestamps, Tail: o.tail, Since: o.since}
				return nil
			})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append([]string{}, tc.args...)) // nil would mean those of the test binary
			gotErr := ""
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, gotErr); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// records is the log of a Pod that holds a line of the Run and, if it has ended, its end.
func records(t *testing.T, ended bool) []byte {
	t.Helper()
	var buf bytes.Buffer
	line := logrecord.Record{Time: time.Now(), UID: "run-uid", Attempt: 1, Stream: logrecord.Stdout}.WithBytes([]byte("hello"))
	if err := line.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	if ended {
		if err := (logrecord.Record{Time: time.Now(), UID: "run-uid", Attempt: 1, End: true}).Encode(&buf); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

func TestShow(t *testing.T) {
	on := func(pod string, phase corev1alpha1.RunPhase) corev1alpha1.RunStatus {
		return corev1alpha1.RunStatus{Phase: phase, AssignedPod: pod, AssignedPodUID: "pod-uid", Attempt: 1}
	}
	cases := map[string]struct {
		status corev1alpha1.RunStatus
		ended  bool
		// ofRuntime tells that the Pod is one of the Run's Runtime.
		ofRuntime bool
		want      string
		wantTalk  string
		wantErr   string
		wantHint  string
	}{
		"a Run that executes":  {status: on("pod", corev1alpha1.RunRunning), want: "hello\n"},
		"a Run that has ended": {status: on("pod", corev1alpha1.RunSucceeded), ended: true, want: "hello\n"},
		"an end that is missing": {status: on("pod", corev1alpha1.RunFailed), want: "hello\n",
			wantTalk: "krt: warning: the log of Pod pod does not hold the end of the output, some of which may be missing\n"},
		"a Pod that is gone": {status: on("gone", corev1alpha1.RunSucceeded), wantErr: "Pod gone no longer exists, and its output is gone with it",
			wantHint: "`krt describe run build -n team` shows what the Run left in its status"},
		"a Run that waits": {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Conditions: []metav1.Condition{{Type: corev1alpha1.RunConditionScheduled,
			Status: metav1.ConditionFalse, Reason: corev1alpha1.ReasonNoPods, Message: "Runtime bash is scaled to 0"}}},
			wantErr: "the Run build has no output yet; it waits: Runtime bash is scaled to 0 (NoPods)", wantHint: "`krt logs build -f -n team` waits for it"},
		"a Run between two attempts": {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Attempt: 2, Reason: corev1alpha1.RunReasonScriptFailed, Message: "Exit code 1",
			Conditions: []metav1.Condition{{Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionFalse, Reason: corev1alpha1.ReasonBackoff, Message: "attempt 2 is not tried before noon"}}},
			wantErr:  "attempt 2 of the Run build has no output yet; it waits: attempt 2 is not tried before noon (Backoff); attempt 1 ended: ScriptFailed, Exit code 1",
			wantHint: "`krt logs build -f -n team` waits for it"},
		"a Run between two attempts, the first of which is found": {ofRuntime: true, ended: true, status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Attempt: 2, Reason: corev1alpha1.RunReasonScriptFailed, Message: "Exit code 1",
			Conditions: []metav1.Condition{{Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionFalse, Reason: corev1alpha1.ReasonBackoff, Message: "attempt 2 is not tried before noon"}}},
			want: "hello\n", wantTalk: "krt: attempt 1 ended: ScriptFailed, Exit code 1; attempt 2 waits: attempt 2 is not tried before noon (Backoff)\n"},
		"the same, whose end is not in the log": {ofRuntime: true, status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Attempt: 2, Reason: corev1alpha1.RunReasonExecutionLost,
			Conditions: []metav1.Condition{{Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionFalse, Reason: corev1alpha1.ReasonNoPods, Message: "none"}}},
			want: "hello\n", wantTalk: "krt: attempt 1 ended: ExecutionLost; attempt 2 waits: none (NoPods)\n"},
		"a Run between two attempts, of which another one is found": {ofRuntime: true, ended: true, status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunCancelled, Attempt: 3},
			wantErr: "the last attempt of the Run build has no output: the Run ended (Cancelled) before attempt 3 got a Pod"},
		"a Run that was cancelled between two attempts, the first of which is found": {ofRuntime: true, ended: true, status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunCancelled, Attempt: 2},
			want: "hello\n", wantTalk: "krt: this was attempt 1; the Run ended (Cancelled) before attempt 2 got a Pod\n"},
		"a Run that was cancelled between two attempts": {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunCancelled, Attempt: 2},
			wantErr: "the last attempt of the Run build has no output: the Run ended (Cancelled) before attempt 2 got a Pod"},
		"a Run that never had a Pod": {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunCancelled}, wantErr: "the Run build has no output: it ended (Cancelled) before it got a Pod"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "team", UID: "pod-uid"}}
			if tc.ofRuntime {
				pod.Labels = map[string]string{corev1alpha1.LabelRuntime: corev1alpha1.RuntimeLabelValue("bash")}
			}
			log := records(t, tc.ended)
			f := &cli.Factory{IO: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, Name: "krt"}
			err := show(t.Context(), &options{factory: f}, follow.Options{
				Client: fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(pod).Build(), Clock: clock.RealClock{},
				Sink: &follow.Sink{Out: &out, Err: &errOut},
				Run: &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "build", Namespace: "team", UID: "run-uid"},
					Spec: corev1alpha1.RunSpec{Runtime: "bash"}, Status: tc.status},
				Logs: func(context.Context, string, string, *corev1.PodLogOptions) (io.ReadCloser, error) {
					return io.NopCloser(bytes.NewReader(log)), nil
				},
			})
			var hint *cli.HintError
			gotErr, gotHint := "", ""
			if err != nil {
				gotErr = err.Error()
			}
			if errors.As(err, &hint) {
				gotHint = hint.Hint
			}
			want := []string{tc.want, tc.wantTalk, tc.wantErr, tc.wantHint}
			if diff := cmp.Diff(want, []string{out.String(), errOut.String(), gotErr, gotHint}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
