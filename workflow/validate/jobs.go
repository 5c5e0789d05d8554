package validate

import (
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/graph"
)

func (c *checker) checkJobs(path *field.Path) {
	if len(c.jobs) == 0 {
		c.add(field.Required(path, "name at least one job"))
	}
	checkEntries(c, path, c.jobs, workflowsv1alpha1.MaxJobs)
	steps := 0
	for _, name := range slices.Sorted(maps.Keys(c.jobs)) {
		job := c.jobs[name]
		steps += len(job.Steps)
		c.checkName(path.Key(name), "job", name, workflowsv1alpha1.MaxNameLength)
		c.checkJob(path.Key(name), name, &job)
	}
	if steps > workflowsv1alpha1.MaxSteps {
		c.addf(field.ErrorTypeTooMany, path, steps, "all jobs together may have %d steps: split the work into several %ss", workflowsv1alpha1.MaxSteps, c.kind)
	}
	c.checkGraph(path)
}

// checkGraph checks that the needs lead to an order.
func (c *checker) checkGraph(path *field.Path) {
	needs := make(map[string][]string, len(c.jobs))
	for name, job := range c.jobs {
		needs[name] = job.Needs
	}
	at := func(job, need string) *field.Path {
		return path.Key(job).Child("needs").Index(slices.Index(needs[job], need))
	}
	_, err := graph.Order(needs)
	for _, err := range unjoin(err) {
		var unknown *graph.UnknownNeedError
		var cycle *graph.CycleError
		switch {
		case errors.As(err, &unknown):
			c.addf(field.ErrorTypeInvalid, at(unknown.Job, unknown.Need), unknown.Need, "%s", c.unknownJob(unknown.Need))
		case errors.As(err, &cycle):
			c.addf(field.ErrorTypeInvalid, at(cycle.Path[0], cycle.Path[1]), cycle.Path[1], "%s", cycle)
		}
	}
}

// unjoin undoes errors.Join.
func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}

func (c *checker) checkJob(path *field.Path, name string, job *workflowsv1alpha1.Job) {
	c.checkNeeds(path.Child("needs"), job.Needs)
	switch {
	case len(job.Steps) == 0 && job.Uses == "":
		c.add(field.Required(path, "a job has either steps or uses, the name of a Workflow"))
	case len(job.Steps) > 0 && job.Uses != "":
		c.add(field.Forbidden(path.Child("uses"), "a job has either steps or uses, not both"))
	case job.Uses != "":
		c.checkCall(path, name, job)
		return
	}
	c.checkInlineJob(path, name, job)
}

// checkInlineJob checks a job with steps.
func (c *checker) checkInlineJob(path *field.Path, name string, job *workflowsv1alpha1.Job) {
	needed := c.outputNeededBy(name)
	inputsOnly := view{inputs: c.declaredInput, steps: hidden("runs-on sees inputs only"), jobs: hidden("runs-on sees inputs only")}
	if job.RunsOn == "" {
		c.add(field.Required(path.Child("runs-on"), "a job with steps needs runs-on, the name of a Runtime"))
	} else if runtime, known := c.checkText(path.Child("runs-on"), job.RunsOn, MaxObjectNameLength, inputsOnly); known {
		c.checkObjectName(path.Child("runs-on"), "Runtime", runtime)
	}
	if len(job.With) > 0 && job.Uses == "" {
		c.add(field.Forbidden(path.Child("with"), "with belongs to a job with uses: hand values to steps with env"))
	}
	c.checkEnv(path.Child("env"), job.Env, view{
		inputs: c.declaredInput,
		steps:  hidden("the env of a job is there before its first step: put this into the env of the step that reads it"),
		jobs:   needed,
	})
	steps := stepsOf(name, job.Steps)
	if len(job.Steps) > 0 {
		c.checkSteps(path.Child("steps"), job.Steps, steps, needed)
	}
	c.checkOutputs(path.Child("outputs"), job.Outputs, workflowsv1alpha1.MaxNameLength, view{inputs: c.declaredInput, steps: steps.any, jobs: needed})
}

// checkCall checks a job that calls a Workflow.
func (c *checker) checkCall(path *field.Path, name string, job *workflowsv1alpha1.Job) {
	c.checkObjectName(path.Child("uses"), "Workflow", job.Uses)
	for _, other := range []struct {
		field string
		set   bool
	}{
		{"env", len(job.Env) > 0},
		{"outputs", len(job.Outputs) > 0},
		{"runs-on", job.RunsOn != ""},
	} {
		if other.set {
			c.add(field.Forbidden(path.Child(other.field), "a job with uses takes only with and needs: this belongs into the Workflow that it calls"))
		}
	}
	c.checkWith(path.Child("with"), job.With, view{
		inputs: c.declaredInput,
		steps:  hidden("a job with uses has no steps"),
		jobs:   c.outputNeededBy(name),
	})
}

// checkNeeds checks the list alone; checkGraph follows it.
func (c *checker) checkNeeds(path *field.Path, needs []string) {
	if len(needs) > maxNeeds {
		c.add(field.TooMany(path, len(needs), maxNeeds))
	}
	for i, need := range needs {
		if slices.Contains(needs[:i], need) {
			c.add(field.Duplicate(path.Index(i), need))
		}
	}
}
