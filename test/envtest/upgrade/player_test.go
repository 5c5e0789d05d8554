package upgrade

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// player stands in for runtimed: it takes Runs that are assigned to their end, and removes workspaces that are deleted.
type player struct {
	// holds keeps Runs in a phase, by step or name; ends are what others than Succeeded end with.
	holds map[string]corev1alpha1.RunPhase
	ends  map[string]corev1alpha1.RunReason
	// keeps are workspaces whose files are not removed.
	keeps []string

	mu sync.Mutex
	// played counts how often a Run was executed, by UID.
	played map[string]int
}

// start plays until the test ends or the returned function is called.
func (p *player) start(t *testing.T) (stop func()) {
	t.Helper()
	p.played = map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := p.round(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("playing: %v", err)
					return
				}
			}
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

func (p *player) round(ctx context.Context) error {
	var runs corev1alpha1.RunList
	if err := shared.Admin().List(ctx, &runs, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range runs.Items {
		if run := &runs.Items[i]; run.Status.AssignedPodUID != "" && !run.Status.Phase.IsTerminal() {
			if err := p.play(ctx, run); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return err
			}
		}
	}
	var workspaces workspacesv1alpha1.PersistentWorkspaceList
	if err := shared.Admin().List(ctx, &workspaces, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range workspaces.Items {
		w := &workspaces.Items[i]
		if w.DeletionTimestamp == nil || slices.Contains(p.keeps, w.Name) || w.Status.Phase == workspacesv1alpha1.WorkspaceBound {
			continue
		}
		before := w.DeepCopy()
		w.Finalizers = nil
		if err := shared.Admin().Patch(ctx, w, client.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// stepOf is the job and step of a Run, with the step of an Action; its name where it has none.
func stepOf(run *corev1alpha1.Run) string {
	labels := run.Labels
	if labels[workflowsv1alpha1.LabelStep] == "" {
		return run.Name
	}
	step := labels[workflowsv1alpha1.LabelJob] + "/" + labels[workflowsv1alpha1.LabelStep]
	if action := labels[workflowsv1alpha1.LabelActionStep]; action != "" {
		step += "/" + action
	}
	return step
}

// play moves a Run on by one phase.
func (p *player) play(ctx context.Context, run *corev1alpha1.Run) error {
	before := run.DeepCopy()
	step := stepOf(run)
	now := metav1.NowMicro()
	switch {
	case run.Spec.CancelRequested:
		run.Status.Phase, run.Status.Reason, run.Status.CompletionTime = corev1alpha1.RunCancelled, corev1alpha1.RunReasonCancelled, &now
	case run.Status.Phase == p.holds[step]:
		return nil
	case run.Status.Phase == corev1alpha1.RunScheduled:
		run.Status.Phase, run.Status.StartTime = corev1alpha1.RunRunning, &now
	case p.ends[step] != "" && run.Spec.RetryPolicy != nil && run.Status.Attempt < run.Spec.RetryPolicy.MaxAttempts:
		next := metav1.NewMicroTime(now.Add(run.Spec.RetryPolicy.Backoff.Duration))
		run.Status = corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Attempt: run.Status.Attempt + 1, NextAttemptTime: &next,
			Reason: p.ends[step], Message: "the attempt before failed", Conditions: run.Status.Conditions}
	case p.ends[step] != "":
		run.Status.Phase, run.Status.Reason, run.Status.CompletionTime = corev1alpha1.RunFailed, p.ends[step], &now
		run.Status.Message, run.Status.ExitCode = "it was told to fail", new(int32(3))
	default:
		run.Status.Phase, run.Status.CompletionTime, run.Status.ExitCode = corev1alpha1.RunSucceeded, &now, new(int32(0))
		run.Status.Outputs = map[string]corev1alpha1.OutputValue{"out": "of " + corev1alpha1.OutputValue(step)}
		run.Status.Artifacts = []corev1alpha1.ArtifactRef{{Name: "dist", Driver: corev1alpha1.ArtifactDriverS3, Type: corev1alpha1.ArtifactFile,
			SizeBytes: 12, Digest: "sha256:" + strings.Repeat("a", 64), Location: corev1alpha1.ArtifactLocation{
				S3: &corev1alpha1.S3Location{Bucket: "artifacts", Key: "runs/" + string(run.UID) + "/artifacts/dist"}}}}
	}
	if err := shared.Admin().Status().Patch(ctx, run, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	if run.Status.Phase == corev1alpha1.RunSucceeded {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.played[string(run.UID)]++
	}
	return nil
}
