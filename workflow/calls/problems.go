package calls

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/expression"
	"kruntimes.io/kruntimes/workflow/template"
	"kruntimes.io/kruntimes/workflow/validate"
)

// problems returns what is wrong with the calls of one definition, sorted by path, save for cycles and bounds of the
// graph. The Workflows that its jobs call have been followed; of those that lead into a cycle nothing further is said.
func (c *checker) problems(kind string, jobs map[string]workflowsv1alpha1.Job) (field.ErrorList, error) {
	errs, err := c.stepProblems(kind, jobs)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		job := jobs[name]
		if job.Uses != "" {
			errs = append(errs, callProblems(field.NewPath("spec", "jobs").Key(name), &job, c.workflows[job.Uses])...)
		}
	}
	validate.Sort(errs)
	return errs, nil
}

// callProblems returns what is wrong with the call of a Workflow by the job at path.
func callProblems(path *field.Path, job *workflowsv1alpha1.Job, callee *workflow) field.ErrorList {
	switch {
	case callee.wrong != "":
		return field.ErrorList{uncallable(path.Child("uses"), job.Uses, callee.spec != nil, callee.wrong)}
	case callee.spec == nil:
		// The definition at the top calls itself.
		return nil
	}
	var errs field.ErrorList
	if callee.problem != "" {
		errs = append(errs, field.Invalid(path.Child("uses"), job.Uses, fmt.Sprintf("%s: %s", callee, andMore(callee.problem, callee.more))))
	}
	return append(errs, template.CheckKeys(path.Child("with"), callee.String(), callee.spec.Inputs, job.With)...)
}

// uncallable says at path, which names a definition, why that cannot be called.
func uncallable(path *field.Path, name string, exists bool, why string) *field.Error {
	err := field.Invalid(path, name, why)
	if !exists {
		err.Type = field.ErrorTypeNotFound
	}
	return err
}

// stepProblems returns what is wrong with the calls of Actions by the steps of one definition.
func (c *checker) stepProblems(kind string, jobs map[string]workflowsv1alpha1.Job) (field.ErrorList, error) {
	path := field.NewPath("spec", "jobs")
	var errs field.ErrorList
	called := map[string]*action{}
	written, steps := 0, 0
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		job := jobs[name]
		if job.Uses != "" {
			continue
		}
		written, steps = written+len(job.Steps), steps+len(job.Steps)
		for i := range job.Steps {
			step := &job.Steps[i]
			if step.Uses == "" {
				continue
			}
			callee, err := c.action(step.Uses)
			if err != nil {
				return nil, err
			}
			path := path.Key(name).Child("steps").Index(i)
			if callee.wrong != "" {
				errs = append(errs, uncallable(path.Child("uses"), step.Uses, callee.spec != nil, callee.wrong))
				continue
			}
			called[step.Uses] = callee
			steps += len(callee.spec.Steps) - 1
			errs = append(errs, artifactProblems(path.Child("uses"), callee, caller{kind: kind, jobs: jobs, job: name})...)
			errs = append(errs, template.CheckKeys(path.Child("with"), callee.String(), callee.spec.Inputs, step.With)...)
		}
	}
	if steps > workflowsv1alpha1.MaxSteps && written <= workflowsv1alpha1.MaxSteps {
		errs = append(errs, &field.Error{Type: field.ErrorTypeTooMany, Field: path.String(), BadValue: steps,
			Detail: fmt.Sprintf("all jobs together may have %d steps, those of the Actions that they call included: split the work into several %ss",
				workflowsv1alpha1.MaxSteps, kind)})
	}
	tooLarge, err := sizeProblems(path, kind, jobs, called)
	return append(errs, tooLarge...), err
}

// sizeProblems measures a definition together with the Actions that it calls.
func sizeProblems(path *field.Path, kind string, jobs map[string]workflowsv1alpha1.Job, called map[string]*action) (field.ErrorList, error) {
	if len(called) == 0 {
		return nil, nil
	}
	written, err := jsonSize(workflowsv1alpha1.WorkflowRunSpec{Jobs: jobs})
	if err != nil {
		return nil, fmt.Errorf("encoding the jobs: %w", err)
	}
	size := written
	for _, callee := range called {
		size += callee.size
	}
	if size <= workflowsv1alpha1.MaxDefinitionBytes || written > workflowsv1alpha1.MaxDefinitionBytes {
		return nil, nil
	}
	return field.ErrorList{{Type: field.ErrorTypeTooLong, Field: path.String(), BadValue: size,
		Detail: fmt.Sprintf("the jobs and the Actions that they call have %d bytes as JSON, and may have %d: split the work into several %ss",
			size, workflowsv1alpha1.MaxDefinitionBytes, kind)}}, nil
}

// caller is the job that calls an Action.
type caller struct {
	// kind of the definition that holds the job.
	kind string
	// jobs of the definition, and the name of the one that calls.
	jobs map[string]workflowsv1alpha1.Job
	job  string
}

// artifactProblems returns, at the call of an Action, which artifacts it takes of jobs that its caller does not need.
// One whose job is known only with the inputs is not looked at.
func artifactProblems(path *field.Path, callee *action, from caller) field.ErrorList {
	var errs field.ErrorList
	for i := range callee.spec.Steps {
		for k, artifact := range callee.spec.Steps[i].Artifacts {
			source, known := constant(artifact.From)
			if !known {
				continue
			}
			job, _, _ := validate.ArtifactSource(source)
			if why := validate.NotNeeded(from.kind, from.jobs, from.job, job); why != "" {
				at := field.NewPath("spec", "steps").Index(i).Child("artifacts").Index(k).Child("from")
				errs = append(errs, field.Invalid(path, callee.name, fmt.Sprintf("%s: %s: %s", callee, at, why)))
			}
		}
	}
	return errs
}

// constant returns what a text evaluates to, where that is known already.
func constant(text string) (string, bool) {
	parsed, _ := expression.Parse(text)
	if !parsed.IsConstant() {
		return "", false
	}
	value, err := parsed.Evaluate(expression.Scope{})
	return value, err == nil
}
