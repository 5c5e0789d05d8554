package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Expressions are written ${{ inputs.x }}, ${{ steps.s.outputs.k }}, ${{ jobs.j.outputs.k }} or ${{ 'text' }}. Where a
// field may hold them, its comment says so. Values are text and never parsed again.

// Job is a sequence of steps on one Runtime or, with uses, a call of a Workflow.
//
// +kubebuilder:validation:XValidation:rule="has(self.steps) != has(self.uses)",message="a job has either steps or uses, not both and not neither"
// +kubebuilder:validation:XValidation:rule="!has(self.steps) || has(self.runs__dash__on)",message="a job with steps needs runs-on, the name of a Runtime"
// +kubebuilder:validation:XValidation:rule="!has(self.uses) || has(self.steps) || !(has(self.runs__dash__on) || has(self.env) || has(self.outputs))",message="a job with uses takes only with and needs: runs-on, env and outputs belong into the Workflow that it calls"
// +kubebuilder:validation:XValidation:rule="!has(self.with) || has(self.uses)",message="with belongs to a job with uses: hand values to steps with env"
type Job struct {
	// runs-on names the Runtime of the same namespace that runs the steps. Required with steps. May hold expressions of
	// inputs only. Size: 1 to 253 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	RunsOn string `json:"runs-on,omitempty"`

	// needs lists jobs that have to succeed before this one starts. Unset: it starts at once.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=63
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Needs []string `json:"needs,omitempty"`

	// env is added to the environment of every step. A map from names to text; a step's own env wins. Values may hold
	// expressions. Size of a value: up to 32 KiB.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z_][A-Za-z0-9_.-]{0,255}$'))",message="every name of a variable must be a letter or '_', then letters, digits, '_', '.' or '-', up to 256 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('KRUNTIME_'))",message="names that start with KRUNTIME_ are reserved"
	Env map[string]EnvValue `json:"env,omitempty"`

	// steps run one after another, each as a Run. Keyed by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Steps []Step `json:"steps,omitempty"`

	// outputs are the values that jobs which need this one can read. A map from names to expressions, evaluated when all
	// steps have succeeded.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$'))",message="every name of an output must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters"
	Outputs map[string]Output `json:"outputs,omitempty"`

	// uses names a Workflow of the same namespace that is called when the job becomes ready.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="uses must be the name of a Workflow of the same namespace: lower-case letters, digits, '-' and '.'"
	Uses string `json:"uses,omitempty"`

	// with holds the inputs of the called Workflow. A map from names to text; values may hold expressions.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	With map[string]InputValue `json:"with,omitempty"`
}

// EnvValue is the text of an environment variable, which may hold expressions. Size: up to 32 KiB.
// +kubebuilder:validation:MaxLength=32768
type EnvValue string

// InputValue is the text of an input, which may hold expressions. Size: up to 32 KiB.
// +kubebuilder:validation:MaxLength=32768
type InputValue string

// Step is one script or, with uses, a call of an Action.
//
// +kubebuilder:validation:XValidation:rule="has(self.run) != has(self.uses)",message="a step has either run or uses, not both and not neither"
// +kubebuilder:validation:XValidation:rule="!has(self.uses) || has(self.run) || !(has(self.env) || has(self.artifacts) || has(self.timeout))",message="a step with uses takes only with: env, artifacts and timeout belong into the Action that it calls"
// +kubebuilder:validation:XValidation:rule="!has(self.with) || has(self.uses)",message="with belongs to a step with uses: hand values to a script with env"
type Step struct {
	// name is unique in its job. Shape: letters, digits, '-' and '_', with a letter or digit at both ends. Size: 1 to 63
	// characters.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$')",message="name must be letters, digits, '-' and '_', with a letter or digit at both ends"
	Name string `json:"name"`

	// run is the script, handed to the Runtime's interpreter. May hold expressions; pass values through env where they
	// come from outside. Size: 1 byte to 256 KiB.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Run string `json:"run,omitempty"`

	// env is added to the environment of the script, over the job's env. Values may hold expressions.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z_][A-Za-z0-9_.-]{0,255}$'))",message="every name of a variable must be a letter or '_', then letters, digits, '_', '.' or '-', up to 256 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('KRUNTIME_'))",message="names that start with KRUNTIME_ are reserved"
	Env map[string]EnvValue `json:"env,omitempty"`

	// artifacts are copied below the working directory before the script starts. Keyed by path.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=32
	Artifacts []StepArtifact `json:"artifacts,omitempty"`

	// timeout bounds the execution of the script; waiting for a Pod does not count. Unit: a Go duration such as "90s",
	// from 1ms to 8760h. Unset: no bound.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?m|[0-9]{1,9}([.][0-9]+)?s|[0-9]{1,12}([.][0-9]+)?ms|[0-9]{1,15}([.][0-9]+)?(us|µs)|[0-9]{1,18}([.][0-9]+)?ns)+$') && duration(self) >= duration('1ms') && duration(self) <= duration('8760h')",message="timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// uses names an Action of the same namespace whose steps run in place of this one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="uses must be the name of an Action of the same namespace: lower-case letters, digits, '-' and '.'"
	Uses string `json:"uses,omitempty"`

	// with holds the inputs of the called Action. A map from names to text; values may hold expressions.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	With map[string]InputValue `json:"with,omitempty"`
}

// StepArtifact says which artifact of a needed job a step gets, and where.
type StepArtifact struct {
	// from names the artifact. Shape: jobs.<job>.artifacts.<name>, where the step's job needs <job>. May hold expressions.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^(jobs\.[A-Za-z0-9_-]+\.artifacts\..+|.*\$\{\{.*)$`
	From string `json:"from"`

	// path to which a file is copied, or in which a directory is unpacked. Relative to the working directory, without ".",
	// ".." or empty parts, and not below .kruntimes. May hold expressions. Size: 1 to 1,024 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^([^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+)(/([^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+))*$`
	Path string `json:"path"`
}

// InputType is the type of an input.
// +kubebuilder:validation:Enum=string
type InputType string

// InputString is text. It is the only type so far.
const InputString InputType = "string"

// Input declares a value that a caller hands to a definition.
// +kubebuilder:validation:XValidation:rule="!(has(self.default) && has(self.required) && self.required)",message="an input is either required or has a default: remove one of them"
type Input struct {
	// type of the value. Default, and the only one so far: string.
	// +optional
	// +kubebuilder:default=string
	Type InputType `json:"type,omitempty"`

	// description is for people. Size: up to 1,024 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// required refuses a call that does not set the input. Default: false. Not together with default.
	// +optional
	Required bool `json:"required,omitempty"`

	// default is the value of an input that a call does not set. Unset: empty text. Taken as it is: it holds no expressions.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Default *string `json:"default,omitempty"`
}

// Output declares a value that a job or definition hands to its readers.
type Output struct {
	// value is text with expressions. Its result may hold up to 4 KiB.
	// +required
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value"`

	// description is for people. Size: up to 1,024 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`
}
