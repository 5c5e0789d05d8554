package workflowruns

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// Bounds of what is shown of calls. They lie at those of the controller, or above: nothing is lost by them.
const (
	// maxDepth is how deep calls are followed.
	maxDepth = 8
	// maxChildren is how many WorkflowRuns of calls are read.
	maxChildren = 1024
)

// Family is a WorkflowRun with those that its calls made, as far as they are known.
type Family struct {
	// Run is the WorkflowRun that a person looks at.
	Run *workflowsv1alpha1.WorkflowRun
	// Children are the WorkflowRuns of calls, at any depth, by name.
	Children map[string]*workflowsv1alpha1.WorkflowRun
}

// Alone returns a WorkflowRun of whose calls nothing is known.
func Alone(run *workflowsv1alpha1.WorkflowRun) Family { return Family{Run: run} }

// Load reads the WorkflowRuns of the calls of run, and of their calls. What could be read is returned with the error.
func Load(ctx context.Context, c client.Reader, run *workflowsv1alpha1.WorkflowRun) (Family, error) {
	family := Family{Run: run, Children: map[string]*workflowsv1alpha1.WorkflowRun{}}
	var errs []error
	level := []*workflowsv1alpha1.WorkflowRun{run}
	for depth := 0; depth < maxDepth && len(level) > 0; depth++ {
		var next []*workflowsv1alpha1.WorkflowRun
		for _, parent := range level {
			if len(calls(parent)) == 0 || len(family.Children) >= maxChildren || ctx.Err() != nil {
				continue
			}
			found, err := family.readChildren(ctx, c, parent)
			next, errs = append(next, found...), append(errs, err)
		}
		level = next
	}
	return family, errors.Join(append(errs, ctx.Err())...)
}

// readChildren adds the WorkflowRuns of the calls of one parent, and returns those that are new.
func (f Family) readChildren(ctx context.Context, c client.Reader, parent *workflowsv1alpha1.WorkflowRun) ([]*workflowsv1alpha1.WorkflowRun, error) {
	var list workflowsv1alpha1.WorkflowRunList
	labels := client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(parent.UID)}
	if err := c.List(ctx, &list, client.InNamespace(parent.Namespace), labels, client.Limit(chunk)); err != nil {
		return nil, fmt.Errorf("listing the WorkflowRuns of the calls of %s: %w", parent.Name, err)
	}
	var found []*workflowsv1alpha1.WorkflowRun
	for i := range list.Items {
		child := &list.Items[i]
		if _, known := f.Children[child.Name]; known || child.UID == f.Run.UID || !metav1.IsControlledBy(child, parent) {
			continue
		}
		f.Children[child.Name] = child
		found = append(found, child)
	}
	return found, nil
}

// calls returns the jobs of a WorkflowRun whose child is known by name, sorted.
func calls(run *workflowsv1alpha1.WorkflowRun) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(run.Status.Jobs)), func(job string) bool {
		return run.Status.Jobs[job].WorkflowRunName == ""
	})
}

// Child returns the WorkflowRun that a job of parent made by its call, or nil where it is not known.
func (f Family) Child(parent *workflowsv1alpha1.WorkflowRun, job string) *workflowsv1alpha1.WorkflowRun {
	child := f.Children[parent.Status.Jobs[job].WorkflowRunName]
	if child == nil || !metav1.IsControlledBy(child, parent) { // else it is another one of the name
		return nil
	}
	return child
}

// Member is a WorkflowRun of a family.
type Member struct {
	// Run is the WorkflowRun.
	Run *workflowsv1alpha1.WorkflowRun
	// Prefix comes before the paths of its jobs: empty, or the path of the call and a slash.
	Prefix string
	// Steps chooses among its Runs.
	Steps Steps
}

// Members returns the WorkflowRuns of a family that hold chosen Runs, each before those of its calls. Steps.Job is a job of
// the first one; a step may be one of any.
func (f Family) Members(steps Steps) []Member {
	return f.members(Member{Run: f.Run, Steps: steps}, 0)
}

func (f Family) members(first Member, depth int) []Member {
	all := []Member{first}
	if depth >= maxDepth {
		return all
	}
	for _, job := range calls(first.Run) {
		child := f.Child(first.Run, job)
		if child == nil || (first.Steps.Job != "" && first.Steps.Job != job) {
			continue
		}
		inside := Member{Run: child, Prefix: first.Prefix + job + "/", Steps: Steps{Step: first.Steps.Step}}
		all = append(all, f.members(inside, depth+1)...)
	}
	return all
}

// Complete tells whether the steps of a job are known, those inside of calls included. An empty job means all jobs.
func (f Family) Complete(job string) bool { return f.complete(f.Run, job, 0) }

func (f Family) complete(run *workflowsv1alpha1.WorkflowRun, job string, depth int) bool {
	for name := range run.Spec.Jobs {
		if run.Spec.Jobs[name].Uses == "" || (job != "" && job != name) {
			continue
		}
		if child := f.Child(run, name); child == nil || depth >= maxDepth || !f.complete(child, "", depth+1) {
			return false
		}
	}
	return true
}
