// Package calls checks what a definition calls: the Workflows of its jobs, theirs in turn, and the Actions of the steps.
// It is pure; definitions come through a small getter. The controllers, krt and the linter share it, so that all of them
// decide the same of one graph, in the same words.
//
// Calls are followed depth-first, those of a definition in the order of its jobs' names. What is found about a called
// Workflow is kept, so that one that is called from many places is looked at once: the work grows with the calls that
// are written down and not with the paths through them.
//
// Errors come sorted by path, up to validate.MaxErrors. An object that does not exist gives an error of type
// field.ErrorTypeNotFound.
package calls

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/validate"
)

const (
	// MaxDepth bounds the Workflows on one path of calls, the first one included.
	MaxDepth = 8
	// MaxExpanded bounds the WorkflowRuns that all calls together come to when they are executed.
	MaxExpanded = 1024
)

// Definitions finds the definitions of one namespace. A nil spec without an error says that there is none of the name.
// An error is one of reading, never one of the definition. Nothing that is handed out is changed.
type Definitions interface {
	// Workflow returns the Workflow of the given name.
	Workflow(name string) (*workflowsv1alpha1.WorkflowSpec, error)
	// Action returns the Action of the given name.
	Action(name string) (*workflowsv1alpha1.ActionSpec, error)
}

// Workflow returns all that is wrong with what a Workflow calls, itself and further down. Paths are those of spec; what
// is wrong further down stands at the call that leads there, the first of it with its place and the rest as a count.
// Whether spec is valid in itself is not looked at; that of each definition that it calls is.
//
// name opens the path of calls: it counts 1 in the depth, and a call of it closes a cycle. The error is the first one of
// defs, each of whose definitions is read once at most.
func Workflow(defs Definitions, name string, spec *workflowsv1alpha1.WorkflowSpec) (field.ErrorList, error) {
	c := newChecker(defs)
	c.path = []string{name}
	c.workflows[name] = &workflow{name: name, open: true}
	return c.check("Workflow", spec.Jobs)
}

// Jobs does what Workflow does for the jobs of a WorkflowRun, which nothing can call and which does not count in the
// depth.
func Jobs(defs Definitions, jobs map[string]workflowsv1alpha1.Job) (field.ErrorList, error) {
	return newChecker(defs).check("WorkflowRun", jobs)
}

// Actions finds the Actions that steps of the jobs of a WorkflowRun call, by name, and all that is wrong with these
// calls, with paths below spec.jobs: an Action that does not exist or is invalid, inputs that it has not or that are
// missing, an artifact that it takes of a job which the calling one does not need, and too many steps or too large
// definitions with the Actions in place of their calls. Actions that are invalid are left out of the result. Jobs that call a
// Workflow are not followed. The error is the first one of defs.
func Actions(defs Definitions, jobs map[string]workflowsv1alpha1.Job) (map[string]*workflowsv1alpha1.ActionSpec, field.ErrorList, error) {
	c := newChecker(defs)
	errs, err := c.stepProblems("WorkflowRun", jobs)
	if err != nil {
		return nil, nil, err
	}
	specs := make(map[string]*workflowsv1alpha1.ActionSpec, len(c.actions))
	for name, action := range c.actions {
		if action.wrong == "" {
			specs[name] = action.spec
		}
	}
	return specs, sorted(errs), nil
}

// checker looks at all that one definition calls.
type checker struct {
	defs Definitions
	// path holds the names of the Workflows that are being followed, from the first one down.
	path []string
	// workflows and actions are those that have been read, by name.
	workflows map[string]*workflow
	actions   map[string]*action
}

func newChecker(defs Definitions) *checker {
	return &checker{defs: defs, workflows: map[string]*workflow{}, actions: map[string]*action{}}
}

// check returns all that is wrong with the calls of the definition at the top, which is of the given kind.
func (c *checker) check(kind string, jobs map[string]workflowsv1alpha1.Job) (field.ErrorList, error) {
	path := field.NewPath("spec", "jobs")
	var errs field.ErrorList
	expanded := 0
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		uses := jobs[name].Uses
		if uses == "" {
			continue
		}
		callee, cycle, err := c.follow(uses)
		switch {
		case errors.Is(err, errTooMany):
			return field.ErrorList{tooMany(path, MaxExpanded+1, "at least ")}, nil
		case err != nil:
			return nil, err
		case cycle != "":
			errs = append(errs, field.Invalid(path.Key(name).Child("uses"), uses, "workflow call cycle: "+cycle))
		case len(c.path)+callee.height > MaxDepth:
			errs = append(errs, field.Invalid(path.Key(name).Child("uses"), uses, c.tooDeep(callee)))
		default:
			expanded = add(expanded, callee.expanded)
		}
	}
	if expanded > MaxExpanded {
		errs = append(errs, tooMany(path, expanded, ""))
	}
	problems, err := c.problems(kind, jobs)
	if err != nil {
		return nil, err
	}
	return sorted(append(errs, problems...)), nil
}

// tooMany says that calls come to more WorkflowRuns than they may.
func tooMany(path *field.Path, expanded int, about string) *field.Error {
	return &field.Error{Type: field.ErrorTypeTooMany, Field: path.String(), BadValue: expanded,
		Detail: fmt.Sprintf("the calls expand to %s%d WorkflowRuns, and may expand to %d", about, expanded, MaxExpanded)}
}

// sorted brings errors into their order, and leaves out those that are too many.
func sorted(errs field.ErrorList) field.ErrorList {
	validate.Sort(errs)
	return errs[:min(len(errs), validate.MaxErrors)]
}
