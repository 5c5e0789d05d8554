package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
	"kruntimes.io/kruntimes/workflow/expression"
	"kruntimes.io/kruntimes/workflow/validate"
)

const (
	// maxArtifactText bounds where an artifact comes from and where it goes. Unit: bytes; the schema counts characters.
	maxArtifactText = 4096
	// maxListed is how many artifacts a message names.
	maxListed = 8
)

// keepArtifacts adds what a successful Run left to the artifacts of its job. The steps of a job end one after another, so
// that what is there under a name comes from an earlier one, and is replaced.
func keepArtifacts(js *workflowsv1alpha1.JobStatus, made []corev1alpha1.ArtifactRef, left *budget) error {
	for _, ref := range made {
		if err := left.takeArtifact(ref, js); err != nil {
			return err
		}
		if js.Artifacts == nil {
			js.Artifacts = map[string]corev1alpha1.ArtifactRef{}
		}
		js.Artifacts[ref.Name] = *ref.DeepCopy()
	}
	return nil
}

// lacksArtifacts tells whether a job that could start asks for an artifact that is not there, and fails it then. All its
// steps are looked at, so that none is executed in vain: what the needed jobs left is final.
func lacksArtifacts(o observation, name string, js *workflowsv1alpha1.JobStatus, status *workflowsv1alpha1.WorkflowRunStatus) bool {
	var missing []string
	job := o.run.Spec.Jobs[name]
	for i := range js.Steps {
		if !o.wantsArtifacts(&job.Steps[i]) {
			continue
		}
		for l := range leavesOfStep(name, &js.Steps[i]) {
			step, scope, err := o.script(&job, status, l.id)
			if err != nil {
				continue // What it gets is not known before earlier steps have ended, or never: that is told in its turn.
			}
			if _, err := artifactInputs(o, name, step.Artifacts, status, expression.Scope{Inputs: scope.Inputs}); err != nil {
				*l.message = statuspatch.Bounded(err.Error(), maxStepMessage)
				missing = append(missing, l.what()+": "+err.Error())
			}
		}
	}
	if len(missing) == 0 {
		return false
	}
	fail(o, js, strings.Join(missing, "; "))
	return true
}

// wantsArtifacts tells whether a step, or one of the Action that it calls, gets artifacts.
func (o *observation) wantsArtifacts(step *workflowsv1alpha1.Step) bool {
	action := o.actions[step.Uses]
	return len(step.Artifacts) > 0 || action != nil &&
		slices.ContainsFunc(action.Steps, func(s workflowsv1alpha1.Step) bool { return len(s.Artifacts) > 0 })
}

// artifactInputs resolves the artifacts that a step gets, from jobs that have succeeded, into those of its Run.
// Their texts see scope.
func artifactInputs(o observation, job string, wanted []workflowsv1alpha1.StepArtifact, status *workflowsv1alpha1.WorkflowRunStatus, scope expression.Scope) ([]corev1alpha1.ArtifactInput, error) {
	var inputs []corev1alpha1.ArtifactInput
	var missing []string
	r := renderer{left: maxChildBytes}
	for i, a := range wanted {
		field, failures := "artifacts["+strconv.Itoa(i)+"]", len(r.errs)
		from := r.render(field+".from", a.From, maxArtifactText, scope)
		path := r.render(field+".path", a.Path, maxArtifactText, scope)
		if len(r.errs) > failures {
			continue
		}
		ref, err := resolve(o.run.Spec.Jobs, job, from, status)
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		inputs = append(inputs, corev1alpha1.ArtifactInput{Artifact: *ref.DeepCopy(), Path: path})
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, errors.New(workflowsv1alpha1.WordArtifactMissing + ": " + strings.Join(missing, "; "))
	}
	return inputs, nil
}

// resolve finds an artifact for the asking job, of one that it needs. The error says what there is instead. An Action that
// takes the place of the artifact from its inputs could not be checked earlier.
func resolve(jobs map[string]workflowsv1alpha1.Job, asking, from string, status *workflowsv1alpha1.WorkflowRunStatus) (corev1alpha1.ArtifactRef, error) {
	job, name, ok := validate.ArtifactSource(from)
	if !ok {
		return corev1alpha1.ArtifactRef{}, fmt.Errorf("%q is not jobs.<job>.artifacts.<name>", from)
	}
	if why := validate.NotNeeded("WorkflowRun", jobs, asking, job); why != "" {
		return corev1alpha1.ArtifactRef{}, errors.New(why)
	}
	js := status.Jobs[job]
	if js.Phase != workflowsv1alpha1.JobSucceeded { // never: it is needed, and the asking job would wait
		return corev1alpha1.ArtifactRef{}, fmt.Errorf("job %s has not succeeded", job)
	}
	ref, ok := js.Artifacts[name]
	if !ok {
		return corev1alpha1.ArtifactRef{}, fmt.Errorf("job %s left no artifact %q: %s", job, name, listing(js.Artifacts))
	}
	return ref, nil
}

// listing says which artifacts there are.
func listing(artifacts map[string]corev1alpha1.ArtifactRef) string {
	if len(artifacts) == 0 {
		return "it left none"
	}
	names := sortedKeys(artifacts)
	more := max(len(names)-maxListed, 0)
	names = names[:len(names)-more]
	for i, name := range names {
		names[i] = strconv.Quote(name)
	}
	text := "it left " + strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
