package decision

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
	"kruntimes.io/kruntimes/statuspatch"
)

func exit(cause runtimev1.ExitCause, code int32) *runtimev1.Exited {
	return &runtimev1.Exited{Cause: cause, ExitCode: code}
}

func TestForEnding(t *testing.T) {
	const (
		exited     = runtimev1.ExitCause_EXIT_CAUSE_EXITED
		stopped    = runtimev1.ExitCause_EXIT_CAUSE_STOPPED
		unkillable = runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE
		lost       = runtimev1.ExitCause_EXIT_CAUSE_SUPERVISOR_LOST
	)
	ok := Result{Phase: corev1alpha1.RunSucceeded, ExitCode: ptr.To[int32](0)}
	scriptFailed := Result{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonScriptFailed, Message: "Exit code 2", ExitCode: ptr.To[int32](2)}
	cancelledWith := func(code *int32) Result {
		return Result{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, Message: "Cancelled", ExitCode: code}
	}
	fails := func(reason corev1alpha1.RunReason, message string, code *int32) Result {
		return Result{Phase: corev1alpha1.RunFailed, Reason: reason, Message: message, ExitCode: code}
	}
	withOutputs := ok
	withOutputs.Outputs = map[string]string{"a": "b"}
	failedWithOutputs := scriptFailed
	failedWithOutputs.Outputs = map[string]string{"a": "b"}
	cases := map[string]struct {
		ending Ending
		want   Result
	}{
		"success":                          {Ending{Exited: exit(exited, 0)}, ok},
		"success with outputs":             {Ending{Exited: exit(exited, 0), Outputs: map[string]string{"a": "b"}}, withOutputs},
		"success before a cancel":          {Ending{Exited: exit(exited, 0), Stop: StopCancel}, ok},
		"success before a timeout":         {Ending{Exited: exit(exited, 0), Stop: StopTimeout}, ok},
		"success before the Pod's end":     {Ending{Exited: exit(exited, 0), Stop: StopShutdown}, ok},
		"failure":                          {Ending{Exited: exit(exited, 2)}, scriptFailed},
		"failure before a cancel":          {Ending{Exited: exit(exited, 2), Stop: StopCancel}, scriptFailed},
		"failure with outputs":             {Ending{Exited: exit(exited, 2), Outputs: map[string]string{"a": "b"}}, failedWithOutputs},
		"failure with words":               {Ending{Exited: exit(exited, 2), StderrTail: "no\nway"}, fails(corev1alpha1.RunReasonScriptFailed, "Exit code 2\nno\nway", ptr.To[int32](2))},
		"failure with bad outputs":         {Ending{Exited: exit(exited, 2), StderrTail: "no", OutputsError: &OutputsError{Message: "bad"}}, fails(corev1alpha1.RunReasonScriptFailed, "Exit code 2. Its outputs were dropped: bad\nno", ptr.To[int32](2))},
		"bad outputs":                      {Ending{Exited: exit(exited, 0), OutputsError: &OutputsError{Message: "bad"}}, fails(corev1alpha1.RunReasonOutputsInvalid, "bad", ptr.To[int32](0))},
		"large outputs":                    {Ending{Exited: exit(exited, 0), OutputsError: &OutputsError{TooLarge: true, Message: "big"}}, fails(corev1alpha1.RunReasonOutputsTooLarge, "big", ptr.To[int32](0))},
		"cancelled":                        {Ending{Exited: exit(stopped, 143), Stop: StopCancel}, cancelledWith(ptr.To[int32](143))},
		"cancelled, exit code 0":           {Ending{Exited: exit(stopped, 0), Stop: StopCancel}, cancelledWith(ptr.To[int32](0))},
		"timed out":                        {Ending{Exited: exit(stopped, 137), Stop: StopTimeout, Timeout: 90 * time.Second}, Result{Phase: corev1alpha1.RunTimeout, Reason: corev1alpha1.RunReasonTimeout, Message: "Stopped after the timeout of 1m30s", ExitCode: ptr.To[int32](137)}},
		"the Pod ended":                    {Ending{Exited: exit(stopped, 143), Stop: StopShutdown}, fails(corev1alpha1.RunReasonPodTerminated, "The Pod was shut down before the execution ended", ptr.To[int32](143))},
		"deleted":                          {Ending{Exited: exit(stopped, 143), Stop: StopDeleted}, Result{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, Message: "The Run was deleted during the execution", ExitCode: ptr.To[int32](143)}},
		"stopped, but not by us":           {Ending{Exited: exit(stopped, 143)}, fails(corev1alpha1.RunReasonExecutionLost, "The runtime server stopped the execution unasked", ptr.To[int32](143))},
		"out of memory":                    {Ending{Exited: exit(runtimev1.ExitCause_EXIT_CAUSE_OOM_KILLED, 137)}, fails(corev1alpha1.RunReasonOOMKilled, "The kernel killed the execution for its memory use", ptr.To[int32](137))},
		"no interpreter":                   {Ending{Exited: exit(runtimev1.ExitCause_EXIT_CAUSE_COMMAND_NOT_FOUND, 0), Scripted: true, Command: "ruby"}, fails(corev1alpha1.RunReasonInterpreterNotFound, `The interpreter "ruby" does not exist in the Runtime's image, or cannot be executed`, nil)},
		"no command":                       {Ending{Exited: exit(runtimev1.ExitCause_EXIT_CAUSE_COMMAND_NOT_FOUND, 0), Command: "x"}, fails(corev1alpha1.RunReasonScriptFailed, `Exit code 127: the command "x" does not exist in the Runtime's image, or cannot be executed`, ptr.To[int32](127))},
		"not started":                      {Ending{Exited: &runtimev1.Exited{Cause: runtimev1.ExitCause_EXIT_CAUSE_START_FAILED, Message: "no memory"}}, fails(corev1alpha1.RunReasonStagingFailed, "The process could not be started: no memory", nil)},
		"supervisor lost":                  {Ending{Exited: exit(lost, 0)}, fails(corev1alpha1.RunReasonExecutionLost, "The supervisor of the execution died, so how the execution ended is not known", nil)},
		"supervisor lost during a cancel":  {Ending{Exited: exit(lost, 0), Stop: StopCancel}, cancelledWith(nil)},
		"unkillable rest after success":    {Ending{Exited: exit(unkillable, 0)}, ok},
		"unkillable rest after a cancel":   {Ending{Exited: exit(unkillable, 137), Stop: StopCancel}, cancelledWith(ptr.To[int32](137))},
		"an unknown cause":                 {Ending{Exited: exit(99, 0)}, fails(corev1alpha1.RunReasonExecutionLost, "The supervisor of the execution died, so how the execution ended is not known", nil)},
		"server lost":                      {Ending{}, fails(corev1alpha1.RunReasonServerLost, "The runtime server, and with it the execution, was lost", nil)},
		"no end reported after a cancel":   {Ending{Stop: StopCancel}, cancelledWith(nil)},
		"a failure's words are not quoted": {Ending{Exited: exit(stopped, 143), Stop: StopCancel, StderrTail: "bye"}, cancelledWith(ptr.To[int32](143))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ForEnding(tc.ending)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestEveryEndingCanBeWritten tries all combinations: the state machine and the schema must allow the status.
func TestEveryEndingCanBeWritten(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	for cause := range runtimev1.ExitCause_name {
		for _, stop := range []StopCause{StopNone, StopCancel, StopDeleted, StopTimeout, StopShutdown} {
			ending := Ending{Exited: &runtimev1.Exited{Cause: runtimev1.ExitCause(cause), ExitCode: 1, Message: long},
				Stop: stop, StderrTail: Tail([]byte(long)), OutputsError: &OutputsError{Message: long}}
			for _, run := range []*corev1alpha1.Run{scheduled(), scheduled(isRunning)} {
				after := TerminalStatus(run, Final(ForEnding(ending), run), time.Unix(1, 0), time.Unix(2, 0))
				if _, err := statuspatch.ForRun(corev1alpha1.WriterRuntimed, run, after); err != nil {
					t.Errorf("%v, stop %q: %v", cause, stop, err)
				}
				if s := after.Status; !s.Phase.IsTerminal() || s.Reason == "" || len(s.Message) > maxMessage || !utf8.ValidString(s.Message) {
					t.Errorf("%v, stop %q: phase %s, reason %q, message of %d bytes", cause, stop, s.Phase, s.Reason, len(s.Message))
				}
			}
		}
	}
}

func TestTerminalStatus(t *testing.T) {
	start, end := time.Unix(100, 123456789), time.Unix(200, 1999)
	run := scheduled(func(r *corev1alpha1.Run) {
		r.Status.Conditions = []metav1.Condition{{Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionTrue}}
	})
	before := run.DeepCopy()
	got := TerminalStatus(run, Result{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonScriptFailed,
		Message: "Exit code 1\nmore", ExitCode: ptr.To[int32](1), Outputs: map[string]string{"a": "b"}}, start, end)
	want := before.DeepCopy()
	want.Status = corev1alpha1.RunStatus{
		Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonScriptFailed, Message: "Exit code 1\nmore",
		ExitCode: ptr.To[int32](1), Outputs: map[string]corev1alpha1.OutputValue{"a": "b"}, ObservedGeneration: 3,
		AssignedPod: "p", AssignedPodUID: "pu", Attempt: 2,
		StartTime:      ptr.To(metav1.NewMicroTime(time.Unix(100, 123456000))),
		CompletionTime: ptr.To(metav1.NewMicroTime(time.Unix(200, 1000))),
		Conditions: []metav1.Condition{
			{Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionTrue},
			{Type: corev1alpha1.RunConditionSucceeded, Status: metav1.ConditionFalse, Reason: "ScriptFailed", Message: "Exit code 1",
				ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(end)},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, run); diff != "" {
		t.Errorf("the argument was changed:\n%s", diff)
	}
}

func TestTail(t *testing.T) {
	cases := map[string]struct{ stderr, want string }{
		"nothing":                {"", ""},
		"blanks at the end":      {"a\n\n \r\n", "a"},
		"the last ten lines":     {"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10"},
		"invalid UTF-8":          {"a\xffb", "a\uFFFDb"},
		"a long line":            {strings.Repeat("x", MaxTail+5), strings.Repeat("x", MaxTail)},
		"never half a character": {strings.Repeat("x", 3) + strings.Repeat("é", MaxTail/2) + "y", strings.Repeat("é", MaxTail/2-1) + "y"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Tail([]byte(tc.stderr))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
