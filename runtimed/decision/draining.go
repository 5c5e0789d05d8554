package decision

import (
	"time"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

const (
	// undeletedGrace is the grace period that is assumed when runtimed is told to end although its Pod is not being
	// deleted. Nodes that shut down do that, and give about as much.
	undeletedGrace = 30 * time.Second
	// goneGrace is what is left to a runtimed whose Pod is not in the API any more. Nobody takes its reports.
	goneGrace = 3 * time.Second
	// maxExitLead is how long before the end of the grace period runtimed ends, whatever is left, so that it is not
	// killed in the middle of what it does.
	maxExitLead = time.Second
)

// Deletion is what the API says about the deletion of a Pod.
type Deletion struct {
	// End is the deletionTimestamp: the end of the grace period, by the clock of the API server.
	End time.Time
	// Grace is the grace period of the deletion that is in force, which may follow on an earlier one with a longer one.
	Grace time.Duration
}

// Draining is the shutdown of this Pod, as far as it is known.
type Draining struct {
	// Began is when runtimed was told to end.
	Began time.Time
	// Unknown is the grace period that is assumed as long as the Pod could not be read.
	Unknown time.Duration
	// Read tells that the Pod was read, Gone that it was not there.
	Read, Gone bool
	// Abandoned is when it became known that the namespace is being deleted, and with it whatever could be reported; zero
	// when it is not.
	Abandoned time.Time
	// First is the deletion that was read first, and Latest the one that was read last; zero when the Pod was not being
	// deleted.
	First, Latest Deletion
}

// WithPod returns d after the Pod was read. deletion is nil when it is not being deleted.
func (d Draining) WithPod(deletion *Deletion) Draining {
	d.Read = true
	if deletion == nil {
		return d
	}
	if d.First == (Deletion{}) {
		d.First = *deletion
	}
	d.Latest = *deletion
	return d
}

// WithoutPod returns d after the Pod was found to be gone.
func (d Draining) WithoutPod() Draining {
	d.Read, d.Gone = true, true
	return d
}

// WithoutNamespace returns d after the namespace was found to be in deletion.
func (d Draining) WithoutNamespace(now time.Time) Draining {
	if d.Abandoned.IsZero() {
		d.Abandoned = now
	}
	return d
}

// Timetable says what happens when. All times are by runtimed's own clock.
type Timetable struct {
	// Stop is when what still executes is asked to end, and StopGrace how long it has until it is killed.
	Stop      time.Time
	StopGrace time.Duration
	// Exit is when runtimed ends, whatever is left.
	Exit time.Time
}

// Timetable derives the times from what is known. The grace period counts from the moment in which runtimed was told to
// end, as it does for the kubelet: the clock of the API server matters only where one of its times is taken from another.
func (d Draining) Timetable() Timetable {
	end := d.end()
	grace := end.Sub(d.Began)
	report := corev1alpha1.ReportLead(grace)
	stop, kill := end.Add(-corev1alpha1.StopLead(grace)), end.Add(-report)
	if early := d.Abandoned; !early.IsZero() && early.Before(stop) {
		stop = early
		kill = earliest(kill, early.Add(corev1alpha1.StopGrace))
	}
	return Timetable{Stop: stop, StopGrace: kill.Sub(stop), Exit: end.Add(-min(maxExitLead, report/2))}
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// end is the end of the grace period.
func (d Draining) end() time.Time {
	switch {
	case d.Gone:
		return d.Began.Add(goneGrace)
	case !d.Read:
		return d.Began.Add(d.Unknown)
	case d.First == (Deletion{}):
		return d.Began.Add(undeletedGrace)
	}
	// A later deletion may have made the grace period shorter.
	return d.Began.Add(d.First.Grace - max(d.First.End.Sub(d.Latest.End), 0))
}

// takes tells whether a Run that has not begun is executed here although the Pod is being shut down. A Run with a workspace
// that was assigned to this Pod can be executed nowhere else.
func (d *Draining) takes(run *corev1alpha1.Run, now time.Time) bool {
	end := d.end()
	return corev1alpha1.TerminatingPodTakes(run.Spec.Workspace != nil, end.Sub(d.Began), end, now)
}
