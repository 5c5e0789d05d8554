package decision

import (
	"fmt"
	"time"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
	"kruntimes.io/kruntimes/statuspatch"
)

// StopCause is why runtimed asked for the end of an execution.
type StopCause string

const (
	// StopNone means that it did not ask.
	StopNone StopCause = ""
	// StopCancel means that spec.cancelRequested was set.
	StopCancel StopCause = "Cancel"
	// StopDeleted means that the Run is being deleted.
	StopDeleted StopCause = "Deleted"
	// StopTimeout means that spec.timeout passed.
	StopTimeout StopCause = "Timeout"
	// StopShutdown means that the Pod is shut down.
	StopShutdown StopCause = "Shutdown"
)

// exitOOMKilled is the exit code of a process that SIGKILL ended, as the kernel's OOM killer does.
const exitOOMKilled = 137

// exitNotFound is the exit code by which shells report a command that does not exist.
const exitNotFound = 127

// Ending is all that is known when an execution has ended.
type Ending struct {
	// Exited is what the runtime server reported; nil when it was lost, or did not report in time after a stop.
	Exited *runtimev1.Exited
	// Stop is why the end was asked for first.
	Stop StopCause
	// Timeout is the bound of the attempt, for the message.
	Timeout time.Duration
	// Command is argv[0].
	Command string
	// Scripted tells that Command is the Runtime's interpreter and not the user's own choice.
	Scripted bool
	// StderrTail holds the last lines of standard error.
	StderrTail string
	// Outputs are the outputs that were read; OutputsError is why they could not be.
	Outputs      map[string]string
	OutputsError *OutputsError
}

// OutputsError is why outputs could not be read.
type OutputsError struct {
	// TooLarge tells that a bound is exceeded.
	TooLarge bool
	// Message tells a person.
	Message string
}

// Result is how an attempt ends, and the Run with it when it is not tried again.
type Result struct {
	// Phase is the terminal phase.
	Phase corev1alpha1.RunPhase
	// Reason is empty when the phase is Succeeded.
	Reason corev1alpha1.RunReason
	// Message tells a person.
	Message string
	// ExitCode is nil when nothing has run to an end.
	ExitCode *int32
	// Outputs are the outputs to store.
	Outputs map[string]string
	// Artifacts are the artifacts that were stored, by name.
	Artifacts []corev1alpha1.ArtifactRef
	// Unstarted tells that nothing of the attempt was executed, for a reason that lies with the Pod or the workspace: the Run
	// is handed back, whatever its policy says.
	Unstarted bool
}

// ForEnding tells what the end of an execution means.
//
// What the runtime server saw comes before what was asked for: a script that ended by itself while a stop was on its
// way is reported as it ended.
func ForEnding(e Ending) Result {
	if e.Exited == nil {
		return unseen(e)
	}
	code := e.Exited.GetExitCode()
	switch e.Exited.GetCause() {
	case runtimev1.ExitCause_EXIT_CAUSE_EXITED:
		return ended(e, code)
	case runtimev1.ExitCause_EXIT_CAUSE_OOM_KILLED:
		killed := int32(exitOOMKilled)
		return failed(corev1alpha1.RunReasonOOMKilled, "The kernel killed the execution for its memory use", &killed)
	case runtimev1.ExitCause_EXIT_CAUSE_COMMAND_NOT_FOUND:
		return notFound(e)
	case runtimev1.ExitCause_EXIT_CAUSE_START_FAILED:
		return failed(corev1alpha1.RunReasonStagingFailed,
			sentence("The process could not be started", e.Exited.GetMessage()), nil)
	case runtimev1.ExitCause_EXIT_CAUSE_UNKILLABLE:
		if e.Stop == StopNone {
			return ended(e, code)
		}
		return stopped(e, &code)
	case runtimev1.ExitCause_EXIT_CAUSE_STOPPED:
		return stopped(e, &code)
	case runtimev1.ExitCause_EXIT_CAUSE_SUPERVISOR_LOST, runtimev1.ExitCause_EXIT_CAUSE_UNSPECIFIED:
	}
	if e.Stop != StopNone {
		return stopped(e, nil)
	}
	return failed(corev1alpha1.RunReasonExecutionLost,
		sentence("The supervisor of the execution died, so how the execution ended is not known", e.Exited.GetMessage()), nil)
}

