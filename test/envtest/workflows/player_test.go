package workflows

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
	// again has Runs that are held looked at anew.
	again func()
}

func startPlayer(t *testing.T, namespace string, results map[string]result) *player {
	t.Helper()
	p := &player{results: results, played: map[string][]string{}, pod: shared.RuntimePod(t, namespace, "sh", "pod")}
	p.again = shared.Play(t, namespace, p.play)
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
	p.results[step] = r
	p.mu.Unlock()
	p.again()
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

// play moves the Run of a step on by one phase.
func (p *player) play(ctx context.Context, run *corev1alpha1.Run) error {
	if run.Labels[workflowsv1alpha1.LabelStep] == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	step := run.Labels[workflowsv1alpha1.LabelJob] + "/" + run.Labels[workflowsv1alpha1.LabelStep]
	r, ok := p.results[step]
	if !ok {
		r.phase = corev1alpha1.RunSucceeded
	}
	before, executed := run.DeepCopy(), false
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
		executed = true
	}
	err := shared.Admin().Status().Patch(ctx, run, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err == nil && executed {
		p.played[step] = append(p.played[step], run.Name)
	}
	return err
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
