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
	// Job and Step narrow the choice to those of these names. Empty: all.
	Job, Step string
}

// Selector returns the labels by which the Runs are found.
func (s Steps) Selector(run *workflowsv1alpha1.WorkflowRun) client.MatchingLabels {
	labels := client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(run.UID)}
	if s.Job != "" {
		labels[workflowsv1alpha1.LabelJob] = s.Job
	}
	if s.Step != "" {
		labels[workflowsv1alpha1.LabelStep] = s.Step
	}
	return labels
}

// Paths returns the paths of all steps that can be chosen, in their order.
func (s Steps) Paths(run *workflowsv1alpha1.WorkflowRun) []string {
	var paths []string
	for _, job := range Jobs(run) {
		for _, step := range job.Items {
			if (s.Job == "" || s.Job == job.Name) && (s.Step == "" || s.Step == step.Name) {
				paths = append(paths, step.Path)
			}
		}
	}
	return paths
}

// chunk is how many Runs are read with one request.
const chunk = 500

// List reads the Runs there are, in the order of their steps, and the version at which a watch can go on.
func (s Steps) List(ctx context.Context, c client.Reader, run *workflowsv1alpha1.WorkflowRun) ([]*corev1alpha1.Run, string, error) {
	places := map[string]int{}
	for i, path := range s.Paths(run) {
		places[path] = i
	}
	var found []*corev1alpha1.Run
	opts := &client.ListOptions{Namespace: run.Namespace, Limit: chunk}
	for {
		var list corev1alpha1.RunList
		if err := c.List(ctx, &list, opts, s.Selector(run)); err != nil {
			return nil, "", fmt.Errorf("listing the Runs of WorkflowRun %s: %w", run.Name, err)
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			slices.SortStableFunc(found, func(a, b *corev1alpha1.Run) int {
				return cmp.Or(places[stepPath(a)]-places[stepPath(b)],
					a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
			})
			return found, list.ResourceVersion, nil
		}
	}
}

// PathOf names the step that a Run belongs to.
func PathOf(run *corev1alpha1.Run) string {
	path := stepPath(run)
	if inner := run.Labels[workflowsv1alpha1.LabelActionStep]; inner != "" {
		path += "/" + inner
	}
	return path
}

func stepPath(run *corev1alpha1.Run) string {
	return run.Labels[workflowsv1alpha1.LabelJob] + "/" + run.Labels[workflowsv1alpha1.LabelStep]
}
