// Package workflowruns holds what several commands do with WorkflowRuns: find and track one, cancel it, bring its jobs
// and steps into an order for people, draw them as a tree, and put into words what changed and how it ended.
package workflowruns

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/track"
)

// Get reads one WorkflowRun.
func Get(ctx context.Context, c client.Reader, namespace, name string) (*workflowsv1alpha1.WorkflowRun, error) {
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, run); err != nil {
		return nil, cli.Missing(err, cli.KindWorkflowRun, namespace, name)
	}
	return run, nil
}

// cancelPatch asks for the end of a WorkflowRun. It changes nothing else, and may be sent again.
const cancelPatch = `{"spec":{"cancelRequested":true}}`

// RequestCancel asks for the end of a WorkflowRun.
func RequestCancel(ctx context.Context, c client.Writer, namespace, name string) error {
	run := &workflowsv1alpha1.WorkflowRun{}
	run.Namespace, run.Name = namespace, name
	err := c.Patch(ctx, run, client.RawPatch(types.MergePatchType, []byte(cancelPatch)))
	return cli.Missing(err, cli.KindWorkflowRun, namespace, name)
}

// Sight is one observation of a WorkflowRun.
type Sight = track.Sight[*workflowsv1alpha1.WorkflowRun]

// tracked says how WorkflowRuns are read.
var tracked = track.Kind[*workflowsv1alpha1.WorkflowRun]{
	Name:    "WorkflowRun",
	New:     func() *workflowsv1alpha1.WorkflowRun { return &workflowsv1alpha1.WorkflowRun{} },
	NewList: func() client.ObjectList { return &workflowsv1alpha1.WorkflowRunList{} },
}

// Track sends what becomes of run, beginning with run itself, until it is deleted, tracking fails, or ctx ends. Then it
// closes the channel.
func Track(ctx context.Context, c client.WithWatch, clk clock.Clock, run *workflowsv1alpha1.WorkflowRun) <-chan Sight {
	return tracked.Track(ctx, c, clk, run)
}