// unseen is the result of an execution whose end was not reported.
func unseen(e Ending) Result {
	if e.Stop != StopNone {
		return stopped(e, nil)
	}
	return failed(corev1alpha1.RunReasonServerLost, "The runtime server, and with it the execution, was lost", nil)
}

// stopped is the result of an execution that ended because runtimed asked for it.
func stopped(e Ending, code *int32) Result {
	switch e.Stop {
	case StopCancel:
		return cancelled("Cancelled", code)
	case StopDeleted:
		return cancelled("The Run was deleted during the execution", code)
	case StopTimeout:
		return Result{
			Phase: corev1alpha1.RunTimeout, Reason: corev1alpha1.RunReasonTimeout, ExitCode: code,
			Message: fmt.Sprintf("Stopped after the timeout of %s", e.Timeout),
		}
	case StopShutdown:
		return failed(corev1alpha1.RunReasonPodTerminated, "The Pod was shut down before the execution ended", code)
	case StopNone:
	}
	// Somebody else made the server stop it.
	return failed(corev1alpha1.RunReasonExecutionLost, "The runtime server stopped the execution unasked", code)
}

// ended is the result of an execution whose main process ended by itself.
func ended(e Ending, code int32) Result {
	if code != 0 {
		r := failed(corev1alpha1.RunReasonScriptFailed, fmt.Sprintf("Exit code %d", code), &code)
		r.Outputs = e.Outputs
		if e.OutputsError != nil {
			r.Message += ". Its outputs were dropped: " + statuspatch.Bounded(e.OutputsError.Message, maxOutputsMessage)
		}
		if e.StderrTail != "" {
			r.Message += "\n" + e.StderrTail
		}
		return r
	}
	if e.OutputsError != nil {
		reason := corev1alpha1.RunReasonOutputsInvalid
		if e.OutputsError.TooLarge {
			reason = corev1alpha1.RunReasonOutputsTooLarge
		}
		return failed(reason, statuspatch.Bounded(e.OutputsError.Message, maxMessage), &code)
	}
	return Result{Phase: corev1alpha1.RunSucceeded, ExitCode: &code, Outputs: e.Outputs}
}

// notFound is the result when argv[0] does not exist. The interpreter is the Runtime's affair, a command the Run's.
func notFound(e Ending) Result {
	if e.Scripted {
		return failed(corev1alpha1.RunReasonInterpreterNotFound,
			fmt.Sprintf("The interpreter %q does not exist in the Runtime's image, or cannot be executed", e.Command), nil)
	}
	code := int32(exitNotFound)
	return failed(corev1alpha1.RunReasonScriptFailed,
		fmt.Sprintf("Exit code %d: the command %q does not exist in the Runtime's image, or cannot be executed",
			code, e.Command), &code)
}

func failed(reason corev1alpha1.RunReason, message string, code *int32) Result {
	return Result{Phase: corev1alpha1.RunFailed, Reason: reason, Message: message, ExitCode: code}
}

func cancelled(message string, code *int32) Result {
	return Result{
		Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, Message: message, ExitCode: code,
	}
}

// sentence appends detail to text where there is any.
func sentence(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + ": " + statuspatch.Bounded(detail, maxMessage-len(text)-2)
}

// Final adapts r to what run says at the moment of writing: when the cancel was asked for, an execution of which nobody
// knows how it ended, or that ended with its Pod, is not a failure.
func Final(r Result, run *corev1alpha1.Run) Result {
	if !run.Spec.CancelRequested {
		return r
	}
	switch r.Reason {
	case corev1alpha1.RunReasonExecutionLost, corev1alpha1.RunReasonServerLost, corev1alpha1.RunReasonPodTerminated,
		corev1alpha1.RunReasonWorkspaceUnavailable:
		return cancelled(sentence("Cancelled", r.Message), r.ExitCode)
	default:
		return r
	}
}

// Refused replaces r after the API server has found the status that follows from it invalid. Such a status holds what
// the script made, so the outputs and artifacts are dropped and named as the cause.
func Refused(r Result, refusal error) Result {
	r.Outputs, r.Artifacts = nil, nil
	r.Message = statuspatch.Bounded("The API server refused the result: "+refusal.Error(), maxOutputsMessage)
	if r.Phase == corev1alpha1.RunSucceeded {
		r.Phase, r.Reason = corev1alpha1.RunFailed, corev1alpha1.RunReasonOutputsInvalid
	}
	return r
}
