package v1alpha1

// RuntimeConditionArtifactStoreReady is False while a Pod of the Runtime cannot keep artifacts in spec.artifactStore; the
// message begins with "Pod", the name of the Pod and a colon, and quotes the store. True once one can. Absent where the Runtime has no artifact store, or no Pod
// has tried yet. Written by runtimed, removed by the manager with spec.artifactStore.
const RuntimeConditionArtifactStoreReady = "ArtifactStoreReady"

// Reasons of RuntimeConditionArtifactStoreReady.
const (
	// ReasonStoreReady means that the store takes artifacts.
	ReasonStoreReady = "StoreReady"
	// ReasonStoreFailed means that it does not, or cannot be reached.
	ReasonStoreFailed = "StoreFailed"
)
