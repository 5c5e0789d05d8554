package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// How long a container that ends again and again is kept waiting. A kubelet waits 10 s first and 5 min in the end;
// here the times are short, because people wait for them.
const (
	backoffFirst = 200 * time.Millisecond
	backoffMax   = 5 * time.Second
	// backoffReset is how long a container must have run for its earlier ends to be forgotten.
	backoffReset = 10 * time.Second
)

// nextBackoff returns how long to wait before the next start of a container that has run for ran. Zero means at once,
// which is what the first restart gets.
func nextBackoff(previous time.Duration, restarts int32, ran time.Duration) time.Duration {
	switch {
	case restarts == 0 || ran >= backoffReset:
		return 0
	case previous == 0:
		return backoffFirst
	default:
		return min(2*previous, backoffMax)
	}
}

// role is what a container is for the order of starts.
type role int

const (
	// roleInit must have ended well before the next container is started.
	roleInit role = iota
	// roleSidecar is an init container that keeps running.
	roleSidecar
	// roleMain is an ordinary container.
	roleMain
)

// seen is what the plan knows of one container.
type seen struct {
	role role
	// running is true from its start to its end.
	running bool
	// ended is true once it has ended and has not been started again; exitCode is that of the last end.
	ended    bool
	exitCode int32
	// notBefore is when it may be started, if it is not running.
	notBefore time.Time
}

// mayStart tells whether a container that is not running has to be started at some time.
func (s seen) mayStart(policy corev1.RestartPolicy) bool {
	if !s.ended {
		return true
	}
	switch {
	case s.role == roleSidecar:
		return true
	case s.role == roleInit && s.exitCode == 0:
		return false
	case policy == corev1.RestartPolicyNever:
		return false
	case policy == corev1.RestartPolicyOnFailure:
		return s.exitCode != 0
	default:
		return true
	}
}

// plan says what to do with the containers of a Pod.
type plan struct {
	// start are the indexes of the containers to start now.
	start []int
	// again is when to look again if nothing happens before. Zero: not needed.
	again time.Time
}

// nextStarts decides which containers to start. Containers stand in the order of the Pod: init containers first.
func nextStarts(policy corev1.RestartPolicy, containers []seen, now time.Time) plan {
	var p plan
	consider := func(i int) {
		c := containers[i]
		switch {
		case c.running || !c.mayStart(policy):
		case c.notBefore.After(now):
			if p.again.IsZero() || c.notBefore.Before(p.again) {
				p.again = c.notBefore
			}
		default:
			p.start = append(p.start, i)
		}
	}
	for i, c := range containers {
		consider(i)
		blocks := c.role == roleInit && !(c.ended && c.exitCode == 0) || c.role == roleSidecar && !c.running
		if blocks {
			// A sidecar that was up once blocks nothing: the containers after it have been started.
			if c.role == roleInit || !anyStarted(containers[i+1:]) {
				return p
			}
		}
	}
	return p
}

func anyStarted(containers []seen) bool {
	for _, c := range containers {
		if c.running || c.ended {
			return true
		}
	}
	return false
}

// phase returns the phase of a Pod that consists of these containers.
func phase(policy corev1.RestartPolicy, containers []seen) corev1.PodPhase {
	mains, over, failed := 0, 0, 0
	for _, c := range containers {
		if c.role == roleInit && !(c.ended && c.exitCode == 0) {
			if c.ended && !c.mayStart(policy) {
				return corev1.PodFailed
			}
			return corev1.PodPending
		}
		if c.role != roleMain {
			continue
		}
		mains++
		if c.ended && !c.mayStart(policy) {
			over++
			if c.exitCode != 0 {
				failed++
			}
		}
	}
	switch {
	case over == mains && failed > 0:
		return corev1.PodFailed
	case over == mains:
		return corev1.PodSucceeded
	case !anyMainStarted(containers):
		return corev1.PodPending
	default:
		return corev1.PodRunning
	}
}

// finalPhase returns the phase of a Pod that is being deleted: nothing is started again, so it is over once nothing runs.
func finalPhase(policy corev1.RestartPolicy, containers []seen) corev1.PodPhase {
	final := corev1.PodSucceeded
	for _, c := range containers {
		switch {
		case c.running:
			return phase(policy, containers)
		case c.role == roleMain && (!c.ended || c.exitCode != 0):
			final = corev1.PodFailed
		}
	}
	return final
}

func anyMainStarted(containers []seen) bool {
	for _, c := range containers {
		if c.role == roleMain && (c.running || c.ended) {
			return true
		}
	}
	return false
}
