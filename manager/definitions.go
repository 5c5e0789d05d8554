package manager

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"kruntimes.io/kruntimes/controllers/workflows/definitions"
	"kruntimes.io/kruntimes/telemetry/events"
)

// setUpDefinitions registers what says whether Workflows and Actions can be used.
func setUpDefinitions(ctx context.Context, mgr ctrl.Manager, recorder *events.Recorder) error {
	if err := definitions.IndexFields(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := mgr.Add(&definitions.Observer{Informers: mgr.GetCache(), Recorder: recorder}); err != nil {
		return fmt.Errorf("adding what observes definitions: %w", err)
	}
	workflows := &definitions.WorkflowReconciler{Client: mgr.GetClient(), Clock: clock.RealClock{}}
	if err := workflows.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the Workflow controller: %w", err)
	}
	actions := &definitions.ActionReconciler{Client: mgr.GetClient(), Clock: clock.RealClock{}}
	if err := actions.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the Action controller: %w", err)
	}
	return nil
}
