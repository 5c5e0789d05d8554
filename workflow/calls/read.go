package calls

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/validate"
)

// maxQuoted bounds how much of an error of a called definition is quoted. Unit: bytes.
const maxQuoted = 512

// workflow reads the Workflow of the given name, where that has not been done.
func (c *checker) workflow(name string) (*workflow, error) {
	if known, read := c.workflows[name]; read {
		return known, nil
	}
	if len(c.workflows) > MaxExpanded {
		return nil, errTooMany
	}
	spec, err := read(c.defs.Workflow, name)
	if err != nil {
		return nil, fmt.Errorf("reading Workflow %q: %w", name, err)
	}
	w := &workflow{name: name, spec: spec}
	c.workflows[name] = w
	if spec == nil {
		w.wrong = fmt.Sprintf("there is no %s in this namespace", w)
	} else if errs := validate.Workflow(spec); len(errs) > 0 {
		w.wrong = invalid(w.String(), errs)
	}
	if w.wrong != "" {
		w.done, w.height, w.expanded = true, 1, 1
	}
	return w, nil
}

// action is what is known about a called Action.
type action struct {
	name string
	// spec is nil where there is no such Action.
	spec *workflowsv1alpha1.ActionSpec
	// wrong says why it cannot be called at all, or is empty.
	wrong string
	// size of the spec as JSON. Unit: bytes.
	size int
}

// String gives the Action as messages call it.
func (a *action) String() string { return fmt.Sprintf("Action %q", a.name) }

// action reads the Action of the given name, where that has not been done.
func (c *checker) action(name string) (*action, error) {
	if known, read := c.actions[name]; read {
		return known, nil
	}
	spec, err := read(c.defs.Action, name)
	if err != nil {
		return nil, fmt.Errorf("reading Action %q: %w", name, err)
	}
	a := &action{name: name, spec: spec}
	c.actions[name] = a
	if spec == nil {
		a.wrong = fmt.Sprintf("there is no %s in this namespace", a)
		return a, nil
	}
	if errs := validate.Action(spec); len(errs) > 0 {
		a.wrong = invalid(a.String(), errs)
	}
	if a.size, err = jsonSize(spec); err != nil {
		return nil, fmt.Errorf("encoding Action %q: %w", name, err)
	}
	return a, nil
}

// read finds a definition. No object can have a name that is none, so that asking for it, which some readers call an
// error, is of no use.
func read[Spec any](from func(name string) (*Spec, error), name string) (*Spec, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, nil
	}
	return from(name)
}

func jsonSize(spec any) (int, error) {
	data, err := json.Marshal(spec)
	return len(data), err
}

// invalid says that a definition is invalid, and first of all why.
func invalid(what string, errs field.ErrorList) string {
	return fmt.Sprintf("%s is invalid: %s", what, andMore(cut(validate.Line(errs[0])), len(errs)-1))
}

// andMore adds to one problem how many others there are.
func andMore(problem string, more int) string {
	if more == 0 {
		return problem
	}
	return fmt.Sprintf("%s, and %d more", problem, more)
}

// cut shortens a message, which may quote half of a hostile definition.
func cut(message string) string {
	if len(message) <= maxQuoted {
		return message
	}
	end := maxQuoted
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + "…"
}
