package kubelet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// volumeRetryFirst and volumeRetryMax bound the wait between two attempts at filling the volumes.
	volumeRetryFirst = 50 * time.Millisecond
	volumeRetryMax   = 2 * time.Second
	// volumePatience is how long a missing ConfigMap, say, counts as being on its way.
	volumePatience = 2 * time.Second
	// tokenRetry is how long to wait after a token could not be renewed.
	tokenRetry = 5 * time.Second
	// pullRetry is how long the first failure to pull an image is shown as such.
	pullRetry = time.Second
)

// step brings the Pod's processes one step closer to what the Pod asks for, and returns when to look again.
func (w *worker) step(ctx context.Context) (wake time.Time) {
	now := w.kubelet.clock.Now()
	switch {
	case w.gone:
		w.signal(syscall.SIGKILL)
		return time.Time{}
	case w.pod.DeletionTimestamp != nil:
		return earliest(w.terminate(now), w.renewTokens(ctx, now))
	case !w.volumesReady(ctx, now):
		return w.volumes.retryAt
	}
	policy := w.pod.Spec.RestartPolicy
	if p := phase(policy, w.seen()); p == corev1.PodSucceeded || p == corev1.PodFailed {
		w.signal(syscall.SIGKILL) // sidecars end with the containers that they serve
		return time.Time{}
	}
	// A start may decide over the next one, so the plan is made anew after each round.
	for {
		p := nextStarts(policy, w.seen(), w.kubelet.clock.Now())
		if len(p.start) == 0 {
			return earliest(p.again, w.renewTokens(ctx, now))
		}
		for _, i := range p.start {
			w.start(ctx, w.containers[i])
		}
	}
}

func (w *worker) seen() []seen {
	all := make([]seen, len(w.containers))
	for i, c := range w.containers {
		all[i] = c.seen
	}
	return all
}

// terminate asks the containers to end, once, and kills them when their grace is over.
func (w *worker) terminate(now time.Time) (wake time.Time) {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if w.pod.DeletionGracePeriodSeconds != nil {
		grace = *w.pod.DeletionGracePeriodSeconds
	}
	end := now.Add(time.Duration(grace) * time.Second)
	if w.killAt.IsZero() {
		w.log.Info("Stopping Pod", "graceSeconds", grace)
		w.killAt = end
		w.signal(syscall.SIGTERM)
		for _, c := range w.containers {
			if c.ended {
				c.waiting = corev1.ContainerStateWaiting{}
			}
		}
	}
	if end.Before(w.killAt) { // a second deletion, with a shorter grace
		w.killAt = end
	}
	if now.Before(w.killAt) {
		return w.killAt
	}
	if !w.killed {
		w.killed = true
		w.signal(syscall.SIGKILL)
	}
	return time.Time{}
}

// signal sends a signal to the main process of every running container.
func (w *worker) signal(s syscall.Signal) {
	for _, c := range w.containers {
		if c.running {
			c.run.child.Signal(s)
		}
	}
}

// volumesReady fills the volumes, or tries again later. Nothing starts before they are complete.
func (w *worker) volumesReady(ctx context.Context, now time.Time) bool {
	v := &w.volumes
	if v.dirs != nil {
		return true
	}
	if v.hopeless || now.Before(v.retryAt) {
		return false
	}
	dirs, tokens, err := w.volumeSource().prepare(ctx, now)
	if err == nil {
		v.dirs, v.tokens = dirs, tokens
		for _, c := range w.containers {
			c.waiting.Message = ""
		}
		return true
	}
	if v.since.IsZero() {
		v.since = now
	}
	v.retryAt = now.Add(min(volumeRetryFirst<<min(v.tries, 10), volumeRetryMax))
	v.tries++
	var unsupported *unsupportedError
	if v.hopeless = errors.As(err, &unsupported); v.hopeless {
		v.retryAt = time.Time{}
		w.wait(reasonCreateConfigError, err.Error())
	} else if now.Sub(v.since) > volumePatience {
		w.wait("", fmt.Sprintf("preparing volumes: %v", err))
	}
	if ctx.Err() == nil {
		w.log.V(1).Info("Could not prepare volumes", "reason", err.Error())
	}
	return false
}

// wait sets why all containers wait. An empty reason leaves theirs.
func (w *worker) wait(reason, message string) {
	for _, c := range w.containers {
		if reason != "" {
			c.waiting.Reason = reason
		}
		c.waiting.Message = message
	}
}

func (w *worker) volumeSource() volumes {
	return volumes{
		sources: sources{client: w.kubelet.client, namespace: w.namespace},
		pod:     w.pod, dir: filepath.Join(w.dir, "v"),
	}
}

// renewTokens renews the tokens that are due and returns when the next one is.
func (w *worker) renewTokens(ctx context.Context, now time.Time) (next time.Time) {
	for _, t := range w.volumes.tokens {
		if !now.Before(t.renewAt) {
			if err := w.volumeSource().renew(ctx, t, now); err != nil {
				w.log.Error(err, "Could not renew token")
				t.renewAt = now.Add(tokenRetry)
			}
		}
		next = earliest(next, t.renewAt)
	}
	return next
}

// ended takes note that a run is over and decides when the next one may begin.
func (w *worker) ended(c *container, r *run, exitCode int32, at time.Time) {
	if c.run != r || !c.running {
		return
	}
	c.running, c.seen.ended, c.exitCode, c.ready = false, true, exitCode, false
	c.last = terminated(r, exitCode, c.startAt, at)
	c.delay = nextBackoff(c.delay, c.restarts, at.Sub(c.startAt))
	c.notBefore = at.Add(c.delay)
	c.waiting = corev1.ContainerStateWaiting{}
	w.log.Info("Container ended", "container", c.spec.Name, "exitCode", exitCode)
	if w.pod.DeletionTimestamp == nil && c.delay > 0 && c.mayStart(w.pod.Spec.RestartPolicy) {
		c.waiting = corev1.ContainerStateWaiting{
			Reason:  reasonCrashLoopBackOff,
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", c.delay, c.spec.Name, w.name),
		}
	}
}
