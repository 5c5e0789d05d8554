package v1alpha1

// Labels, annotations and names that connect objects of this group.
const (
	// LabelRuntime is set by the Runtime controller on everything it makes for a Runtime: the Deployment and its Pods, the
	// ServiceAccount and the RoleBinding.
	// Value: the Runtime's name, shortened with a hash where it is longer than 63 characters (see RuntimeLabelValue).
	// Readers: the selectors of the Deployment and of the scale subresource, scheduler, krt.
	LabelRuntime = "kruntimes.io/runtime"

	// LabelNamesWorkspace marks Runs with spec.workspace where the API server cannot look into the spec before it asks the
	// manager: in installations by OLM. Writer: the manager, asked while the Run is created. Value: "true". Readers: the
	// selector of the webhook, and a policy that refuses Runs with a workspace and without the mark.
	LabelNamesWorkspace = "kruntimes.io/names-workspace"

	// LabelManagedBy is the well-known label that says which application looks after an object. Writers: the controllers of
	// kruntimes, on everything that they make. Readers: the cache of the manager, krt.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy on everything that a controller of kruntimes makes.
	ManagedBy = "kruntimes"

	// AnnotationRuntime is set by the Runtime controller on Pods beside LabelRuntime. Value: the Runtime's full name.
	// Readers: Runtime controller, scheduler.
	AnnotationRuntime = "kruntimes.io/runtime"

	// AnnotationRestartedAt, put on a Runtime by a person, is copied into the Pod template and so rolls the Pods.
	// Value: any text; an RFC 3339 time by convention.
	AnnotationRestartedAt = "kruntimes.io/restartedAt"

	// TopologyRuntimePod is the one topology key of Run affinity: Runs are together when they are on the same Runtime Pod.
	TopologyRuntimePod = "kruntimes.io/runtime-pod"

	// ResourceRuns is the logical resource that counts executions. A Run that requests nothing requests one of it.
	ResourceRuns = "runs"

	// VerbGovern is the custom verb on runs/status that marks the control plane's own identities for the admission policies.
	VerbGovern = "govern"

	// FieldAssignedPod, FieldPhase and FieldWorkspace are the selectable fields of Run.
	FieldAssignedPod = "status.assignedPod"
	FieldPhase       = "status.phase"
	FieldWorkspace   = "spec.workspace.name"
)

// Names inside a Runtime's Pod. Containers named kruntimes-* and the names below are reserved in spec.template.
const (
	// ContainerRuntime is the user's container in which scripts run. It must be the first of the template.
	ContainerRuntime = "runtime"
	// ContainerRuntimed is the injected sidecar.
	ContainerRuntimed = "runtimed"
	// VolumeWorkspace is the volume made from spec.workspace.
	VolumeWorkspace = "workspace"
	// VolumeArtifactStore is the volume made from spec.artifactStore.filesystem.
	VolumeArtifactStore = "artifact-store"
	// ReservedPrefix starts every other container and volume that the Runtime controller injects.
	ReservedPrefix = "kruntimes-"
	// WorkspaceMountPath is where the workspace volume is mounted in the runtime container and in runtimed.
	WorkspaceMountPath = "/workspace"
)
