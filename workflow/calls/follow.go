package calls

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// errTooMany tells that more Workflows are reachable than calls may expand to, so that the rest need not be read.
var errTooMany = errors.New("more Workflows than calls may expand to")

// mostExpanded is where counting stops. It lies above what calls of the greatest depth can expand to, and far enough
// below the greatest integer that adding two of it does not overflow.
const mostExpanded = 1 << 50

// workflow is what is known about a called Workflow.
type workflow struct {
	name string
	// spec is nil where there is no such Workflow, and of the one that the check began with.
	spec *workflowsv1alpha1.WorkflowSpec
	// wrong says why it cannot be called at all, or is empty. Its own calls are not followed then.
	wrong string
	// open tells that it is on the path that is being followed.
	open bool
	// done tells that it leads into no cycle and that all below is known. What it leads to is done as well.
	done bool
	// calls are the Workflows that its jobs call, in the order of the jobs' names. Known when it is done.
	calls []*workflow
	// height counts the Workflows on the longest path down from it, and expanded the WorkflowRuns that calling it comes
	// to; it counts in both itself. Known when it is done.
	height, expanded int
	// problem is the first thing that is wrong with its calls, with its place, or is empty; more counts the others. Known
	// when it is done.
	problem string
	more    int
}

// String gives the Workflow as messages call it.
func (w *workflow) String() string { return fmt.Sprintf("Workflow %q", w.name) }

// follow finds out all about the Workflow that is called at the end of the path. A cycle that it leads into is returned
// as the names on it; the Workflows on the path are not done then, and met again on another path they are followed
// again: which of its Workflows opens a cycle depends on the path.
func (c *checker) follow(name string) (callee *workflow, cycle string, err error) {
	callee, err = c.workflow(name)
	if err != nil || callee.done {
		return callee, "", err
	}
	if callee.open {
		return callee, strings.Join(c.path[slices.Index(c.path, name):], " -> ") + " -> " + name, nil
	}
	c.path, callee.open = append(c.path, name), true
	defer func() { c.path, callee.open = c.path[:len(c.path)-1], false }()
	var calls []*workflow
	height, expanded := 0, 0
	for _, job := range slices.Sorted(maps.Keys(callee.spec.Jobs)) {
		uses := callee.spec.Jobs[job].Uses
		if uses == "" {
			continue
		}
		next, cycle, err := c.follow(uses)
		if err != nil || cycle != "" {
			return callee, cycle, err
		}
		calls = append(calls, next)
		height, expanded = max(height, next.height), add(expanded, next.expanded)
	}
	problems, err := c.problems("Workflow", callee.spec.Jobs)
	if err != nil {
		return callee, "", err
	}
	if len(problems) > 0 {
		callee.problem, callee.more = problems[0].Field+": "+problems[0].Detail, len(problems)-1
	}
	callee.calls, callee.height, callee.expanded, callee.done = calls, height+1, add(expanded, 1), true
	return callee, "", nil
}

// tooDeep says that the calls below callee, which the definition at the top calls, are nested too deep. It names the
// first path on which they are.
func (c *checker) tooDeep(callee *workflow) string {
	names := append(slices.Clone(c.path), callee.name)
	for len(names) <= MaxDepth {
		missing := MaxDepth + 1 - len(names)
		callee = callee.calls[slices.IndexFunc(callee.calls, func(next *workflow) bool { return next.height >= missing })]
		names = append(names, callee.name)
	}
	return fmt.Sprintf("calls are nested %d deep (%s), and may be %d", len(names), strings.Join(names, " -> "), MaxDepth)
}

// add adds two counts of WorkflowRuns, up to mostExpanded.
func add(a, b int) int { return min(a+b, mostExpanded) }
