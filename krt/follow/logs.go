package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// clockSkew is how far the clock of a node may be behind that of the scheduler before the beginning of an attempt is
// overlooked at first. The price of a generous value is reading that much more of the log.
const clockSkew = time.Minute

// PodLogs opens the log of one container.
type PodLogs func(ctx context.Context, namespace, pod string, opts *corev1.PodLogOptions) (io.ReadCloser, error)

// ClusterLogs returns the PodLogs of a cluster.
func ClusterLogs(c kubernetes.Interface) PodLogs {
	return func(ctx context.Context, namespace, pod string, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
		return c.CoreV1().Pods(namespace).GetLogs(pod, opts).Stream(ctx)
	}
}

// PodGoneError means that the Pod of an attempt does not exist any more, and with it the output.
type PodGoneError struct {
	// Pod is the name of the Pod.
	Pod string
	// Replaced tells that another Pod has taken the name.
	Replaced bool
}

func (e *PodGoneError) Error() string {
	if e.Replaced {
		return fmt.Sprintf("Pod %s has been replaced by another of the same name, and its output is gone with it", e.Pod)
	}
	return fmt.Sprintf("Pod %s no longer exists, and its output is gone with it", e.Pod)
}

// attempt is one execution of a Run, and where its records are.
type attempt struct {
	namespace, uid string
	number         int32
	pod, podUID    string
	// assigned is when the scheduler chose the Pod; nothing of the attempt is older.
	assigned time.Time
}

// attemptOf returns the attempt that run is assigned to, or false while it has no Pod.
func attemptOf(run *corev1alpha1.Run) (attempt, bool) {
	if run.Status.AssignedPod == "" {
		return attempt{}, false
	}
	a := attempt{
		namespace: run.Namespace, uid: string(run.UID), number: run.CurrentAttempt(),
		pod: run.Status.AssignedPod, podUID: run.Status.AssignedPodUID, assigned: run.CreationTimestamp.Time,
	}
	if run.Status.ScheduledTime != nil {
		a.assigned = run.Status.ScheduledTime.Time
	}
	return a, true
}

// logPart is one read of a log that holds a part of an attempt.
type logPart struct {
	follow, previous bool
	since            time.Time
}

// logReader opens the logs of an attempt.
type logReader struct {
	client client.Reader
	logs   PodLogs
}

// podState is what a look at the Pod tells about its log.
type podState struct {
	// seen tells that the Pod is there. False: it could not be looked at, and may be there or not.
	seen bool
	// restarted tells that runtimed has been restarted since the assignment, so that the attempt, or its beginning, is
	// in the log of the instance before.
	restarted bool
}

// look makes sure that the Pod is the one that the attempt was assigned to.
func (l logReader) look(ctx context.Context, a attempt) (podState, error) {
	var pod corev1.Pod
	err := l.client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: a.pod}, &pod)
	switch {
	case apierrors.IsNotFound(err):
		return podState{}, &PodGoneError{Pod: a.pod}
	case apierrors.IsForbidden(err):
		return podState{}, nil // the right to read logs may come without the right to read Pods
	case err != nil:
		return podState{}, fmt.Errorf("looking at Pod %s: %w", a.pod, err)
	case a.podUID != "" && string(pod.UID) != a.podUID:
		return podState{}, &PodGoneError{Pod: a.pod, Replaced: true}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == corev1alpha1.ContainerRuntimed && s.RestartCount > 0 {
			return podState{seen: true, restarted: s.State.Running == nil || s.State.Running.StartedAt.After(a.assigned)}, nil
		}
	}
	return podState{seen: true}, nil
}

// open returns the log of runtimed.
func (l logReader) open(ctx context.Context, a attempt, part logPart) (io.ReadCloser, error) {
	opts := &corev1.PodLogOptions{Container: corev1alpha1.ContainerRuntimed, Follow: part.follow, Previous: part.previous}
	if !part.since.IsZero() {
		opts.SinceTime = ptr.To(metav1.NewTime(part.since.Truncate(time.Second)))
	}
	body, err := l.logs(ctx, a.namespace, a.pod, opts)
	if err != nil {
		return nil, fmt.Errorf("opening the log of Pod %s: %w", a.pod, err)
	}
	return body, nil
}

// isHopeless tells whether opening the log again cannot help.
func isHopeless(err error) bool {
	var gone *PodGoneError
	var local *WriteError
	return errors.As(err, &gone) || errors.As(err, &local) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}
