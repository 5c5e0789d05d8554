package e2e

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// Runtime creates a Runtime with bash, changed by these functions, and waits until all its Pods take Runs.
func (e *Env) Runtime(name string, changes ...func(*corev1alpha1.Runtime)) *corev1alpha1.Runtime {
	e.t.Helper()
	r := &corev1alpha1.Runtime{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1alpha1.RuntimeSpec{
			Interpreter: []string{"/bin/bash", "-e"},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "runtime", Image: Setting("BASH_IMAGE"), ImagePullPolicy: corev1.PullIfNotPresent}},
			}},
		},
	}
	for _, change := range changes {
		change(r)
	}
	e.Create(r)
	e.WaitRuntime(r)
	return r
}

// WithPython makes it a Runtime with Python.
func WithPython(r *corev1alpha1.Runtime) {
	r.Spec.Interpreter = []string{"python3"}
	r.Spec.Template.Spec.Containers[0].Image = Setting("PYTHON_IMAGE")
}

// WithReplicas gives it so many Pods.
func WithReplicas(n int32) func(*corev1alpha1.Runtime) {
	return func(r *corev1alpha1.Runtime) { r.Spec.Replicas = &n }
}

// WaitRuntime waits until all Pods of a Runtime take Runs.
func (e *Env) WaitRuntime(r *corev1alpha1.Runtime) {
	e.t.Helper()
	e.Eventually("Runtime "+r.Name+" is ready", func() string {
		e.Refresh(r)
		if r.Status.ObservedGeneration == r.Generation && r.Status.ReadyReplicas == *r.Spec.Replicas {
			return ""
		}
		return fmt.Sprintf("%+v", r.Status)
	})
}

// Run creates a Run of a script, changed by these functions, and does not wait for it.
func (e *Env) Run(runtime, script string, changes ...func(*corev1alpha1.Run)) *corev1alpha1.Run {
	e.t.Helper()
	r := &corev1alpha1.Run{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "run-"},
		Spec: corev1alpha1.RunSpec{
			Runtime: runtime,
			Source:  &corev1alpha1.RunSource{Inline: script},
		},
	}
	for _, change := range changes {
		change(r)
	}
	e.Create(r)
	return r
}

// WaitRun waits until a Run has ended, and reads it.
func (e *Env) WaitRun(r *corev1alpha1.Run) *corev1alpha1.Run {
	e.t.Helper()
	e.Eventually("Run "+r.Name+" has ended", func() string {
		e.Refresh(r)
		if r.Status.Phase.IsTerminal() {
			return ""
		}
		return fmt.Sprintf("%+v", r.Status)
	})
	return r
}

// WaitPhase waits until a Run is in this phase, and reads it.
func (e *Env) WaitPhase(r *corev1alpha1.Run, phase corev1alpha1.RunPhase) *corev1alpha1.Run {
	e.t.Helper()
	e.Eventually(fmt.Sprintf("Run %s is %s", r.Name, phase), func() string {
		e.Refresh(r)
		if r.Status.Phase == phase {
			return ""
		}
		return fmt.Sprintf("%+v", r.Status)
	})
	return r
}

// Pod returns the Pod that a Run is assigned to.
func (e *Env) Pod(r *corev1alpha1.Run) *corev1.Pod {
	e.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Status.AssignedPod}}
	e.Refresh(pod)
	return pod
}

// Pods returns the Pods of a Runtime.
func (e *Env) Pods(runtime string) []corev1.Pod {
	e.t.Helper()
	var pods corev1.PodList
	err := e.Client.List(e.t.Context(), &pods, client.InNamespace(e.Namespace), client.MatchingLabels{corev1alpha1.LabelRuntime: runtime})
	if err != nil {
		e.t.Fatalf("listing Pods of Runtime %s: %v", runtime, err)
	}
	return pods.Items
}
