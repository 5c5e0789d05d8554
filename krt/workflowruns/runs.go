package workflowruns

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// Steps chooses Runs of a WorkflowRun.
type Steps struct {
	// Job and Step narrow the choice to those of these names; Step may also be a step of a called Action. Empty: all.
	Job, Step string
}

// Selector returns the labels by which the Runs are found. Includes chooses among what they find.
func (s Steps) Selector(run *workflowsv1alpha1.WorkflowRun) client.MatchingLabels {
	labels := client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(run.UID)}
	if s.Job != "" {
		labels[workflowsv1alpha1.LabelJob] = s.Job
	}
	return labels
}

// Includes tells whether a Run that the Selector found is one of a chosen step.
func (s Steps) Includes(run *corev1alpha1.Run) bool {
	return s.Step == "" || s.Step == run.Labels[workflowsv1alpha1.LabelStep] || s.Step == run.Labels[workflowsv1alpha1.LabelActionStep]
}

// Paths returns the paths of all steps that can be chosen, in their order, each before those of the Action that it calls.
func (s Steps) Paths(family Family) []string {
	var paths []string
	for _, job := range family.Jobs() {
		if s.Job == "" || s.Job == job.Name {
			paths = s.appendPaths(paths, &job)
		}
	}
	return paths
}

func (s Steps) appendPaths(paths []string, job *Item) []string {
	for i := range job.Items {
		inner := &job.Items[i]
		switch {
		case inner.isJob:
			paths = s.appendPaths(paths, inner)
		default:
			chosen := s.Step == "" || s.Step == inner.Name
			if chosen {
				paths = append(paths, inner.Path)
			}
			for _, step := range inner.Items {
				if chosen || s.Step == step.Name {
					paths = append(paths, step.Path)
				}
			}
		}
	}
	return paths
}

// Place returns the place of a path among others: its own, else that of the step around it, else -1.
func Place(paths []string, path string) int {
	for path != "" {
		if place := slices.Index(paths, path); place >= 0 {
			return place
		}
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
	return -1
}

// chunk is how many Runs are read with one request.
const chunk = 500

// List reads the Runs there are, in the order of their steps, and the version at which a watch can go on.
func (s Steps) List(ctx context.Context, c client.Reader, run *workflowsv1alpha1.WorkflowRun) ([]*corev1alpha1.Run, string, error) {
	paths, places := s.Paths(Alone(run)), map[string]int{}
	var found []*corev1alpha1.Run
	opts := &client.ListOptions{Namespace: run.Namespace, Limit: chunk}
	for {
		var list corev1alpha1.RunList
		if err := c.List(ctx, &list, opts, s.Selector(run)); err != nil {
			return nil, "", fmt.Errorf("listing the Runs of WorkflowRun %s: %w", run.Name, err)
		}
		for i := range list.Items {
			if !s.Includes(&list.Items[i]) {
				continue
			}
			found = append(found, &list.Items[i])
			places[list.Items[i].Name] = Place(paths, PathOf(&list.Items[i]))
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			slices.SortStableFunc(found, func(a, b *corev1alpha1.Run) int {
				return cmp.Or(places[a.Name]-places[b.Name],
					a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
			})
			return found, list.ResourceVersion, nil
		}
	}
}

// PathOf names the step that a Run belongs to, within its WorkflowRun.
func PathOf(run *corev1alpha1.Run) string {
	path := run.Labels[workflowsv1alpha1.LabelJob] + "/" + run.Labels[workflowsv1alpha1.LabelStep]
	if inner := run.Labels[workflowsv1alpha1.LabelActionStep]; inner != "" {
		path += "/" + inner
	}
	return path
}
