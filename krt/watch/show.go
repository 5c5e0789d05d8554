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

// Show shows what becomes of run and its calls until it has ended, and returns them as they were seen last.
func (v *View) Show(ctx context.Context, c client.WithWatch, clk clock.WithTicker, run *workflowsv1alpha1.WorkflowRun) (workflowruns.Family, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sights := workflowruns.TrackFamily(ctx, c, clk, run)
	var pictures <-chan time.Time
	if v.Terminal.Live {
		ticker := clk.NewTicker(frame)
		defer ticker.Stop()
		pictures = ticker.C()
	}
	family, err := v.follow(ctx, sights, pictures, workflowruns.Alone(run))
	if endErr := v.end(); err == nil {
		err = endErr
	}
	return family, err
}

// follow shows every sight until one is the last.
func (v *View) follow(ctx context.Context, sights <-chan workflowruns.FamilySight, pictures <-chan time.Time, family workflowruns.Family) (workflowruns.Family, error) {
	for {
		select {
		case <-ctx.Done():
			return family, ctx.Err()
		case <-pictures:
			if err := v.tick(); err != nil {
				return family, err
			}
		case sight, open := <-sights:
			switch {
			case !open:
				return family, ctx.Err()
			case sight.Err != nil:
				return family, sight.Err
			case sight.Lost != nil:
				v.Say("the connection to the cluster is lost, trying again: %v", sight.Lost)
				continue
			}
			family = sight.Family
			if err := v.show(family); err != nil {
				return family, err
			}
			switch {
			case workflowruns.Phase(family.Run).IsTerminal():
				return family, nil
			case sight.Deleted:
				return family, &DeletedError{Name: family.Run.Name}
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
