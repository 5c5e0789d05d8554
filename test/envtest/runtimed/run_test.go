package runtimed

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// outcome is what a user sees of a Run's end.
type outcome struct {
	Phase    corev1alpha1.RunPhase
	Reason   corev1alpha1.RunReason
	Message  string
	ExitCode *int32
	Outputs  map[string]corev1alpha1.OutputValue
}

func outcomeOf(run *corev1alpha1.Run) outcome {
	s := run.Status
	return outcome{Phase: s.Phase, Reason: s.Reason, Message: s.Message, ExitCode: s.ExitCode, Outputs: s.Outputs}
}

func succeeded(outputs map[string]corev1alpha1.OutputValue) outcome {
	return outcome{Phase: corev1alpha1.RunSucceeded, ExitCode: ptr.To[int32](0), Outputs: outputs}
}

func failed(reason corev1alpha1.RunReason, code int32, message string) outcome {
	return outcome{Phase: corev1alpha1.RunFailed, Reason: reason, ExitCode: ptr.To(code), Message: message}
}

func TestRun(t *testing.T) {
	n := startNode(t)
	withEnv := script(`printf 'a=%s\nattempt=%s\nname=%s\n' "$A" "$KRUNTIME_ATTEMPT" "$KRUNTIME_RUN_NAME" >>"$KRUNTIME_OUTPUTS"`)
	withEnv.Env = []corev1alpha1.EnvVar{{Name: "A", Value: " $HOME `x` ü"}}
	withArgs := script(`echo "n=$#" >>"$KRUNTIME_OUTPUTS"; echo "second=$2" >>"$KRUNTIME_OUTPUTS"`)
	withArgs.Mode.Task = &corev1alpha1.TaskMode{Args: []string{"a", "b  c"}}
	withTimeout := script(`sleep 60`)
	withTimeout.Timeout = &metav1.Duration{Duration: 200 * time.Millisecond}
	git := corev1alpha1.RunSpec{
		Source: &corev1alpha1.RunSource{Git: &corev1alpha1.GitSource{URL: "ssh://git@example.com/a.git"}},
		Mode:   corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Entrypoint: "run.sh"}},
	}

	cases := map[string]struct {
		spec corev1alpha1.RunSpec
		want outcome
	}{
		"succeeds":                 {spec: script("true"), want: succeeded(nil)},
		"a command":                {spec: args("/bin/sh", "-c", `echo a=b >>"$KRUNTIME_OUTPUTS"`), want: succeeded(map[string]corev1alpha1.OutputValue{"a": "b"})},
		"environment":              {spec: withEnv, want: succeeded(map[string]corev1alpha1.OutputValue{"a": " $HOME `x` ü", "attempt": "1", "name": "environment"})},
		"arguments":                {spec: withArgs, want: succeeded(map[string]corev1alpha1.OutputValue{"n": "2", "second": "b  c"})},
		"private directories":      {spec: script(`test "$PWD" = "$KRUNTIME_WORKSPACE"; touch "$HOME/x" "$TMPDIR/x" "$KRUNTIME_ARTIFACTS_DIR/x" x; rm "$KRUNTIME_ARTIFACTS_DIR/x"`), want: succeeded(nil)},
		"output of several lines":  {spec: script("printf 'a<<E\\n1\\n\\n 2\\nE\\n' >>\"$KRUNTIME_OUTPUTS\""), want: succeeded(map[string]corev1alpha1.OutputValue{"a": "1\n\n 2"})},
		"fails":                    {spec: script("echo out; echo one >&2; echo two >&2; exit 3"), want: failed(corev1alpha1.RunReasonScriptFailed, 3, "Exit code 3\none\ntwo")},
		"killed":                   {spec: script("kill -9 $$"), want: failed(corev1alpha1.RunReasonScriptFailed, 137, "Exit code 137")},
		"no such command":          {spec: args("no-such-command"), want: failed(corev1alpha1.RunReasonScriptFailed, 127, `Exit code 127: the command "no-such-command" does not exist in the Runtime's image, or cannot be executed`)},
		"an invalid line":          {spec: script("printf 'a=b\\nhello\\n' >>\"$KRUNTIME_OUTPUTS\""), want: failed(corev1alpha1.RunReasonOutputsInvalid, 0, `line 2 of the outputs file: neither key=value nor key<<DELIMITER: "hello"`)},
		"outputs are a link":       {spec: script(`ln -sf /etc/passwd "$KRUNTIME_OUTPUTS"`), want: failed(corev1alpha1.RunReasonOutputsInvalid, 0, "the outputs file is a symbolic link, not a regular file")},
		"outputs are a pipe":       {spec: script(`rm "$KRUNTIME_OUTPUTS"; mkfifo "$KRUNTIME_OUTPUTS"`), want: failed(corev1alpha1.RunReasonOutputsInvalid, 0, "the outputs file is a named pipe, not a regular file")},
		"outputs of 100 MiB":       {spec: script(`head -c 104857600 /dev/zero >"$KRUNTIME_OUTPUTS"`), want: failed(corev1alpha1.RunReasonOutputsTooLarge, 0, "the outputs file holds 104857600 bytes, more than 1048576")},
		"removes its directory":    {spec: script(`rm -rf "$(dirname "$KRUNTIME_OUTPUTS")"`), want: failed(corev1alpha1.RunReasonOutputsInvalid, 0, "the outputs file is gone: the script removed or moved it")},
		"locks its directory":      {spec: script(`mkdir -p a/b; chmod 0 a/b a "$HOME"; cd /; chmod 0 "$KRUNTIME_WORKSPACE"`), want: succeeded(nil)},
		"a git source behind ssh":  {spec: git, want: outcome{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonSourceFailed, Message: "Could not use ssh://git@example.com/a.git: ssh needs a key, and credentials are not supported in this version: use the https URL of a public repository"}},
		"outputs of a failed one":  {spec: script("echo a=b >>\"$KRUNTIME_OUTPUTS\"; exit 1"), want: outcome{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonScriptFailed, ExitCode: ptr.To[int32](1), Message: "Exit code 1", Outputs: map[string]corev1alpha1.OutputValue{"a": "b"}}},
		"bad outputs and failed":   {spec: script("echo a >>\"$KRUNTIME_OUTPUTS\"; exit 1"), want: failed(corev1alpha1.RunReasonScriptFailed, 1, `Exit code 1. Its outputs were dropped: line 1 of the outputs file: neither key=value nor key<<DELIMITER: "a"`)},
		"stopped after a timeout":  {spec: withTimeout, want: outcome{Phase: corev1alpha1.RunTimeout, Reason: corev1alpha1.RunReasonTimeout, ExitCode: ptr.To[int32](143), Message: "Stopped after the timeout of 200ms"}},
		"an output of 4 KiB":       {spec: script("v=$(head -c 4096 /dev/zero | tr '\\0' v); echo a=$v >>\"$KRUNTIME_OUTPUTS\""), want: succeeded(map[string]corev1alpha1.OutputValue{"a": corev1alpha1.OutputValue(strings.Repeat("v", 4096))})},
		"an output of 4 KiB and 1": {spec: script("v=$(head -c 4097 /dev/zero | tr '\\0' v); echo a=$v >>\"$KRUNTIME_OUTPUTS\""), want: failed(corev1alpha1.RunReasonOutputsTooLarge, 0, "line 1 of the outputs file: the value of a has 4097 bytes, more than 4096")},
	}
	t.Run("all", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run := awaitEnd(t, n.submit(t, strings.ReplaceAll(strings.ToLower(name), " ", "-"), tc.spec))
				if diff := cmp.Diff(tc.want, outcomeOf(run)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				checkTimes(t, run)
				checkCondition(t, run)
				records := n.records(t, run)
				if len(records) == 0 || !records[len(records)-1].End {
					t.Errorf("the log does not end: %+v", records)
				}
			})
		}
	})
	n.awaitClean(t)
}

