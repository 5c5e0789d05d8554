//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

const (
	// atOnce is how many WorkflowRuns are active at a time.
	atOnce = 16
	// everyCancelled and everyRetried tell which WorkflowRuns are cancelled, and beside which a Run is created that is tried
	// again after whatever ends its attempts.
	everyCancelled, everyRetried = 10, 3
)

// work creates WorkflowRuns, and waits for them.
type work struct {
	env    *e2e.Env
	total  int
	random *rand.Rand
}

// script is one that takes a moment, of a random length.
func (w *work) script(text string) string {
	return fmt.Sprintf("%ssleep %.1f\n%s\n", sign, w.random.Float64()*2, text)
}

// callee is the Workflow that every WorkflowRun calls.
func callee() *workflowsv1alpha1.Workflow {
	c := &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Name: "callee"}}
	c.Spec.Jobs = map[string]workflowsv1alpha1.Job{"job": {RunsOn: "bash", Steps: []workflowsv1alpha1.Step{{Name: "step", Run: sign + "sleep 0.5"}}}}
	return c
}

// workflowRun has three jobs: one whose steps share files and leave an artifact, one that gets the artifact, and a call.
func (w *work) workflowRun(name string) *workflowsv1alpha1.WorkflowRun {
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: w.env.Namespace, Name: name}}
	run.Spec.Jobs = map[string]workflowsv1alpha1.Job{
		"build": {RunsOn: "bash", Steps: []workflowsv1alpha1.Step{
			{Name: "write", Run: w.script("echo " + name + " >file")},
			{Name: "read", Run: w.script("test \"$(cat file)\" = " + name)},
			{Name: "keep", Run: w.script("cp file $KRUNTIME_ARTIFACTS_DIR/file; echo name=" + name + " >>$KRUNTIME_OUTPUTS")},
		}, Outputs: map[string]workflowsv1alpha1.Output{"name": {Value: "${{ steps.keep.outputs.name }}"}}},
		"deploy": {RunsOn: "bash", Needs: []string{"build"}, Steps: []workflowsv1alpha1.Step{{
			Name: "get", Artifacts: []workflowsv1alpha1.StepArtifact{{From: "jobs.build.artifacts.file", Path: "in/file"}},
			Env: map[string]workflowsv1alpha1.EnvValue{"NAME": "${{ jobs.build.outputs.name }}"},
			Run: w.script("test \"$(cat in/file)\" = \"$NAME\""),
		}}},
		"call": {Needs: []string{"build"}, Uses: "callee"},
	}
	return run
}

// retried is a Run that is tried again, after whatever ended it.
func (w *work) retried(name string) *corev1alpha1.Run {
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: w.env.Namespace, Name: name}}
	run.Spec.Runtime, run.Spec.Source = "bash", &corev1alpha1.RunSource{Inline: w.script("sleep 2; [ $KRUNTIME_ATTEMPT -ge 2 ]")}
	run.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 20, Backoff: &metav1.Duration{Duration: 500 * time.Millisecond}}
	return run
}

// run creates everything, some at a time, and returns when the last one has ended. The API server may be away for a while.
func (w *work) run(ctx context.Context) error {
	for i := range w.total {
		name := fmt.Sprintf("chaos-%03d", i)
		objects := []client.Object{w.workflowRun(name)}
		if i%everyRetried == 0 {
			objects = append(objects, w.retried("retried-"+name))
		}
		for _, object := range objects {
			if err := insist(ctx, func(ctx context.Context) error { return createOnce(ctx, w.env.Client, object) }); err != nil {
				return fmt.Errorf("creating %s: %w", object.GetName(), err)
			}
		}
		if err := w.waitForFewer(ctx, atOnce); err != nil {
			return fmt.Errorf("after %d WorkflowRuns: %w", i+1, err)
		}
		if i%everyCancelled == everyCancelled-1 {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancelRequested":true}}`))
			if err := insist(ctx, func(ctx context.Context) error { return w.env.Client.Patch(ctx, objects[0], patch) }); err != nil {
				return fmt.Errorf("cancelling %s: %w", name, err)
			}
		}
	}
	return w.waitForFewer(ctx, 1)
}

// createOnce takes an object that is there already for the one that an earlier, broken request has made.
func createOnce(ctx context.Context, c client.Client, object client.Object) error {
	err := c.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return c.Get(ctx, client.ObjectKeyFromObject(object), object)
	}
	return err
}

// insist tries again until something works.
func insist(ctx context.Context, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 300*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if err := try(ctx); err != nil {
			last = err
			return apierrors.IsInvalid(err), nil
		}
		last = nil
		return true, nil
	})
	if last != nil {
		return last
	}
	return err
}

// waitForFewer waits until fewer than so many WorkflowRuns are active.
func (w *work) waitForFewer(ctx context.Context, limit int) error {
	return insist(ctx, func(ctx context.Context) error {
		active, err := w.active(ctx)
		if err == nil && active >= limit {
			err = fmt.Errorf("%d WorkflowRuns are active", active)
		}
		return err
	})
}

// active counts the WorkflowRuns that have not ended, those of calls left out.
func (w *work) active(ctx context.Context) (int, error) {
	var all workflowsv1alpha1.WorkflowRunList
	if err := w.env.Client.List(ctx, &all, client.InNamespace(w.env.Namespace)); err != nil {
		return 0, fmt.Errorf("listing WorkflowRuns: %w", err)
	}
	active := 0
	for _, run := range all.Items {
		if !run.Status.Phase.IsTerminal() && run.Labels[workflowsv1alpha1.LabelWorkflowRunUID] == "" {
			active++
		}
	}
	return active, nil
}

// settle waits until all has ended, calls and Runs too.
func (w *work) settle(t *testing.T) {
	t.Helper()
	w.env.Within(patience, "all WorkflowRuns and Runs have ended", func() string {
		var all workflowsv1alpha1.WorkflowRunList
		var runs corev1alpha1.RunList
		for _, list := range []client.ObjectList{&all, &runs} {
			if err := w.env.Client.List(t.Context(), list, client.InNamespace(w.env.Namespace)); err != nil {
				return err.Error()
			}
		}
		for _, run := range all.Items {
			if !run.Status.Phase.IsTerminal() {
				return fmt.Sprintf("WorkflowRun %s: %+v", run.Name, run.Status)
			}
		}
		for _, run := range runs.Items {
			if !run.Status.Phase.IsTerminal() {
				return fmt.Sprintf("Run %s: %+v", run.Name, run.Status)
			}
		}
		return ""
	})
}
