package v1alpha1

// The life of a Run, one writer per arrow:
//
//	             lifecycle (cancelled before it had a Pod)
//	   +---------------------------------------------------> Cancelled
//	   |
//	Pending --scheduler--> Scheduled --runtimed--> Running --runtimed--> Succeeded | Failed | Timeout | Cancelled
//	   ^                       |  \                   |
//	   |                       |   +--runtimed, short executions skip Running--> Succeeded | Failed | ...
//	   +---- runtimed (retry) -+----------------------+
//	   +---- lifecycle (retry, Pod gone) -------------+----- lifecycle (Pod gone) --> Failed | Cancelled
//
// A terminal phase has no arrow out of it. A retry goes back to Pending and never through a terminal phase.

// Writer is a component that writes Run status.
type Writer string

const (
	// WriterScheduler writes while the Run has no Pod: it binds, and says why a Run waits.
	WriterScheduler Writer = "scheduler"
	// WriterLifecycle writes while the Run has no Pod (cancel), and after its Pod is gone (loss, retry, cancel).
	WriterLifecycle Writer = "lifecycle"
	// WriterRuntimed writes while the Run is assigned to its Pod.
	WriterRuntimed Writer = "runtimed"
)

// Writers lists every Writer.
func Writers() []Writer { return []Writer{WriterScheduler, WriterLifecycle, WriterRuntimed} }

// RunPhases lists every RunPhase in the order of a Run's life.
func RunPhases() []RunPhase {
	return []RunPhase{RunPending, RunScheduled, RunRunning, RunSucceeded, RunFailed, RunTimeout, RunCancelled}
}

// transitions is the table phase × writer → phases that may follow. A phase that may be written again without a
// change (to say why a Run still waits) lists itself.
var transitions = map[RunPhase]map[Writer][]RunPhase{
	RunPending: {
		WriterScheduler: {RunPending, RunScheduled},
		WriterLifecycle: {RunCancelled},
	},
	RunScheduled: {
		WriterRuntimed:  {RunPending, RunRunning, RunSucceeded, RunFailed, RunTimeout, RunCancelled},
		WriterLifecycle: {RunPending, RunFailed, RunCancelled},
	},
	RunRunning: {
		WriterRuntimed:  {RunPending, RunSucceeded, RunFailed, RunTimeout, RunCancelled},
		WriterLifecycle: {RunPending, RunFailed, RunCancelled},
	},
}

// NextPhases returns the phases that w may write over phase from; nil when w must not write at all.
// The empty phase counts as Pending, which the schema's default makes of it.
func NextPhases(from RunPhase, w Writer) []RunPhase {
	return append([]RunPhase(nil), transitions[from.OrPending()][w]...)
}

// CanTransition tells whether w may write phase to over phase from.
func CanTransition(from, to RunPhase, w Writer) bool {
	for _, p := range NextPhases(from, w) {
		if p == to {
			return true
		}
	}
	return false
}

// IsTerminal tells whether no phase may follow.
func (p RunPhase) IsTerminal() bool {
	switch p {
	case RunSucceeded, RunFailed, RunTimeout, RunCancelled:
		return true
	case RunPending, RunScheduled, RunRunning:
		return false
	}
	return false
}

// IsActive tells whether a Run in this phase holds capacity of its assigned Pod.
func (p RunPhase) IsActive() bool { return p == RunScheduled || p == RunRunning }
