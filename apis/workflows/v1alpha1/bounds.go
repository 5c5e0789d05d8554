package v1alpha1

// Bounds of the workflow language. What the schema cannot measure, controller and linter do.
const (
	// MaxJobs bounds the jobs of a definition.
	MaxJobs = 64
	// MaxStepsPerJob bounds the steps of one job, and of an Action.
	MaxStepsPerJob = 128
	// MaxSteps bounds the steps of all jobs together, those of called Actions counted in place of their call.
	MaxSteps = 1024
	// MaxInputs and MaxOutputs bound the inputs and outputs of a definition, and the outputs of a job.
	MaxInputs  = 64
	MaxOutputs = 64
	// MaxNameLength bounds the names of jobs, steps, inputs and outputs. Unit: bytes.
	MaxNameLength = 63
	// MaxWorkflowOutputNameLength bounds the names of a Workflow's outputs, which become names of annotations. Unit: bytes.
	MaxWorkflowOutputNameLength = 47
	// MaxOutputValueBytes bounds one output. Unit: bytes.
	MaxOutputValueBytes = 4096
	// MaxOutputBytes bounds all outputs of a WorkflowRun together, names included. Unit: bytes.
	MaxOutputBytes = 256 << 10
	// MaxOutputContractBytes bounds the annotations that declare a WorkflowRun's outputs, names included. Unit: bytes.
	MaxOutputContractBytes = 240 << 10
	// MaxDefinitionBytes bounds the JSON of a WorkflowRun's spec together with the Actions that it calls. Unit: bytes.
	MaxDefinitionBytes = 512 << 10
	// MaxStatusBytes bounds the JSON of a WorkflowRun's status. What would take it over fails its job. Unit: bytes.
	MaxStatusBytes = 768 << 10
	// MaxArtifactNamesPerJob and MaxArtifactNames bound the artifacts of one job, and of a WorkflowRun.
	MaxArtifactNamesPerJob = 64
	MaxArtifactNames       = 256
	// MaxMessageLength bounds every message of a status, save that of ConditionReady. Unit: characters.
	MaxMessageLength = 1024
)
