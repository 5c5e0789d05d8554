// Package validate says all that is wrong with a WorkflowRun, a Workflow or an Action in itself: what the schema cannot
// measure, and what it can, so that a file is checked without a cluster. It is pure.
//
// Errors come sorted by path, those of one text in its order. An error inside a text has a Passage as its bad value.
package validate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// Bounds of texts that may hold expressions, as they stand in the schema. Unit: characters, expressions included.
const (
	// MaxObjectNameLength bounds the names of Runtimes, Workflows and Actions.
	MaxObjectNameLength = 253
	// MaxScriptLength bounds the script of a step.
	MaxScriptLength = 256 << 10
	// MaxValueLength bounds values: of variables, of inputs and of outputs.
	MaxValueLength = 32 << 10
	// MaxPathLength bounds where an artifact comes from, and its path.
	MaxPathLength = 1024
)

// Bounds of the schema that have no name there. Unit: entries, or characters of a text.
const (
	maxEntries     = 64
	maxNeeds       = workflowsv1alpha1.MaxJobs - 1
	maxEnvName     = 256
	maxDescription = 1024
	// maxArtifactName is in bytes, as a Run's status bounds it.
	maxArtifactName = 255
	// minTimeout and maxTimeout are the bounds of a Run's timeout.
	minTimeout, maxTimeout = time.Millisecond, 8760 * time.Hour
)

// MaxErrors bounds the errors that are reported of one definition. Where there are more, a last one counts the rest.
const MaxErrors = 100

// checker collects the errors of one definition.
type checker struct {
	// kind of the definition, as it is called in messages.
	kind string
	// inputs that the definition declares. A WorkflowRun has none.
	inputs map[string]workflowsv1alpha1.Input
	// jobs of the definition. An Action has none.
	jobs   map[string]workflowsv1alpha1.Job
	errors field.ErrorList
	// more counts the errors beyond MaxErrors.
	more int
}

// WorkflowRun returns all that is wrong with the spec of a WorkflowRun.
func WorkflowRun(spec *workflowsv1alpha1.WorkflowRunSpec) field.ErrorList {
	c := checker{kind: "WorkflowRun", jobs: spec.Jobs}
	if c.checkSize(spec) {
		c.checkJobs(field.NewPath("spec", "jobs"))
	}
	return c.sorted()
}

// OutputContract returns all that is wrong with the outputs that the annotations of a WorkflowRun declare. They see the
// outputs of its jobs.
func OutputContract(annotations map[string]string, jobs map[string]workflowsv1alpha1.Job) field.ErrorList {
	c := checker{kind: "WorkflowRun", jobs: jobs}
	path, size, count := field.NewPath("metadata", "annotations"), 0, 0
	see := view{
		inputs: hidden("the outputs of a WorkflowRun see jobs only"),
		steps:  hidden("the outputs of a WorkflowRun see jobs only: give the job an output"),
		jobs:   c.outputOfAnyJob,
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, isOutput := strings.CutPrefix(key, workflowsv1alpha1.AnnotationOutputPrefix)
		if !isOutput {
			continue
		}
		count, size = count+1, size+len(key)+len(annotations[key])
		c.checkName(path.Key(key), "output", name, workflowsv1alpha1.MaxWorkflowOutputNameLength)
		c.checkText(path.Key(key), annotations[key], MaxValueLength, see)
	}
	if count > workflowsv1alpha1.MaxOutputs {
		c.addf(field.ErrorTypeTooMany, path, count, "a WorkflowRun declares up to %d outputs, and this one declares %d", workflowsv1alpha1.MaxOutputs, count)
	}
	if size > workflowsv1alpha1.MaxOutputContractBytes {
		c.addf(field.ErrorTypeTooLong, path, size, "the declared outputs have %d bytes, and may have %d", size, workflowsv1alpha1.MaxOutputContractBytes)
	}
	return c.sorted()
}

// Workflow returns all that is wrong with the spec of a Workflow. What it calls is not looked at.
func Workflow(spec *workflowsv1alpha1.WorkflowSpec) field.ErrorList {
	c := checker{kind: "Workflow", inputs: spec.Inputs, jobs: spec.Jobs}
	path := field.NewPath("spec")
	if !c.checkSize(spec) {
		return c.sorted()
	}
	c.checkInputs(path.Child("inputs"))
	c.checkJobs(path.Child("jobs"))
	c.checkOutputs(path.Child("outputs"), spec.Outputs, workflowsv1alpha1.MaxWorkflowOutputNameLength, view{
		inputs: hidden("the outputs of a Workflow see jobs only"),
		steps:  hidden("the outputs of a Workflow see jobs only: give the job an output"),
		jobs:   c.outputOfAnyJob,
	})
	c.checkContract(path.Child("outputs"), spec.Outputs)
	return c.sorted()
}

// checkContract measures the annotations that a WorkflowRun of the Workflow gets.
func (c *checker) checkContract(path *field.Path, outputs map[string]workflowsv1alpha1.Output) {
	size := 0
	for name, output := range outputs {
		size += len(workflowsv1alpha1.AnnotationOutputPrefix) + len(name) + len(output.Value)
	}
	if size > workflowsv1alpha1.MaxOutputContractBytes {
		c.addf(field.ErrorTypeTooLong, path, size, "the declared outputs have %d bytes, and may have %d", size, workflowsv1alpha1.MaxOutputContractBytes)
	}
}

