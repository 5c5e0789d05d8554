package v1alpha1

// ConditionReady is the condition of Workflow and Action. True: the definition can be used. False: the message lists
// what is wrong. Their controllers own it.
const ConditionReady = "Ready"

// Reasons of ConditionReady.
const (
	// ReasonValid means that nothing is wrong.
	ReasonValid = "Valid"
	// ReasonInvalid means that the definition is wrong in itself.
	ReasonInvalid = "Invalid"
	// ReasonUnresolved means that a Workflow or Action that it calls is missing, is called wrongly, or calls it in turn.
	ReasonUnresolved = "Unresolved"
)

// MaxReadyMessageBytes bounds the message of ConditionReady, which lists all that is wrong; where it has no room for that, it
// ends with how much more there is. Unit: bytes.
const MaxReadyMessageBytes = 16 << 10
