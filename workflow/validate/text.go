package validate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/expression"
	"kruntimes.io/kruntimes/workflow/suggest"
)

// Passage is the bad value of an error inside a text: the expression that is wrong. Its Position says where in the text
// it starts.
type Passage struct {
	expression.Position
	// Expression as it stands in the text.
	Expression string
}

// String gives place and expression, as a field.Error prints them.
func (p Passage) String() string {
	return expression.Error{Position: p.Position, Expression: p.Expression}.String()
}

// MarshalJSON always fails. A field.Error prints JSON where it can, in which "&&" would be "\u0026\u0026", and String
// where it cannot.
func (p Passage) MarshalJSON() ([]byte, error) {
	return nil, errors.New("a passage is text for people")
}

// TextError returns what is wrong inside the text at path as the error of a field. Its bad value is a Passage.
func TextError(path *field.Path, e expression.Error) *field.Error {
	return field.Invalid(path, Passage{Position: e.Position, Expression: e.Expression}, e.Message)
}

// rule says why a reference cannot be read where it stands, or is empty.
type rule func(expression.Reference) string

// view is what the expressions of a text can see. No rule may be nil.
type view struct {
	inputs, steps, jobs rule
}

// whyNot says why a reference cannot be read, or is empty.
func (v view) whyNot(r expression.Reference) string {
	switch r.Context {
	case expression.ContextInputs:
		return v.inputs(r)
	case expression.ContextSteps:
		return v.steps(r)
	default:
		return v.jobs(r)
	}
}

// hidden is the rule of a context that cannot be seen at all.
func hidden(why string) rule {
	return func(expression.Reference) string { return why }
}

// checkText reads a text that may hold expressions, and checks them against what they can see. The result is the text
// that stands there in the end, where that is known already.
func (c *checker) checkText(path *field.Path, text string, maxLength int, sees view) (constant string, known bool) {
	c.checkLength(path, text, maxLength)
	template, problems := expression.Parse(text)
	for _, r := range template.References() {
		if why := sees.whyNot(r); why != "" {
			problems = append(problems, r.Errorf("%s", why))
		}
	}
	slices.SortStableFunc(problems, func(a, b expression.Error) int { return a.Offset - b.Offset })
	for _, p := range problems {
		c.add(TextError(path, p))
	}
	if !template.IsConstant() {
		return "", false
	}
	constant, err := template.Evaluate(expression.Scope{})
	return constant, err == nil
}

func (c *checker) checkLength(path *field.Path, text string, maxLength int) {
	if length := utf8.RuneCountInString(text); length > maxLength {
		c.addf(field.ErrorTypeTooLong, path, length, "the text has %d characters, and may have %d", length, maxLength)
	}
}

// declaredInput is the rule for inputs.
func (c *checker) declaredInput(r expression.Reference) string {
	if c.kind == "WorkflowRun" {
		return "a WorkflowRun has no inputs: write the value itself, or declare inputs in a Workflow and trigger that"
	}
	if _, declared := c.inputs[r.Name]; declared {
		return ""
	}
	if hint := suggest.DidYouMean(r.Name, maps.Keys(c.inputs)); hint != "" {
		return fmt.Sprintf("%q is not an input of this %s%s", r.Name, c.kind, hint)
	}
	return fmt.Sprintf("%q is not an input of this %s: declare it in spec.inputs", r.Name, c.kind)
}

// outputOfAnyJob is the rule for what runs when all jobs have succeeded.
func (c *checker) outputOfAnyJob(r expression.Reference) string {
	job, exists := c.jobs[r.Owner]
	if !exists {
		return c.unknownJob(r.Owner)
	}
	if _, declared := job.Outputs[r.Name]; declared || len(job.Outputs) == 0 {
		// What a called Workflow hands out is known only when it is called. A job of steps that declares nothing is let
		// through as well: the published examples have such jobs. Reading from it fails when it is evaluated.
		return ""
	}
	if hint := suggest.DidYouMean(r.Name, maps.Keys(job.Outputs)); hint != "" {
		return fmt.Sprintf("job %q has no output %q%s", r.Owner, r.Name, hint)
	}
	return fmt.Sprintf("job %q has no output %q: declare it in jobs.%s.outputs", r.Owner, r.Name, r.Owner)
}

// outputNeededBy is the rule for jobs in the texts of the job with the given name.
func (c *checker) outputNeededBy(name string) rule {
	return func(r expression.Reference) string {
		if why := c.notNeeded(name, r.Owner); why != "" {
			return why
		}
		return c.outputOfAnyJob(r)
	}
}

// NotNeeded says why a job cannot read from another, or is empty. The jobs are those of one definition, of the given kind.
func NotNeeded(kind string, jobs map[string]workflowsv1alpha1.Job, job, other string) string {
	c := checker{kind: kind, jobs: jobs}
	return c.notNeeded(job, other)
}

// notNeeded says why the job with the given name cannot read from another, or is empty.
func (c *checker) notNeeded(name, other string) string {
	if name == other {
		return "a job cannot read from itself"
	}
	if _, exists := c.jobs[other]; !exists {
		return c.unknownJob(other)
	}
	if !slices.Contains(c.jobs[name].Needs, other) {
		return fmt.Sprintf("job %q does not need %q: add it to jobs.%s.needs", name, other, name)
	}
	return ""
}

func (c *checker) unknownJob(name string) string {
	return fmt.Sprintf("%q is not a job of this %s%s", name, c.kind, suggest.DidYouMean(name, maps.Keys(c.jobs)))
}

// stepNames knows the steps of one job or Action.
type stepNames struct {
	// job that holds the steps. Empty in an Action.
	job string
	// places maps a name to the place of the first step that bears it.
	places map[string]int
}

func stepsOf(job string, steps []workflowsv1alpha1.Step) stepNames {
	names := stepNames{job: job, places: make(map[string]int, len(steps))}
	for i := range steps {
		if _, taken := names.places[steps[i].Name]; !taken {
			names.places[steps[i].Name] = i
		}
	}
	return names
}

// any is the rule for what is evaluated when all steps have succeeded.
func (n stepNames) any(r expression.Reference) string {
	if _, exists := n.places[r.Owner]; exists {
		return ""
	}
	owner := "Action"
	if n.job != "" {
		owner = "job"
	}
	return fmt.Sprintf("%q is not a step of this %s%s", r.Owner, owner, suggest.DidYouMean(r.Owner, maps.Keys(n.places)))
}

// before is the rule for the step at a place: it sees the steps before it.
func (n stepNames) before(place int) rule {
	return func(r expression.Reference) string {
		at, exists := n.places[r.Owner]
		switch {
		case !exists:
			return n.any(r)
		case at == place:
			return "a step cannot read its own outputs"
		case at > place:
			return fmt.Sprintf("step %q comes later: a step sees only those before it", r.Owner)
		}
		return ""
	}
}
