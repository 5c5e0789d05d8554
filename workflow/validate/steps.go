package validate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// checkSteps checks the steps of a job or Action; jobs is the rule for outputs of jobs.
func (c *checker) checkSteps(path *field.Path, steps []workflowsv1alpha1.Step, names stepNames, jobs rule) {
	if len(steps) == 0 {
		c.add(field.Required(path, "name at least one step"))
	}
	if len(steps) > workflowsv1alpha1.MaxStepsPerJob {
		c.add(field.TooMany(path, len(steps), workflowsv1alpha1.MaxStepsPerJob))
	}
	for i := range steps {
		step, path := &steps[i], path.Index(i)
		c.checkName(path.Child("name"), "step", step.Name, workflowsv1alpha1.MaxNameLength)
		if names.places[step.Name] != i {
			c.add(field.Duplicate(path.Child("name"), step.Name))
		}
		c.checkStep(path, names.job, step, view{inputs: c.declaredInput, steps: names.before(i), jobs: jobs})
	}
}

func (c *checker) checkStep(path *field.Path, job string, step *workflowsv1alpha1.Step, sees view) {
	switch {
	case step.Run == "" && step.Uses == "" && c.kind == "Action":
		c.add(field.Required(path.Child("run"), "a step of an Action runs a script"))
	case step.Run == "" && step.Uses == "":
		c.add(field.Required(path, "a step has either run or uses, the name of an Action"))
	case step.Uses != "" && c.kind == "Action":
		c.add(field.Forbidden(path.Child("uses"), "the steps of an Action run scripts: an Action cannot call another Action"))
	case step.Run != "" && step.Uses != "":
		c.add(field.Forbidden(path.Child("uses"), "a step has either run or uses, not both"))
	case step.Uses != "":
		c.checkActionCall(path, step, sees)
		return
	}
	c.checkText(path.Child("run"), step.Run, MaxScriptLength, sees)
	c.checkEnv(path.Child("env"), step.Env, sees)
	if len(step.With) > 0 && step.Uses == "" {
		c.add(field.Forbidden(path.Child("with"), "with belongs to a step with uses: hand values to a script with env"))
	}
	c.checkTimeout(path.Child("timeout"), step.Timeout)
	c.checkArtifacts(path.Child("artifacts"), job, step.Artifacts)
}

// checkTimeout checks the bound of an execution.
func (c *checker) checkTimeout(path *field.Path, timeout *metav1.Duration) {
	if timeout != nil && (timeout.Duration < minTimeout || timeout.Duration > maxTimeout) {
		c.addf(field.ErrorTypeInvalid, path, timeout.Duration.String(), "timeout must be a duration from 1ms to 8760h, such as 90s or 1h30m")
	}
}

// checkActionCall checks a step that calls an Action.
func (c *checker) checkActionCall(path *field.Path, step *workflowsv1alpha1.Step, sees view) {
	c.checkObjectName(path.Child("uses"), "Action", step.Uses)
	for _, other := range []struct {
		field string
		set   bool
	}{
		{"artifacts", len(step.Artifacts) > 0},
		{"env", len(step.Env) > 0},
		{"timeout", step.Timeout != nil},
	} {
		if other.set {
			c.add(field.Forbidden(path.Child(other.field), "a step with uses takes only with: this belongs into the Action that it calls"))
		}
	}
	c.checkWith(path.Child("with"), step.With, sees)
}
