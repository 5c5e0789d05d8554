package template

import (
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/expression"
	"kruntimes.io/kruntimes/workflow/validate"
)

// renderer writes inputs into the texts of jobs, in place.
type renderer struct {
	inputs expression.Inputs
	errors field.ErrorList
	// size of all texts with the inputs in them. Once it is more than a definition may have, nothing more is written: the
	// texts alone make the JSON at least as long. Unit: bytes.
	size int
}

// full tells that going on is of no use: there are as many errors as are reported, or the texts are too long.
func (r *renderer) full() bool {
	return len(r.errors) >= validate.MaxErrors || r.size > workflowsv1alpha1.MaxDefinitionBytes
}

func (r *renderer) job(path *field.Path, job *workflowsv1alpha1.Job) {
	job.RunsOn = r.text(path.Child("runs-on"), job.RunsOn, validate.MaxObjectNameLength)
	values(r, path.Child("env"), job.Env)
	values(r, path.Child("with"), job.With)
	for i := range job.Steps {
		r.step(path.Child("steps").Index(i), &job.Steps[i])
	}
	for _, name := range slices.Sorted(maps.Keys(job.Outputs)) {
		output := job.Outputs[name]
		output.Value = r.text(path.Child("outputs").Key(name).Child("value"), output.Value, validate.MaxValueLength)
		job.Outputs[name] = output
	}
}

func (r *renderer) step(path *field.Path, step *workflowsv1alpha1.Step) {
	step.Run = r.text(path.Child("run"), step.Run, validate.MaxScriptLength)
	values(r, path.Child("env"), step.Env)
	values(r, path.Child("with"), step.With)
	for i := range step.Artifacts {
		artifact, path := &step.Artifacts[i], path.Child("artifacts").Index(i)
		artifact.From = r.text(path.Child("from"), artifact.From, validate.MaxPathLength)
		artifact.Path = r.text(path.Child("path"), artifact.Path, validate.MaxPathLength)
	}
}

// values writes inputs into the values of a map.
func values[V ~string](r *renderer, path *field.Path, texts map[string]V) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		texts[name] = V(r.text(path.Key(name), string(texts[name]), validate.MaxValueLength))
	}
}

// text returns a text with inputs in it. It is empty where there is an error, or no use in going on.
func (r *renderer) text(path *field.Path, text string, maxLength int) string {
	if r.full() {
		return ""
	}
	template, _ := expression.Parse(text)
	rendered, err := template.Insert(r.inputs, maxLength)
	var problems expression.Errors
	if errors.As(err, &problems) {
		for _, problem := range problems {
			r.errors = append(r.errors, validate.TextError(path, problem))
		}
	}
	r.size += len(rendered)
	return rendered
}