// checkTimes expects the times of a Run in their order.
func checkTimes(t *testing.T, run *corev1alpha1.Run) {
	t.Helper()
	s := run.Status
	if s.CompletionTime == nil || s.CompletionTime.Before(s.ScheduledTime) {
		t.Errorf("completionTime %v is not after scheduledTime %v", s.CompletionTime, s.ScheduledTime)
	}
	ran := s.ExitCode != nil && *s.ExitCode != 127
	if ran && (s.StartTime == nil || s.StartTime.Before(s.ScheduledTime) || s.CompletionTime.Before(s.StartTime)) {
		t.Errorf("startTime %v is not between %v and %v", s.StartTime, s.ScheduledTime, s.CompletionTime)
	}
}

// checkCondition expects the condition Succeeded to say what the phase says.
func checkCondition(t *testing.T, run *corev1alpha1.Run) {
	t.Helper()
	want := metav1.ConditionFalse
	if run.Status.Phase == corev1alpha1.RunSucceeded {
		want = metav1.ConditionTrue
	}
	for _, c := range run.Status.Conditions {
		if c.Type == corev1alpha1.RunConditionSucceeded {
			if c.Status != want || c.ObservedGeneration != run.Generation {
				t.Errorf("want condition %s for generation %d, got %+v", want, run.Generation, c)
			}
			return
		}
	}
	t.Errorf("no condition %s: %+v", corev1alpha1.RunConditionSucceeded, run.Status.Conditions)
}
