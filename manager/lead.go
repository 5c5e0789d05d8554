package manager

import (
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kruntimes.io/kruntimes/election"
	"kruntimes.io/kruntimes/telemetry/events"
)

// leaseName is the Lease through which replicas elect a leader.
const leaseName = "kruntimes-manager"

// newLock returns the Lease through which replicas elect a leader; nil without leader election.
func newLock(options Options, recorder *events.Recorder) (resourcelock.Interface, error) {
	if !options.LeaderElection {
		return nil, nil
	}
	lock, err := election.NewLock(election.Options{
		Config: options.Config, Namespace: options.LeaderElectionNamespace, Name: leaseName, Recorder: leaderEvents{recorder},
	})
	if err != nil {
		return nil, fmt.Errorf("setting leader election up: %w", err)
	}
	return lock, nil
}

// leaderEvents tells beside the Lease who leads now, with client-go's reason LeaderElection.
type leaderEvents struct{ recorder *events.Recorder }

// Eventf tells it once for each leader: what it says begins with the leader's identity. That one leads no more is not told: the
// recorder has ended by then, and the successor is.
func (l leaderEvents) Eventf(lease runtime.Object, eventType, reason, message string, args ...any) {
	object, err := meta.Accessor(lease)
	note := fmt.Sprintf(message, args...)
	if err != nil || !strings.HasSuffix(note, " became leader") {
		return
	}
	l.recorder.Publish(events.Event{
		Regarding: events.About(coordinationv1.SchemeGroupVersion.WithKind("Lease"), object),
		Type:      eventType, Reason: reason, Action: reason, Note: note, Key: note,
	})
}