// Action returns all that is wrong with the spec of an Action.
func Action(spec *workflowsv1alpha1.ActionSpec) field.ErrorList {
	c := checker{kind: "Action", inputs: spec.Inputs}
	path := field.NewPath("spec")
	if !c.checkSize(spec) {
		return c.sorted()
	}
	c.checkInputs(path.Child("inputs"))
	noJobs := hidden("an Action sees its own inputs and steps only: hand the value to it in an input")
	steps := stepsOf("", spec.Steps)
	c.checkSteps(path.Child("steps"), spec.Steps, steps, noJobs)
	c.checkOutputs(path.Child("outputs"), spec.Outputs, workflowsv1alpha1.MaxNameLength, view{
		inputs: c.declaredInput,
		steps:  steps.any,
		jobs:   noJobs,
	})
	return c.sorted()
}

// checkSize measures the definition as it is stored, and tells whether it is worth reading: one that is too large is
// refused for that alone.
func (c *checker) checkSize(spec any) bool {
	data, err := json.Marshal(spec)
	if err != nil {
		c.add(field.InternalError(field.NewPath("spec"), fmt.Errorf("encoding the definition: %w", err)))
		return false
	}
	if len(data) <= workflowsv1alpha1.MaxDefinitionBytes {
		return true
	}
	c.addf(field.ErrorTypeTooLong, field.NewPath("spec"), len(data), "the definition has %d bytes as JSON, and may have %d: split it into several %ss",
		len(data), workflowsv1alpha1.MaxDefinitionBytes, c.kind)
	return false
}

func (c *checker) checkInputs(path *field.Path) {
	checkEntries(c, path, c.inputs, workflowsv1alpha1.MaxInputs)
	for _, name := range slices.Sorted(maps.Keys(c.inputs)) {
		input, path := c.inputs[name], path.Key(name)
		c.checkName(path, "input", name, workflowsv1alpha1.MaxNameLength)
		if input.Type != "" && input.Type != workflowsv1alpha1.InputString {
			c.add(field.NotSupported(path.Child("type"), input.Type, []workflowsv1alpha1.InputType{workflowsv1alpha1.InputString}))
		}
		c.checkLength(path.Child("description"), input.Description, maxDescription)
		if input.Default == nil {
			continue
		}
		if input.Required {
			c.add(field.Forbidden(path.Child("default"), "an input is either required or has a default: remove one of them"))
		}
		c.checkLength(path.Child("default"), *input.Default, MaxValueLength)
		if strings.Contains(*input.Default, "${{") {
			c.add(field.Forbidden(path.Child("default"), "a default is taken as it is and holds no expressions: write ${{ inputs.NAME }} where the input is used"))
		}
	}
}

func (c *checker) checkOutputs(path *field.Path, outputs map[string]workflowsv1alpha1.Output, maxName int, sees view) {
	checkEntries(c, path, outputs, workflowsv1alpha1.MaxOutputs)
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		path := path.Key(name)
		c.checkName(path, "output", name, maxName)
		c.checkText(path.Child("value"), outputs[name].Value, MaxValueLength, sees)
		c.checkLength(path.Child("description"), outputs[name].Description, maxDescription)
	}
}

func (c *checker) add(err *field.Error) {
	if len(c.errors) >= MaxErrors {
		c.more++
		return
	}
	c.errors = append(c.errors, err)
}

func (c *checker) addf(kind field.ErrorType, path *field.Path, value any, format string, args ...any) {
	c.add(&field.Error{Type: kind, Field: path.String(), BadValue: value, Detail: fmt.Sprintf(format, args...)})
}

// Sort puts errors into the order in which this package reports them: by path, in which numbers count as numbers, so
// that steps[2] comes before steps[10]. Those of one path keep their order.
func Sort(errs field.ErrorList) {
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return comparePaths(a.Field, b.Field) })
}

// sorted returns the errors in their order, the last one for those that were left out.
func (c *checker) sorted() field.ErrorList {
	Sort(c.errors)
	if c.more > 0 {
		return append(c.errors, field.Invalid(field.NewPath("spec"), field.OmitValueType{}, fmt.Sprintf("and %d more errors", c.more)))
	}
	return c.errors
}

func comparePaths(a, b string) int {
	for a != "" && b != "" {
		if n, m := digits(a), digits(b); n > 0 && m > 0 {
			x, y := strings.TrimLeft(a[:n], "0"), strings.TrimLeft(b[:m], "0")
			if order := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y), cmp.Compare(n, m)); order != 0 {
				return order
			}
			a, b = a[n:], b[m:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(rank(a[0]), rank(b[0]))
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// rank puts the end of a key before all that a longer key goes on with: jobs[a] comes before jobs[a-b].
func rank(c byte) int {
	if c == ']' {
		return -1
	}
	return int(c)
}

// digits counts the digits at the start of text.
func digits(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}
