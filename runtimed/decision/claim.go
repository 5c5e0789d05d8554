// Package decision holds what runtimed decides, as pure functions: whether a Run that is assigned to this Pod is
// executed, what the end of an execution means, and which status follows. Values in, values out.
package decision

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// ClaimKind is what is done with a Run that was found assigned to this Pod.
type ClaimKind string

const (
	// ClaimExecute means that the Run is executed.
	ClaimExecute ClaimKind = "Execute"
	// ClaimReattach means that the Run was started by an earlier runtimed, and that the runtime server may still know of
	// it. If it does not, the Run ends as the claim's Result says.
	ClaimReattach ClaimKind = "Reattach"
	// ClaimLost means that the Run was started by an earlier runtimed and that nobody can tell what became of it: it is
	// stopped if it still runs, and ends as the claim's Result says.
	ClaimLost ClaimKind = "Lost"
	// ClaimEnd means that the Run ends as the claim's Result says, without being executed.
	ClaimEnd ClaimKind = "End"
)

// Claim is the decision on a Run that was found assigned to this Pod.
type Claim struct {
	// Kind is what is done.
	Kind ClaimKind
	// Result is how the Run ends; zero for ClaimExecute.
	Result Result
}

// Found is what is known about a Run when it is found assigned to this Pod.
type Found struct {
	// Run is the Run.
	Run *corev1alpha1.Run
	// Marked tells that an earlier runtimed of this Pod recorded the start of this attempt.
	Marked bool
	// BootChanged tells that the node was started anew since an earlier runtimed, so that markers may be missing.
	BootChanged bool
	// First tells that the Run was found in the first list after the start of runtimed.
	First bool
	// Draining is the shutdown of the Pod; nil while there is none.
	Draining *Draining
	// Now is the present time.
	Now time.Time
}

// ForFound decides what to do with a Run that was found assigned to this Pod. An attempt that may have been started
// before is never started again.
func ForFound(f Found) Claim {
	switch {
	case f.Marked && !f.BootChanged:
		return Claim{Kind: ClaimReattach, Result: Lost()}
	case f.Marked, f.First && f.BootChanged, f.Run.Status.Phase == corev1alpha1.RunRunning:
		return Claim{Kind: ClaimLost, Result: Lost()}
	case StopAsked(f.Run) != StopNone:
		return Claim{Kind: ClaimEnd, Result: StoppedBeforeStart(StopAsked(f.Run))}
	}
	if f.Draining != nil && !f.Draining.takes(f.Run, f.Now) {
		return Claim{Kind: ClaimEnd, Result: StoppedBeforeStart(StopShutdown)}
	}
	return Claim{Kind: ClaimExecute}
}

// Lost is the result of an execution that an earlier runtimed started and whose end nobody saw.
func Lost() Result {
	return failed(corev1alpha1.RunReasonExecutionLost,
		"runtimed restarted during the execution, so how it ended is not known", nil)
}

// StopAsked tells whether the Run itself says that it must end.
func StopAsked(run *corev1alpha1.Run) StopCause {
	switch {
	case run.Spec.CancelRequested:
		return StopCancel
	case run.DeletionTimestamp != nil:
		return StopDeleted
	}
	return StopNone
}

// StoppedBeforeStart is the result of a Run whose end was asked for before its execution started.
func StoppedBeforeStart(cause StopCause) Result {
	switch cause {
	case StopShutdown:
		r := failed(corev1alpha1.RunReasonPodTerminated, "The Pod was shut down before the execution started", nil)
		r.Unstarted = true
		return r
	case StopDeleted:
		return cancelled("Deleted before the execution started", nil)
	case StopCancel, StopTimeout, StopNone:
	}
	return cancelled("Cancelled before the execution started", nil)
}

// Unserviceable is the result of a Run whose runtime server takes no further executions.
func Unserviceable(why string) Result {
	return failed(corev1alpha1.RunReasonServerLost, statuspatch.Bounded("The execution could not start: "+why, maxMessage), nil)
}

// StagingFailed is the result of a Run whose files could not be laid out.
func StagingFailed(err error) Result {
	return failed(corev1alpha1.RunReasonStagingFailed, statuspatch.Bounded(err.Error(), maxMessage), nil)
}

// WorkspaceUnavailable is the result of a Run that was assigned to this Pod for a workspace which cannot be used here; w is
// what it has become, nil when it does not exist. The scheduler, to which the Run is handed back, knows what to do.
func WorkspaceUnavailable(name string, w *workspacesv1alpha1.PersistentWorkspace) Result {
	why := "is not bound to this Pod"
	switch {
	case w == nil:
		why = "does not exist any more"
	case w.IsReleased():
		why = "is being deleted"
	case w.Status.Phase == workspacesv1alpha1.WorkspaceLost:
		why = "is lost"
	}
	r := failed(corev1alpha1.RunReasonWorkspaceUnavailable, fmt.Sprintf("PersistentWorkspace %q %s", name, why), nil)
	r.Unstarted = true
	return r
}

// SourceFailed is the result of a Run whose source could not be fetched, or does not hold what it is to run.
func SourceFailed(err error) Result {
	return failed(corev1alpha1.RunReasonSourceFailed, statuspatch.Bounded(capitalized(err.Error()), maxMessage), nil)
}

// capitalized makes a sentence of an error.
func capitalized(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// Timeout returns the bound of one attempt; 0 when it has none.
func Timeout(spec *corev1alpha1.RunSpec) time.Duration {
	if spec.Timeout == nil {
		return 0
	}
	return spec.Timeout.Duration
}
