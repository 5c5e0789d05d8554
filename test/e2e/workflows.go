package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// In returns e for a subtest: what goes wrong is the subtest's failure, and the namespace stays that of e.
func (e *Env) In(t *testing.T) *Env {
	t.Helper()
	sub := *e
	sub.t = t
	return &sub
}

// WithCapacity lets each of its Pods execute so many Runs at once.
func WithCapacity(runs string) func(*corev1alpha1.Runtime) {
	return func(r *corev1alpha1.Runtime) {
		r.Spec.Capacity = corev1.ResourceList{corev1alpha1.ResourceRuns: resource.MustParse(runs)}
	}
}

// Manifests creates the objects of a YAML text in the test's namespace, as kubectl create does, and strict about unknown fields.
func (e *Env) Manifests(text string) {
	e.t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			e.t.Fatalf("reading manifests: %v", err)
		}
		object.SetNamespace(e.Namespace)
		if err := e.Client.Create(e.t.Context(), object, client.FieldValidation("Strict")); err != nil {
			e.t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// WorkflowRun reads a WorkflowRun.
func (e *Env) WorkflowRun(name string) *workflowsv1alpha1.WorkflowRun {
	e.t.Helper()
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	e.Refresh(run)
	return run
}

// WaitWorkflowRun waits until a WorkflowRun has ended, and reads it.
func (e *Env) WaitWorkflowRun(name string) *workflowsv1alpha1.WorkflowRun {
	e.t.Helper()
	return e.WaitWorkflowRunUntil(name, "has ended", func(run *workflowsv1alpha1.WorkflowRun) bool { return run.Status.Phase.IsTerminal() })
}

// WaitSucceeded waits until a WorkflowRun has ended, reads it, and fails the test unless it has succeeded.
func (e *Env) WaitSucceeded(name string) *workflowsv1alpha1.WorkflowRun {
	e.t.Helper()
	run := e.WaitWorkflowRun(name)
	if run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		e.t.Fatalf("WorkflowRun %s is %s: %s", name, run.Status.Phase, run.Status.Message)
	}
	return run
}

// WaitWorkflowRunUntil waits until a WorkflowRun is as a condition says, and reads it.
func (e *Env) WaitWorkflowRunUntil(name, what string, condition func(*workflowsv1alpha1.WorkflowRun) bool) *workflowsv1alpha1.WorkflowRun {
	e.t.Helper()
	var run *workflowsv1alpha1.WorkflowRun
	e.Eventually("WorkflowRun "+name+" "+what, func() string {
		run = e.WorkflowRun(name)
		if condition(run) {
			return ""
		}
		return fmt.Sprintf("%s %+v", run.Status.Phase, run.Status.Jobs)
	})
	return run
}

// WaitStep waits until the Run of a step executes, and reads that.
func (e *Env) WaitStep(name, job, step string) *corev1alpha1.Run {
	e.t.Helper()
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace}}
	e.WaitWorkflowRunUntil(name, "has a Run of "+job+"/"+step, func(w *workflowsv1alpha1.WorkflowRun) bool {
		for _, s := range w.Status.Jobs[job].Steps {
			if s.Name == step {
				run.Name = s.RunName
			}
		}
		return run.Name != ""
	})
	return e.WaitPhase(run, corev1alpha1.RunRunning)
}

// Phases tells the phases of a WorkflowRun: its own as "", those of jobs as "job", of steps as "job/step", and of the steps of
// Actions as "job/step/step".
func Phases(run *workflowsv1alpha1.WorkflowRun) map[string]string {
	phases := map[string]string{"": string(run.Status.Phase)}
	for name, job := range run.Status.Jobs {
		phases[name] = string(job.Phase)
		for _, step := range job.Steps {
			phases[name+"/"+step.Name] = string(step.Phase)
			for _, inner := range step.ActionSteps {
				phases[name+"/"+step.Name+"/"+inner.Name] = string(inner.Phase)
			}
		}
	}
	return phases
}

// RunsOf returns the names of the Runs that a WorkflowRun made, those of its calls not included, sorted.
func (e *Env) RunsOf(run *workflowsv1alpha1.WorkflowRun) []string {
	e.t.Helper()
	var runs corev1alpha1.RunList
	e.children(run, &runs)
	names := make([]string, 0, len(runs.Items))
	for _, r := range runs.Items {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// CallsOf returns the WorkflowRuns that the calls of a WorkflowRun made, by job.
func (e *Env) CallsOf(run *workflowsv1alpha1.WorkflowRun) map[string]workflowsv1alpha1.WorkflowRun {
	e.t.Helper()
	var calls workflowsv1alpha1.WorkflowRunList
	e.children(run, &calls)
	byJob := map[string]workflowsv1alpha1.WorkflowRun{}
	for _, call := range calls.Items {
		byJob[call.Labels[workflowsv1alpha1.LabelJob]] = call
	}
	return byJob
}

func (e *Env) children(run *workflowsv1alpha1.WorkflowRun, list client.ObjectList) {
	e.t.Helper()
	err := e.Client.List(e.t.Context(), list, client.InNamespace(run.Namespace),
		client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(run.UID)})
	if err != nil {
		e.t.Fatalf("listing the children of WorkflowRun %s: %v", run.Name, err)
	}
}

// Events returns what the events of an object say, each as "TYPE REASON MESSAGE", sorted.
func (e *Env) Events(object client.Object) []string {
	e.t.Helper()
	var events corev1.EventList
	if err := e.Client.List(e.t.Context(), &events, client.InNamespace(object.GetNamespace())); err != nil {
		e.t.Fatalf("listing events: %v", err)
	}
	var said []string
	for _, event := range events.Items {
		if event.InvolvedObject.UID == object.GetUID() {
			said = append(said, event.Type+" "+event.Reason+" "+event.Message)
		}
	}
	slices.Sort(said)
	return said
}

// WaitEvent waits for an event of an object that begins with these words: "TYPE REASON MESSAGE".
func (e *Env) WaitEvent(object client.Object, words string) {
	e.t.Helper()
	e.Eventually(fmt.Sprintf("%T %s has the event %q", object, object.GetName(), words), func() string {
		said := e.Events(object)
		if slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, words) }) {
			return ""
		}
		return strings.Join(said, "\n")
	})
}
