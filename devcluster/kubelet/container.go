package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of container states, as a kubelet gives them.
const (
	reasonContainerCreating    = "ContainerCreating"
	reasonPodInitializing      = "PodInitializing"
	reasonCreateConfigError    = "CreateContainerConfigError"
	reasonCreateContainerError = "CreateContainerError"
	reasonErrImagePull         = "ErrImagePull"
	reasonImagePullBackOff     = "ImagePullBackOff"
	reasonCrashLoopBackOff     = "CrashLoopBackOff"
	reasonCompleted            = "Completed"
	reasonError                = "Error"
)

// container is what the stand-in knows about one container of a Pod.
type container struct {
	seen
	spec *corev1.Container
	// waiting says why it does not run, when it does not.
	waiting corev1.ContainerStateWaiting
	// run is the present run, or the last one.
	run *run
	// previous is the run before, whose log can still be read.
	previous *run
	// last is how the run before the present one ended, or the last one when none is running.
	last *corev1.ContainerStateTerminated
	// restarts counts the starts after the first.
	restarts int32
	started  bool // ever
	ready    bool
	delay    time.Duration
	startAt  time.Time
	// pulls counts how often its image was looked for in vain.
	pulls int
}

// state returns the state that the API shows.
func (c *container) state() corev1.ContainerState {
	switch {
	case c.running:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.startAt)}}
	case c.ended && c.waiting.Reason == "":
		return corev1.ContainerState{Terminated: c.last.DeepCopy()}
	default:
		waiting := c.waiting
		return corev1.ContainerState{Waiting: &waiting}
	}
}

// lastState returns how the run before the one that state shows ended.
func (c *container) lastState() corev1.ContainerState {
	if c.last == nil || c.ended && c.waiting.Reason == "" {
		return corev1.ContainerState{}
	}
	return corev1.ContainerState{Terminated: c.last.DeepCopy()}
}

// status returns the container's part of the Pod's status.
func (c *container) status() corev1.ContainerStatus {
	started := c.running
	s := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, State: c.state(), LastTerminationState: c.lastState(),
		RestartCount: c.restarts, Started: &started,
		Ready: c.running && c.ready || c.role == roleInit && c.ended && c.exitCode == 0,
	}
	if c.run != nil {
		s.ContainerID, s.ImageID = "process://"+c.run.owner, "host://"+c.spec.Image
	}
	return s
}

// terminated describes the end of a run.
func terminated(r *run, exitCode int32, startedAt, finishedAt time.Time) *corev1.ContainerStateTerminated {
	reason := reasonCompleted
	if exitCode != 0 {
		reason = reasonError
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: exitCode, Reason: reason, ContainerID: "process://" + r.owner,
		StartedAt: metav1.NewTime(startedAt), FinishedAt: metav1.NewTime(finishedAt),
	}
}

// newContainers lists the containers of a Pod in the order in which they start.
func newContainers(pod *corev1.Pod) []*container {
	var containers []*container
	for i := range pod.Spec.InitContainers {
		c := &container{spec: &pod.Spec.InitContainers[i]}
		if p := c.spec.RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			c.role = roleSidecar
		}
		c.waiting.Reason = reasonPodInitializing
		containers = append(containers, c)
	}
	reason := reasonContainerCreating
	if len(containers) > 0 {
		reason = reasonPodInitializing
	}
	for i := range pod.Spec.Containers {
		c := &container{spec: &pod.Spec.Containers[i], seen: seen{role: roleMain}}
		c.waiting.Reason = reason
		containers = append(containers, c)
	}
	return containers
}
