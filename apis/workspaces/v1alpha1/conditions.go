package v1alpha1

// Conditions of a PersistentWorkspace.
const (
	// WorkspaceConditionBound is True once the workspace has its Pod, False before, and again when the Pod is gone.
	WorkspaceConditionBound = "Bound"
	// WorkspaceConditionAvailable is True while Runs can use the workspace: it is Bound and its Pod is ready.
	WorkspaceConditionAvailable = "Available"
)

// Reasons of the conditions of a PersistentWorkspace.
const (
	// ReasonBound means that the workspace has its Pod.
	ReasonBound = "Bound"
	// ReasonPodReady means that the bound Pod is ready.
	ReasonPodReady = "PodReady"
	// ReasonPodNotReady means that the bound Pod is there and not ready; Runs wait until it is.
	ReasonPodNotReady = "PodNotReady"
	// ReasonPodTerminating means that the bound Pod is being deleted, and the workspace will be lost with it.
	// Until shortly before that, Runs go there.
	ReasonPodTerminating = "PodTerminating"
	// ReasonPodLost means that the bound Pod is gone, and the directory with it.
	ReasonPodLost = "PodLost"
	// ReasonRuntimeNotFound means that the namespace has no Runtime of the name in spec.runtime.
	ReasonRuntimeNotFound = "RuntimeNotFound"
	// ReasonNoReadyPods means that the Runtime has no ready Pod to which the workspace could be bound.
	ReasonNoReadyPods = "NoReadyPods"
	// ReasonReleased means that the workspace is on its way out.
	ReasonReleased = "Released"
	// ReasonCleanupStuck means that the workspace is on its way out, and that its Pod has not removed its directory although no
	// Run has been executed there for a minute. Also the reason of the event about it.
	ReasonCleanupStuck = "CleanupStuck"
)
