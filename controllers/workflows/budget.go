package workflows

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

const (
	// maxStepMessage and maxJobMessage keep the messages of 1,024 steps and 64 jobs together far below the bound of a
	// status. Unit: bytes.
	maxStepMessage = 256
	maxJobMessage  = 768
	// perStep, perJob and perOutput are what the JSON of a status holds beside names and texts, rounded up. Unit: bytes.
	perStep   = 320
	perJob    = 320
	perOutput = 8
	// perStatus is what the JSON of a status holds beside its jobs: messages, conditions, times. Unit: bytes.
	perStatus = 8192
)

// budget is by how much a WorkflowRun may still grow.
type budget struct {
	// outputs is how many bytes all outputs may still take, status the JSON of the status.
	outputs, status int
	// artifacts is how many names of artifacts may still come.
	artifacts int
	// escapes is how many bytes of the status are there only because JSON writes some characters of outputs with several.
	escapes int
}

// newBudget takes off what a stored status holds, and what the names and messages of its jobs and steps may come to hold.
func newBudget(run *workflowsv1alpha1.WorkflowRun) *budget {
	b := &budget{
		outputs: workflowsv1alpha1.MaxOutputBytes, status: workflowsv1alpha1.MaxStatusBytes - perStatus,
		artifacts: workflowsv1alpha1.MaxArtifactNames,
	}
	for name, js := range run.Status.Jobs {
		b.status -= perJob + len(name) + maxJobMessage + maxStepMessage // One step of a job can fail.
		for _, pre := range js.Pre {
			b.status -= len(pre) + perOutput
		}
		b.charge(js.Outputs, 1)
		for _, ref := range js.Artifacts {
			b.chargeArtifact(ref, 1)
		}
		if run.Spec.Jobs[name].Uses != "" {
			b.status -= maxName // of the child
		}
		for i := range js.Steps {
			step := js.Steps[i].Name
			if len(js.Steps[i].ActionSteps) > 0 {
				b.status -= perStep + len(step)
				b.charge(js.Steps[i].Outputs, 1)
			}
			for l := range leavesOfStep(name, &js.Steps[i]) {
				own := len(step) + len(l.id.actionStep)
				b.status -= perStep + own + min(len(run.Name)+len(name)+own+len("---")+hashSuffix, maxName)
				b.charge(*l.outputs, 1)
			}
		}
	}
	return b
}

// charge takes outputs off the budget, or puts them back with times -1.
func (b *budget) charge(values map[string]corev1alpha1.OutputValue, times int) {
	for name, value := range values {
		b.outputs -= times * (len(name) + len(value))
		escaped := escapedLength(string(value))
		b.status -= times * (len(name) + escaped + perOutput)
		b.escapes += times * (escaped - len(value))
	}
}

// take charges new outputs. It returns an error that says what is over its bound, and charges nothing then.
func (b *budget) take(values map[string]corev1alpha1.OutputValue) error {
	if len(values) == 0 {
		return nil
	}
	b.charge(values, 1)
	var err error
	switch {
	case b.outputs < 0:
		err = fmt.Errorf("%s: all outputs of a WorkflowRun together may hold %d bytes: pass large data as files",
			workflowsv1alpha1.WordOutputsTooLarge, workflowsv1alpha1.MaxOutputBytes)
	case b.status < 0:
		err = b.errStatusTooLarge()
	}
	if err != nil {
		b.charge(values, -1)
	}
	return err
}

// chargeArtifact takes an artifact off the budget, or puts it back with times -1.
func (b *budget) chargeArtifact(ref corev1alpha1.ArtifactRef, times int) {
	b.artifacts -= times
	b.status -= times * (escapedLength(ref.Name) + encodedLength(ref) + perOutput)
}

// takeArtifact charges an artifact of a job, in place of the one that it replaces. It returns an error that says what is
// over its bound, and charges nothing then.
func (b *budget) takeArtifact(ref corev1alpha1.ArtifactRef, js *workflowsv1alpha1.JobStatus) error {
	before, isReplaced := js.Artifacts[ref.Name]
	if isReplaced {
		b.chargeArtifact(before, -1)
	}
	b.chargeArtifact(ref, 1)
	var err error
	switch {
	case !isReplaced && len(js.Artifacts) >= workflowsv1alpha1.MaxArtifactNamesPerJob:
		err = fmt.Errorf("%s: the steps of a job may leave artifacts under %d names: pack several files into a directory",
			workflowsv1alpha1.WordTooManyArtifacts, workflowsv1alpha1.MaxArtifactNamesPerJob)
	case b.artifacts < 0:
		err = fmt.Errorf("%s: the jobs of a WorkflowRun may leave %d artifacts: pack several files into a directory",
			workflowsv1alpha1.WordTooManyArtifacts, workflowsv1alpha1.MaxArtifactNames)
	case b.status < 0:
		err = b.errStatusTooLarge()
	default:
		return nil
	}
	b.chargeArtifact(ref, -1)
	if isReplaced {
		b.chargeArtifact(before, 1)
	}
	return err
}

// errStatusTooLarge says that a status may grow no more, and what would help.
func (b *budget) errStatusTooLarge() error {
	advice := "split it into several WorkflowRuns"
	if b.status+b.escapes >= 0 {
		advice = "outputs hold characters that JSON writes with up to six bytes (control characters, <, >, &, quotes): encode them, as base64 for example"
	}
	return fmt.Errorf("%s: the status of a WorkflowRun may hold %d bytes of JSON: %s",
		workflowsv1alpha1.WordStatusTooLarge, workflowsv1alpha1.MaxStatusBytes, advice)
}

// encodedLength is the length of the JSON of what came as JSON.
func encodedLength(value any) int {
	data, err := json.Marshal(value)
	if err != nil { // never: it came as JSON, and holds nothing but texts and numbers
		return workflowsv1alpha1.MaxStatusBytes
	}
	return len(data)
}

// escapedLength is the length of text within JSON as the API server writes it, or more.
func escapedLength(text string) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c < 0x20 || c == '<' || c == '>' || c == '&':
			n += 5
		case c == '"' || c == '\\':
			n++
		case strings.HasPrefix(text[i:], "\u2028"), strings.HasPrefix(text[i:], "\u2029"):
			n += 3
		}
	}
	return n
}
