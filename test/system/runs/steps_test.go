package runs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// scene is a namespace of one test, with an append-only ledger that scripts write to.
type scene struct {
	t         *testing.T
	namespace string
	ledger    string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "system-"}}
	if err := admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	ledger := filepath.Join(t.TempDir(), "ledger")
	if err := os.WriteFile(ledger, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, namespace: ns.Name, ledger: ledger}
	t.Cleanup(func() { // Pods that execute nothing do not use their grace period.
		for _, kind := range []client.Object{&corev1alpha1.Runtime{}, &corev1alpha1.Run{}} {
			if err := admin.DeleteAllOf(context.WithoutCancel(t.Context()), kind, client.InNamespace(ns.Name)); err != nil {
				t.Errorf("deleting every %T: %v", kind, err)
			}
		}
	})
	return s
}

// runtime creates a Runtime. change may be nil.
func (s *scene) runtime(name string, replicas int32, runs string, change func(*corev1alpha1.Runtime)) *corev1alpha1.Runtime {
	s.t.Helper()
	r := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	r.Spec.Replicas = ptr.To(replicas)
	r.Spec.Capacity = corev1.ResourceList{corev1alpha1.ResourceRuns: resource.MustParse(runs)}
	r.Spec.Template.Spec.Containers = []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: "debian:12-slim"}}
	if change != nil {
		change(r)
	}
	if err := admin.Create(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// warm waits until all Pods of a Runtime are ready.
func (s *scene) warm(r *corev1alpha1.Runtime) {
	s.t.Helper()
	s.until(fmt.Sprintf("runtime %s is warm", r.Name), func() (bool, string) {
		if err := admin.Get(s.t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return false, err.Error()
		}
		return r.Status.ReadyReplicas == *r.Spec.Replicas, fmt.Sprintf("%+v", r.Status)
	})
}

// run creates a Run of a script.
func (s *scene) run(name, runtime, script string) *corev1alpha1.Run {
	s.t.Helper()
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	run.Spec.Runtime = runtime
	run.Spec.Source = &corev1alpha1.RunSource{Inline: script}
	if err := admin.Create(s.t.Context(), run); err != nil {
		s.t.Fatal(err)
	}
	return run
}

// signs is a script line that notes the Run's name in the ledger, once per execution.
func (s *scene) signs() string {
	return fmt.Sprintf("echo \"$KRUNTIME_RUN_NAME\" >> %s\n", s.ledger)
}

// signed returns how often each Run has signed the ledger.
func (s *scene) signed() map[string]int {
	s.t.Helper()
	raw, err := os.ReadFile(s.ledger)
	if err != nil {
		s.t.Fatal(err)
	}
	timesByRun := map[string]int{}
	for _, name := range strings.Fields(string(raw)) {
		timesByRun[name]++
	}
	return timesByRun
}

// phase waits until a Run is in one of the phases, and returns it.
func (s *scene) phase(name string, phases ...corev1alpha1.RunPhase) *corev1alpha1.Run {
	s.t.Helper()
	run := &corev1alpha1.Run{}
	s.until(fmt.Sprintf("run %s is %v", name, phases), func() (bool, string) {
		if err := admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, run); err != nil {
			return false, err.Error()
		}
		return slices.Contains(phases, run.Status.Phase), fmt.Sprintf("%+v", run.Status)
	})
	return run
}

// settled waits until every Run of the scene is terminal, and returns them by name.
func (s *scene) settled() map[string]corev1alpha1.Run {
	s.t.Helper()
	runs := &corev1alpha1.RunList{}
	s.until("all Runs have ended", func() (bool, string) {
		if err := admin.List(s.t.Context(), runs, client.InNamespace(s.namespace)); err != nil {
			return false, err.Error()
		}
		for _, r := range runs.Items {
			if !r.Status.Phase.IsTerminal() {
				return false, fmt.Sprintf("%s: %+v", r.Name, r.Status)
			}
		}
		return true, ""
	})
	runsByName := map[string]corev1alpha1.Run{}
	for _, r := range runs.Items {
		runsByName[r.Name] = r
	}
	return runsByName
}

// waitsBecause waits until the Scheduled condition of a Run is False with the reason, and returns its message.
func (s *scene) waitsBecause(name, reason string) string {
	s.t.Helper()
	var message string
	s.until(fmt.Sprintf("run %s waits because of %s", name, reason), func() (bool, string) {
		run := &corev1alpha1.Run{}
		if err := admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, run); err != nil {
			return false, err.Error()
		}
		for _, c := range run.Status.Conditions {
			if c.Type == corev1alpha1.RunConditionScheduled && c.Status == metav1.ConditionFalse && c.Reason == reason {
				message = c.Message
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", run.Status)
	})
	return message
}

// until waits for a condition; why tells what was seen last when it does not come.
func (s *scene) until(what string, holds func() (ok bool, why string)) {
	s.t.Helper()
	var why string
	err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		var ok bool
		ok, why = holds()
		return ok, nil
	})
	if err != nil {
		s.t.Fatalf("waiting until %s: %v; last seen: %s", what, err, why)
	}
}
