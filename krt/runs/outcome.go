package runs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// ExitCode returns the exit code with which a follower of a finished Run ends: the script's own, where it has one that
// tells of the failure; 124 for a timeout and 130 for a cancelled Run, as a shell user expects; else 1.
func ExitCode(run *corev1alpha1.Run) int {
	switch run.Status.Phase {
	case corev1alpha1.RunSucceeded:
		return cli.ExitOK
	case corev1alpha1.RunTimeout:
		return cli.ExitTimeout
	case corev1alpha1.RunCancelled:
		return cli.ExitInterrupted
	}
	if code := run.Status.ExitCode; code != nil && *code > 0 && *code < 256 {
		return int(*code)
	}
	return cli.ExitFailed
}

// Outcome puts into one line how a finished Run ended.
func Outcome(run *corev1alpha1.Run) string { return "Run " + run.Name + " " + Ending(run) }

// Ending is Outcome without the name of the Run.
func Ending(run *corev1alpha1.Run) string {
	status := run.Status
	text := string(status.Phase)
	if d, ok := Execution(run, time.Time{}); ok {
		text += " after " + Duration(d)
	}
	var details []string
	if status.Phase != corev1alpha1.RunSucceeded && status.Reason != "" && string(status.Reason) != string(status.Phase) {
		details = append(details, string(status.Reason))
	}
	if status.ExitCode != nil && *status.ExitCode != 0 {
		details = append(details, fmt.Sprintf("exit code %d", *status.ExitCode))
	}
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	return text
}

// Execution returns how long the last attempt has executed, up to now when it still does. It returns false when there
// is nothing to measure.
func Execution(run *corev1alpha1.Run, now time.Time) (time.Duration, bool) {
	start, end := run.Status.StartTime, now
	if start == nil || run.Status.Phase == corev1alpha1.RunPending {
		return 0, false
	}
	if run.Status.CompletionTime != nil {
		end = run.Status.CompletionTime.Time
	}
	if end.IsZero() {
		return 0, false
	}
	return max(end.Sub(start.Time), 0), true
}

// Waited says how long the Run waited, or has been waiting, for the Pod of its present attempt. A creation time has whole
// seconds, and so has the answer. It is empty for a further attempt: a Run does not tell when it began to wait for it.
func Waited(run *corev1alpha1.Run, now time.Time) string {
	if run.CurrentAttempt() > 1 {
		return ""
	}
	end := now
	if run.Status.ScheduledTime != nil {
		end = run.Status.ScheduledTime.Time
	} else if run.Status.CompletionTime != nil {
		end = run.Status.CompletionTime.Time
	}
	wait := end.Sub(run.CreationTimestamp.Time)
	if wait < time.Second {
		return "<1s"
	}
	return Duration(wait.Truncate(time.Second))
}

// Duration writes a duration for people: three digits matter, and small ones more than large ones.
func Duration(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return seconds(d.Truncate(10*time.Millisecond), 2)
	case d < time.Minute:
		return seconds(d.Truncate(100*time.Millisecond), 1)
	case d < time.Hour:
		return twoUnits(int(d.Minutes()), "m", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return twoUnits(int(d.Hours()), "h", int(d.Minutes())%60, "m")
	default:
		return twoUnits(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
	}
}

// twoUnits leaves a second unit out when there is nothing of it.
func twoUnits(large int, largeUnit string, small int, smallUnit string) string {
	if small == 0 {
		return fmt.Sprint(large) + largeUnit
	}
	return fmt.Sprintf("%d%s%02d%s", large, largeUnit, small, smallUnit)
}

// seconds writes a duration without the zeros that say nothing.
func seconds(d time.Duration, digits int) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(d.Seconds(), 'f', digits, 64), "0"), ".") + "s"
}

// Attempt says which attempt the Run is at, and how many it has: "2 of 3". It is empty before the first.
func Attempt(run *corev1alpha1.Run) string {
	switch {
	case run.Status.Attempt == 0:
		return ""
	case run.Spec.RetryPolicy == nil:
		return strconv.Itoa(int(run.Status.Attempt))
	}
	return fmt.Sprintf("%d of %d", run.Status.Attempt, run.Spec.RetryPolicy.Attempts())
}

// LastAttempt says how the attempt before the present one ended, while that is known: until the present one has ended.
func LastAttempt(run *corev1alpha1.Run) string {
	status := run.Status
	if status.Phase.IsTerminal() || status.Attempt < 2 || status.Reason == "" {
		return ""
	}
	text := fmt.Sprintf("%d ended: %s", status.Attempt-1, status.Reason)
	if status.Message != "" {
		text += ", " + status.Message
	}
	return text
}

// Reason returns the one word that says why the Run is where it is: the terminal reason, or what it waits for. Why the
// attempt before the present one ended is none.
func Reason(run *corev1alpha1.Run) string {
	switch {
	case run.Status.Phase.IsTerminal():
		return string(run.Status.Reason)
	case run.Spec.CancelRequested:
		return "Cancelling"
	}
	if c := waitingFor(run); c != nil {
		return c.Reason
	}
	return ""
}

// Message returns the sentence that belongs to Reason.
func Message(run *corev1alpha1.Run) string {
	if c := waitingFor(run); c != nil {
		return c.Message
	}
	if last := LastAttempt(run); last != "" {
		return "attempt " + last
	}
	return run.Status.Message
}

// Unsaid returns what the message of a finished Run says beyond Outcome and beyond what the output of the Run has shown:
// of the message about a script that failed not the exit code, and not the lines of standard error that it quotes.
func Unsaid(run *corev1alpha1.Run) string {
	status := run.Status
	message := strings.TrimSpace(status.Message)
	switch {
	case status.Phase == corev1alpha1.RunSucceeded || message == string(status.Phase):
		return ""
	case status.Reason != corev1alpha1.RunReasonScriptFailed || status.StartTime == nil: // nothing quoted: what never started printed nothing
		return message
	}
	first, _, _ := strings.Cut(message, "\n")
	if status.ExitCode != nil {
		first = strings.TrimPrefix(first, fmt.Sprintf("Exit code %d", *status.ExitCode))
	}
	return strings.TrimLeft(first, ".: ")
}

// waitingFor returns the condition that says what a Pending Run waits for, or nil.
func waitingFor(run *corev1alpha1.Run) *metav1.Condition {
	c := meta.FindStatusCondition(run.Status.Conditions, corev1alpha1.RunConditionScheduled)
	if c == nil || c.Status != metav1.ConditionFalse || run.Status.Phase != corev1alpha1.RunPending {
		return nil
	}
	return c
}
