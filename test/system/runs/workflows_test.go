package runs

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// longPatience bounds the wait for a WorkflowRun of a thousand steps.
const longPatience = 6 * time.Minute

// workflow creates a WorkflowRun.
func (s *scene) workflow(name string, jobs map[string]workflowsv1alpha1.Job) *workflowsv1alpha1.WorkflowRun {
	s.t.Helper()
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: jobs}}
	if err := admin.Create(s.t.Context(), run); err != nil {
		s.t.Fatal(err)
	}
	return run
}

// succeeds waits until a WorkflowRun has succeeded.
func (s *scene) succeeds(run *workflowsv1alpha1.WorkflowRun) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, longPatience, true, func(ctx context.Context) (bool, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(run), run)
		return err == nil && run.Status.Phase.IsTerminal(), err
	})
	if err != nil || run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		s.t.Fatalf("WorkflowRun %s is %s: %s (%v)", run.Name, run.Status.Phase, run.Status.Message, err)
	}
}

// fan makes jobs that need nothing, each with steps that sign the ledger.
func (s *scene) fan(jobs, steps int) map[string]workflowsv1alpha1.Job {
	fan := map[string]workflowsv1alpha1.Job{}
	for j := range jobs {
		job := workflowsv1alpha1.Job{RunsOn: "sh"}
		for i := range steps {
			job.Steps = append(job.Steps, workflowsv1alpha1.Step{Name: fmt.Sprintf("s%02d", i), Run: s.signs()})
		}
		fan[fmt.Sprintf("j%02d", j)] = job
	}
	return fan
}

// TestAThousandSteps runs the largest WorkflowRun that the API takes, and deletes it with all that it made.
func TestAThousandSteps(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 2, "4", nil))
	run := s.workflow("wide", s.fan(64, 16))
	s.succeeds(run)
	s.eachSignedOnce(1024)
	if err := admin.Delete(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for _, list := range []client.ObjectList{&corev1alpha1.RunList{}, &appsv1.ControllerRevisionList{}} {
		s.until(fmt.Sprintf("the garbage collector has removed every item of %T", list), func() (bool, string) {
			if err := admin.List(t.Context(), list, client.InNamespace(s.namespace), client.Limit(1)); err != nil {
				return false, err.Error()
			}
			switch l := list.(type) {
			case *corev1alpha1.RunList:
				return len(l.Items) == 0, fmt.Sprint(len(l.Items))
			case *appsv1.ControllerRevisionList:
				return len(l.Items) == 0, fmt.Sprint(len(l.Items))
			}
			return false, ""
		})
	}
}

// TestKilledManagerUnderAWorkflowRun kills the manager while steps start and end: every step is executed once.
func TestKilledManagerUnderAWorkflowRun(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "4", nil))
	run := s.workflow("busy", s.fan(6, 6))
	for _, signs := range []int{2, 8, 16, 24, 30} {
		s.until(fmt.Sprintf("%d steps have been executed", signs), func() (bool, string) {
			n := len(s.signed())
			return n >= signs, fmt.Sprint(n)
		})
		if err := cluster.Crash("manager"); err != nil {
			t.Fatal(err)
		}
	}
	s.succeeds(run)
	s.eachSignedOnce(36)
}

// TestADeletedNamespaceTakesAWorkflowRunWithIt deletes the namespace while steps are active.
func TestADeletedNamespaceTakesAWorkflowRunWithIt(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "4", nil))
	s.workflow("long", map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{
		{Name: "sleep", Run: s.signs() + "exec sleep 300\n"}, {Name: "never", Run: s.signs()}}}})
	s.phase("long-a-sleep", corev1alpha1.RunRunning)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := admin.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	s.until("the namespace is gone", func() (bool, string) {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(ns), ns)
		return apierrors.IsNotFound(err), fmt.Sprintf("%v %+v", err, ns.Status)
	})
	s.eachSignedOnce(1)
}
