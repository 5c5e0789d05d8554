package executor

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/staging"
	"kruntimes.io/kruntimes/runtimed/workspace"
)

// enter lets the Run into its workspace, and returns its place there; nil when it has none. It returns false when the Run
// ends before that, and how, or nothing when the Run or the process left. Whoever enters has to leave.
func (c *claim) enter(ctx context.Context, run *corev1alpha1.Run) (*staging.Place, *decision.Result, bool) {
	if run.Spec.Workspace == nil {
		return nil, nil, true
	}
	name := run.Spec.Workspace.Name
	backoff := apiBackoff()
	for {
		if cause := decision.StopAsked(c.current()); cause != decision.StopNone {
			result := decision.StoppedBeforeStart(cause)
			return nil, &result, false
		}
		if c.entered || c.e.Occupancy.Enter(name) {
			c.entered = true
			w, err := c.e.Workspaces.Get(ctx, name)
			if err == nil || apierrors.IsNotFound(err) {
				return c.place(run, w)
			}
			c.log.Error(err, "Could not read the workspace yet")
		}
		if !c.pause(ctx, c.draining, backoff.Step()) {
			return c.stoppedOutside(ctx)
		}
	}
}

// stoppedOutside says how a Run ends that did not come into its workspace in time.
func (c *claim) stoppedOutside(ctx context.Context) (*staging.Place, *decision.Result, bool) {
	if c.hasLeft() || ctx.Err() != nil {
		return nil, nil, false
	}
	result := decision.StoppedBeforeStart(decision.StopShutdown)
	return nil, &result, false
}

// place lays out the Run's place in its workspace; w is what the API server's store holds, empty when it holds nothing.
func (c *claim) place(run *corev1alpha1.Run, w *workspacesv1alpha1.PersistentWorkspace) (*staging.Place, *decision.Result, bool) {
	if w == nil || !w.IsBoundTo(c.e.Pod.Name, c.e.Pod.UID) {
		result := decision.WorkspaceUnavailable(run.Spec.Workspace.Name, w)
		return nil, &result, false
	}
	directory, err := c.e.Volume.Prepare(w.Name, string(w.UID))
	if err != nil {
		result := decision.StagingFailed(err)
		return nil, &result, false
	}
	stage, err := directory.Stage(c.uid)
	if err = errors.Join(err, directory.Close()); err != nil {
		result := decision.StagingFailed(err)
		return nil, &result, false
	}
	return placeOf(directory, stage), nil, true
}

// reopenPlace opens the place that an earlier runtimed laid out; nil when the Run has no workspace.
func (c *claim) reopenPlace(run *corev1alpha1.Run) (*staging.Place, error) {
	if run.Spec.Workspace == nil {
		return nil, nil
	}
	directory, err := c.e.Volume.Reopen(run.Spec.Workspace.Name)
	if err != nil {
		return nil, err
	}
	stage, err := directory.Restage(c.uid)
	if err = errors.Join(err, directory.Close()); err != nil {
		return nil, err
	}
	return placeOf(directory, stage), nil
}

func placeOf(directory *workspace.Workspace, stage workspace.Stage) *staging.Place {
	return &staging.Place{Work: directory.Path, Stage: stage.Path, Root: stage.Root}
}

// unstage removes what was staged in the workspace, and nothing else there.
func (c *claim) unstage() {
	run := c.current()
	if run == nil || run.Spec.Workspace == nil {
		return
	}
	directory, err := c.e.Volume.Reopen(run.Spec.Workspace.Name)
	if err == nil {
		err = errors.Join(directory.Unstage(c.uid), directory.Close())
	}
	if err != nil {
		c.log.V(1).Info("Left what was staged in the workspace", "cause", err.Error())
	}
}

// leaveWorkspace takes enter back.
func (c *claim) leaveWorkspace() {
	if c.entered {
		c.e.Occupancy.Leave(c.current().Spec.Workspace.Name)
	}
}

// stageKey names what is staged in a workspace for a Run.
type stageKey struct{ workspace, run string }

// staleStages lists what an earlier runtimed staged in workspaces for Runs that are not on this Pod any more. The caller
// holds the lock, and has claimed nothing but active.
func (e *Executor) staleStages(active map[key]bool) []stageKey {
	keep := map[string]bool{}
	for k := range active {
		keep[string(k.uid)] = true
	}
	names, err := e.Volume.Names()
	if err != nil {
		e.Log.Error(err, "Could not look for leftovers in workspaces")
	}
	var stale []stageKey
	for _, name := range names {
		directory, err := e.Volume.Reopen(name)
		if err != nil {
			continue // it is being removed
		}
		staged, err := directory.Staged()
		if err := errors.Join(err, directory.Close()); err != nil {
			e.Log.Error(err, "Could not look for leftovers", "workspace", name)
		}
		for _, run := range staged {
			if !keep[run] {
				stale = append(stale, stageKey{workspace: name, run: run})
			}
		}
	}
	return stale
}

// removeStage removes what staleStages has found.
func (e *Executor) removeStage(stale stageKey) {
	directory, err := e.Volume.Reopen(stale.workspace)
	if err == nil {
		err = errors.Join(directory.Unstage(stale.run), directory.Close())
	}
	if err != nil {
		e.Log.Error(err, "Could not remove leftovers", "workspace", stale.workspace)
	}
}
