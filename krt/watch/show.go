package watch

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// frame is how often a picture that moves is drawn anew.
const frame = 100 * time.Millisecond

// DeletedError means that a WorkflowRun was deleted before its end was seen.
type DeletedError struct {
	// Name of the WorkflowRun.
	Name string
}

func (e *DeletedError) Error() string {
	return fmt.Sprintf("the WorkflowRun %s was deleted before its end was seen", e.Name)
}

// Show shows what becomes of run until it has ended, and returns it as it was seen last.
func (v *View) Show(ctx context.Context, c client.WithWatch, clk clock.WithTicker, run *workflowsv1alpha1.WorkflowRun) (*workflowsv1alpha1.WorkflowRun, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sights := workflowruns.Track(ctx, c, clk, run)
	var pictures <-chan time.Time
	if v.Terminal.Live {
		ticker := clk.NewTicker(frame)
		defer ticker.Stop()
		pictures = ticker.C()
	}
	run, err := v.follow(ctx, sights, pictures, run)
	if endErr := v.end(); err == nil {
		err = endErr
	}
	return run, err
}

// follow shows every sight until one is the last.
func (v *View) follow(ctx context.Context, sights <-chan workflowruns.Sight, pictures <-chan time.Time, run *workflowsv1alpha1.WorkflowRun) (*workflowsv1alpha1.WorkflowRun, error) {
	for {
		select {
		case <-ctx.Done():
			return run, ctx.Err()
		case <-pictures:
			if err := v.tick(); err != nil {
				return run, err
			}
		case sight, open := <-sights:
			switch {
			case !open:
				return run, ctx.Err()
			case sight.Err != nil:
				return run, sight.Err
			case sight.Lost != nil:
				v.Say("the connection to the cluster is lost, trying again: %v", sight.Lost)
				continue
			}
			run = sight.Object
			if err := v.show(run); err != nil {
				return run, err
			}
			switch {
			case workflowruns.Phase(run).IsTerminal():
				return run, nil
			case sight.Deleted:
				return run, &DeletedError{Name: run.Name}
			}
		}
	}
}

// Await waits for the end of run without showing anything, and returns it as it was seen last.
func Await(ctx context.Context, c client.WithWatch, clk clock.Clock, run *workflowsv1alpha1.WorkflowRun) (*workflowsv1alpha1.WorkflowRun, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for sight := range workflowruns.Track(ctx, c, clk, run) {
		run = sight.Object
		switch {
		case sight.Err != nil:
			return run, sight.Err
		case workflowruns.Phase(run).IsTerminal():
			return run, nil
		case sight.Deleted:
			return run, &DeletedError{Name: run.Name}
		}
	}
	return run, ctx.Err()
}
