package runs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func micro(d time.Duration) *metav1.MicroTime {
	t := metav1.NewMicroTime(noon.Add(d))
	return &t
}

func TestDuration(t *testing.T) {
	cases := map[time.Duration]string{
		0: "0s", 999: "0µs", 1500: "1µs", 28 * time.Millisecond: "28ms", 999_999_999: "999ms", time.Second: "1s",
		4810 * time.Millisecond: "4.81s", 8290 * time.Millisecond: "8.29s", 8500 * time.Millisecond: "8.5s", 10 * time.Second: "10s",
		16_190 * time.Millisecond: "16.1s", 83 * time.Second: "1m23s", time.Hour: "1h", 5 * time.Minute: "5m", 26*time.Hour + 5*time.Minute: "1d02h",
	}
	for d, want := range cases {
		t.Run(want, func(t *testing.T) {
			if diff := cmp.Diff(want, Duration(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutcome(t *testing.T) {
	cases := map[string]struct {
		status corev1alpha1.RunStatus
		want   string
	}{
		"success": {want: "Run build Succeeded after 1.5s",
			status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunSucceeded, ExitCode: ptr.To[int32](0), StartTime: micro(0), CompletionTime: micro(1500 * time.Millisecond)}},
		"failure": {want: "Run build Failed after 1s (ScriptFailed, exit code 3)",
			status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonScriptFailed, ExitCode: ptr.To[int32](3), StartTime: micro(0), CompletionTime: micro(time.Second)}},
		"cancelled before it started": {want: "Run build Cancelled",
			status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, CompletionTime: micro(time.Second)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "build"}, Status: tc.status}
			if diff := cmp.Diff(tc.want, Outcome(run)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	cases := map[string]struct {
		status corev1alpha1.RunStatus
		want   int
	}{
		"success":                           {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunSucceeded, ExitCode: ptr.To[int32](0)}, want: 0},
		"the script's own code":             {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunFailed, ExitCode: ptr.To[int32](42)}, want: 42},
		"no code":                           {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunFailed}, want: 1},
		"a code that tells of no failure":   {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunFailed, ExitCode: ptr.To[int32](0)}, want: 1},
		"a code that a process cannot have": {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunFailed, ExitCode: ptr.To[int32](256)}, want: 1},
		"a timeout":                         {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunTimeout, ExitCode: ptr.To[int32](143)}, want: 124},
		"cancelled":                         {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunCancelled, ExitCode: ptr.To[int32](143)}, want: 130},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ExitCode(&corev1alpha1.Run{Status: tc.status}); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestUnsaid(t *testing.T) {
	failed := corev1alpha1.RunStatus{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonScriptFailed, ExitCode: ptr.To[int32](7), StartTime: micro(0)}
	cases := map[string]struct {
		status  corev1alpha1.RunStatus
		message string
		want    string
	}{
		"the lines that a script has printed":    {status: failed, message: "Exit code 7\nquoted\nlines"},
		"nothing but the exit code":              {status: failed, message: "Exit code 7"},
		"outputs that were dropped":              {status: failed, message: "Exit code 7. Its outputs were dropped: line 1\nquoted", want: "Its outputs were dropped: line 1"},
		"a script that failed before it started": {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonScriptFailed, ExitCode: ptr.To[int32](127)}, message: "Exit code 127: there is no\nx", want: "Exit code 127: there is no\nx"},
		"another failure":                        {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunTimeout, Reason: corev1alpha1.RunReasonTimeout, StartTime: micro(0)}, message: "Stopped after the timeout of 1s\n", want: "Stopped after the timeout of 1s"},
		"a message that repeats the phase":       {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled}, message: "Cancelled"},
		"success":                                {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunSucceeded}, message: "x"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &corev1alpha1.Run{Status: tc.status}
			run.Status.Message = tc.message
			if diff := cmp.Diff(tc.want, Unsaid(run)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
