package workflows

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// result is how the Run of a step ends.
type result struct {
	phase   corev1alpha1.RunPhase
	reason  corev1alpha1.RunReason
	outputs map[string]string
	// artifacts are what the Run left, by name; the Run's own UID is in their addresses.
	artifacts []string
	// holds keeps the Run in this phase instead of ending it, until it is cancelled.
	holds corev1alpha1.RunPhase
}

// player stands in for scheduler and runtimed: it takes every Run of a namespace to the end that is laid down for its
// step ("job/step"), Succeeded where nothing is.
type player struct {
	pod     *corev1.Pod
	mu      sync.Mutex
	results map[string]result
	// played holds the names of the Runs that were executed, by step.
	played map[string][]string
}

func startPlayer(t *testing.T, namespace string, results map[string]result) *player {
	t.Helper()
	p := &player{results: results, played: map[string][]string{}, pod: shared.RuntimePod(t, namespace, "sh", "pod")}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := p.round(ctx, namespace); err != nil && ctx.Err() == nil {
					t.Errorf("playing the Runs: %v", err)
					return
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

// move has the Runs that are assigned from now on go to another Pod.
func (p *player) move(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pod = pod
}

// set changes how the Runs of a step end from now on.
func (p *player) set(step string, r result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results[step] = r
}

// executions returns the names of the Runs that were executed, by step.
func (p *player) executions() map[string][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string][]string{}
	for step, names := range p.played {
		out[step] = append([]string(nil), names...)
	}
	return out
}

func (p *player) round(ctx context.Context, namespace string) error {
	var runs corev1alpha1.RunList
	if err := shared.Admin().List(ctx, &runs, client.InNamespace(namespace), client.HasLabels{workflowsv1alpha1.LabelStep}); err != nil {
		return err
	}
	for i := range runs.Items {
		if run := &runs.Items[i]; !run.Status.Phase.IsTerminal() {
			if err := p.play(ctx, run); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return err
			}
		}
	}
	return nil
}

// play moves a Run on by one phase.
func (p *player) play(ctx context.Context, run *corev1alpha1.Run) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	step := run.Labels[workflowsv1alpha1.LabelJob] + "/" + run.Labels[workflowsv1alpha1.LabelStep]
	r, ok := p.results[step]
	if !ok {
		r.phase = corev1alpha1.RunSucceeded
	}
	before := run.DeepCopy()
	switch phase := run.Status.Phase; {
	case run.Spec.CancelRequested:
		run.Status.Phase, run.Status.Reason = corev1alpha1.RunCancelled, corev1alpha1.RunReasonCancelled
	case phase == r.holds:
		return nil
	case phase == corev1alpha1.RunPending:
		run.Status.Phase, run.Status.AssignedPod, run.Status.AssignedPodUID, run.Status.Attempt = corev1alpha1.RunScheduled, p.pod.Name, string(p.pod.UID), 1
	case phase == corev1alpha1.RunScheduled && r.holds == corev1alpha1.RunRunning:
		run.Status.Phase, run.Status.StartTime = corev1alpha1.RunRunning, new(metav1.NowMicro())
	default:
		run.Status.Phase, run.Status.Reason, run.Status.CompletionTime = r.phase, r.reason, new(metav1.NowMicro())
		if run.Status.StartTime == nil {
			run.Status.StartTime = new(metav1.NowMicro())
		}
		run.Status.Outputs = map[string]corev1alpha1.OutputValue{}
		for name, value := range r.outputs {
			run.Status.Outputs[name] = corev1alpha1.OutputValue(value)
		}
		run.Status.Artifacts = artifactsOf(run, r.artifacts...)
		p.played[step] = append(p.played[step], run.Name)
	}
	return shared.Admin().Status().Patch(ctx, run, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// newRun makes a WorkflowRun from the YAML of its jobs.
func newWorkflowRun(t *testing.T, namespace, name, jobs string) *workflowsv1alpha1.WorkflowRun {
	t.Helper()
	u := manifest(t, "WorkflowRun", namespace, name, jobs)
	if err := shared.Admin().Create(t.Context(), u); err != nil {
		t.Fatalf("creating WorkflowRun %s: %v", name, err)
	}
	return get(t, namespace, name)
}

func get(t *testing.T, namespace, name string) *workflowsv1alpha1.WorkflowRun {
	t.Helper()
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, run); err != nil {
		t.Fatal(err)
	}
	return run
}

// await waits until a WorkflowRun satisfies a condition and returns it.
func await(t *testing.T, namespace, name, what string, ok func(*workflowsv1alpha1.WorkflowRun) bool) *workflowsv1alpha1.WorkflowRun {
	t.Helper()
	run := &workflowsv1alpha1.WorkflowRun{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("WorkflowRun %s: %s", name, summary(run))
		}
	})
	cluster.Eventually(t, fmt.Sprintf("WorkflowRun %s: %s", name, what), func(ctx context.Context) (bool, error) {
		run = &workflowsv1alpha1.WorkflowRun{}
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, run)
		return err == nil && ok(run), err
	})
	return run
}

func awaitEnd(t *testing.T, namespace, name string) *workflowsv1alpha1.WorkflowRun {
	t.Helper()
	return await(t, namespace, name, "its end", func(run *workflowsv1alpha1.WorkflowRun) bool { return run.Status.Phase.IsTerminal() })
}

// summary puts the phases of a WorkflowRun, its jobs and steps into a line each.
func summary(run *workflowsv1alpha1.WorkflowRun) map[string]string {
	out := map[string]string{"": string(run.Status.Phase)}
	for name, js := range run.Status.Jobs {
		out[name] = string(js.Phase)
		for _, step := range js.Steps {
			out[name+"/"+step.Name] = string(step.Phase)
		}
	}
	return out
}

// children lists the Runs of a WorkflowRun.
func children(t *testing.T, owner *workflowsv1alpha1.WorkflowRun) []corev1alpha1.Run {
	t.Helper()
	var runs corev1alpha1.RunList
	err := shared.Admin().List(t.Context(), &runs, client.InNamespace(owner.Namespace),
		client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(owner.UID)})
	if err != nil {
		t.Fatal(err)
	}
	return runs.Items
}
