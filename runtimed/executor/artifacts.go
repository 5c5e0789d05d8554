package executor

import (
	"context"
	"errors"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/staging"
	"kruntimes.io/kruntimes/runtimed/transfer"
)

// errNotOurs ends a collection whose Run is another Pod's, in another attempt, or gone.
var errNotOurs = errors.New("the Run is not on this Pod any more")

// stageInputs lays out the artifacts that the Run gets. It returns false when the Run ends before its execution, and how,
// or nothing when the Run or the process left.
func (c *claim) stageInputs(ctx context.Context, run *corev1alpha1.Run, dir *staging.Directory) (*decision.Result, bool) {
	inputs := run.Spec.ArtifactInputs
	if len(inputs) == 0 {
		return nil, true
	}
	if c.e.Artifacts == nil {
		result := decision.InputsWithoutStore(run.Spec.Runtime)
		return &result, false
	}
	result, ok, err := c.unlessStopped(ctx, func(ctx context.Context) error {
		namespace, err := c.namespaceUID(ctx)
		if err != nil {
			return err
		}
		return c.inWork(run, dir, func(work *os.Root) error {
			return c.e.Artifacts.Stage(ctx, transfer.Staging{
				NamespaceUID: namespace, Inputs: inputs, Work: work, Private: dir.Private(),
			})
		})
	})
	switch {
	case !ok:
		return result, false
	case err != nil:
		failure := decision.ArtifactInputFailed(err)
		return &failure, false
	}
	c.log.Info("Staged artifacts", "count", len(inputs))
	return nil, true
}

// inWork calls act with the working directory of the Run, open.
func (c *claim) inWork(run *corev1alpha1.Run, dir *staging.Directory, act func(work *os.Root) error) error {
	if run.Spec.Workspace == nil {
		work, err := dir.OpenWork()
		if err != nil {
			return err
		}
		return errors.Join(act(work), work.Close())
	}
	shared, err := c.e.Volume.Reopen(run.Spec.Workspace.Name)
	if err != nil {
		return err
	}
	return errors.Join(act(shared.Root()), shared.Close())
}

// collect stores the artifacts that a script has left, if result says that it has succeeded, and returns how the attempt
// ends then. It returns false when the process ends before that: its successor collects them anew.
func (c *claim) collect(
	ctx context.Context, dir *staging.Directory, result decision.Result, start time.Time,
) (decision.Result, bool) {
	if result.Phase != corev1alpha1.RunSucceeded {
		return result, true
	}
	left, err := dir.OpenArtifacts()
	if err != nil {
		return decision.NotCollected(result, err), true
	}
	if left == nil {
		return result, true
	}
	defer func() { _ = left.Close() }() // nothing was written to it
	limits := decision.ArtifactLimits{MaxCount: corev1alpha1.MaxArtifacts}
	if c.e.Artifacts != nil {
		limits = c.e.Artifacts.Limits
	}
	entries, more, err := staging.ListArtifacts(left, limits.MaxCount)
	if err != nil {
		return decision.NotCollected(result, err), true
	}
	if len(entries) == 0 {
		return result, true
	}
	if c.e.Artifacts == nil {
		return decision.ArtifactsWithoutStore(result, c.current().Spec.Runtime), true
	}
	objects, err := decision.ForArtifacts(entries, more, limits)
	if err != nil {
		return decision.NotCollected(result, err), true
	}
	return c.upload(ctx, transfer.Collection{Directory: left, Objects: objects}, result, start)
}

// upload stores the objects of a collection, unless the end of the Run is asked for before it is done.
func (c *claim) upload(
	ctx context.Context, collection transfer.Collection, result decision.Result, start time.Time,
) (decision.Result, bool) {
	began := c.e.Clock.Now()
	var refs []corev1alpha1.ArtifactRef
	var err error
	await := func(ctx context.Context) (decision.StopCause, bool) { return c.awaitStopOfUpload(ctx, start) }
	cause, isStopped := unless(ctx, await, func(ctx context.Context) { refs, err = c.store(ctx, collection) })
	if err == nil {
		c.log.Info("Stored artifacts", "count", len(refs), "took", c.e.Clock.Since(began).String())
		return decision.Collected(result, refs), true
	}
	c.log.Info("Did not store the artifacts", "cause", err.Error())
	if isStopped {
		return decision.StoppedCollecting(result, cause, decision.Timeout(&c.current().Spec)), true
	}
	return decision.NotCollected(result, err), ctx.Err() == nil
}

// store completes the collection and stores it.
func (c *claim) store(ctx context.Context, collection transfer.Collection) ([]corev1alpha1.ArtifactRef, error) {
	namespace, err := c.namespaceUID(ctx)
	if err != nil {
		return nil, err
	}
	collection.Run = types.UID(c.uid)
	collection.Owner = artifacts.Owner{NamespaceUID: namespace, Namespace: c.e.Pod.Namespace, Run: c.name}
	collection.Fence = c.fence
	return c.e.Artifacts.Collect(ctx, collection)
}

// awaitStopOfUpload waits until the end of the Run is asked for, and returns why; nothing when it is not this Pod's any
// more. It returns false when ctx ended before. What takes longer than a moment is shown as running.
func (c *claim) awaitStopOfUpload(ctx context.Context, start time.Time) (decision.StopCause, bool) {
	delay := c.e.Clock.NewTimer(c.e.Timing.RunningDelay)
	defer delay.Stop()
	var timeout clock.Timer
	if limit := decision.Timeout(&c.current().Spec); limit > 0 && !start.IsZero() {
		timeout = c.e.Clock.NewTimer(max(limit-c.e.Clock.Since(start), 0))
		defer timeout.Stop()
	}
	var running *runningWriter
	defer func() {
		if running != nil {
			running.finish()
		}
	}()
	for {
		if cause := decision.StopAsked(c.current()); cause != decision.StopNone {
			return cause, true
		}
		select {
		case <-c.changed:
		case <-delay.C():
			if !start.IsZero() {
				running = startRunningWriter(ctx, c, start)
			}
		case <-channel(timeout):
			return decision.StopTimeout, true
		case <-c.left:
			return decision.StopNone, true
		case <-c.e.closing:
			return decision.StopShutdown, true
		case <-ctx.Done():
			return decision.StopNone, false
		}
	}
}

// fence asks the API server's store whether the Run is still this Pod's, in this attempt.
func (c *claim) fence(ctx context.Context) error {
	backoff := apiBackoff()
	run, err := c.reread(ctx, nil, &backoff)
	switch {
	case apierrors.IsNotFound(err):
		return errNotOurs
	case err != nil:
		return err
	case !decision.IsOurs(run, c.uid, c.attempt, c.e.Pod.Name, c.e.Pod.UID):
		return errNotOurs
	}
	return nil
}

// namespaceUID returns the UID of the namespace.
func (c *claim) namespaceUID(ctx context.Context) (uid types.UID, err error) {
	backoff := apiBackoff()
	err = c.persist(ctx, nil, &backoff, "Could not read the namespace yet", func() (err error) {
		uid, err = c.e.Client.NamespaceUID(ctx)
		return err
	})
	return uid, err
}
