package v1alpha1

import "time"

// A Pod of a Runtime that is being deleted lets what executes go on, for as long as its grace period lasts:
//
//	deleted                                          end - StopLead       end - ReportLead       end of the grace
//	   |  executions go on; the Pod goes with the last one |  SIGTERM            |  SIGKILL, reports      |
//	   +---------------------------------------------------+---------------------+------------------------+
//
// It takes no Run any more, but for those that TerminatingPodTakes tells.

const (
	// DefaultGrace is the grace period of Pods whose template names none.
	DefaultGrace = 600 * time.Second

	maxStopLead   = 10 * time.Second
	maxReportLead = 5 * time.Second
)

// StopLead is how long before the end of its grace period a Pod asks what still executes to end: 10 s, or two thirds of a
// grace period that is shorter than 15 s.
func StopLead(grace time.Duration) time.Duration { return min(maxStopLead, 2*max(grace, 0)/3) }

// ReportLead is how long before the end of its grace period a Pod kills what still executes and reports it: 5 s, or a
// third of a grace period that is shorter than 15 s.
func ReportLead(grace time.Duration) time.Duration { return min(maxReportLead, max(grace, 0)/3) }

// TerminatingPodTakes tells whether a Pod that is being deleted takes a Run that has not begun: only one whose workspace
// is bound to the Pod, since it can execute nowhere else, and only until what executes is asked to end. end is the end of
// the grace period.
func TerminatingPodTakes(workspaceBound bool, grace time.Duration, end, now time.Time) bool {
	return workspaceBound && now.Before(end.Add(-StopLead(grace)))
}
