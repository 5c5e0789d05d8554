package v1alpha1

// Reasons of events. What becomes of a Run or Runtime is told under the reason that its status or condition gives; the
// reasons here are those of events that no status repeats.
const (
	// EventRetrying means that an attempt of a Run ended, and that another one follows; the message says why, and when.
	// Written by the Run lifecycle controller. Type: Normal.
	EventRetrying = "Retrying"
)
