//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

// What people copy first has to work as it stands. Only the images are those that the cluster has.
func TestTheExamplesAndSamplesWorkAsTheyStand(t *testing.T) {
	t.Parallel()
	t.Run("examples", func(t *testing.T) {
		t.Parallel()
		volumes := e2e.NewVolumes(t)
		env := e2e.New(t)
		volumes.Claim(env, "artifacts")
		env.Apply(example(t, "examples/runtimes.yaml"))
		_, ci, _ := strings.Cut(example(t, "examples/artifacts.yaml"), "\n---\n") // without the claim
		env.Apply(ci)
		env.Apply(example(t, "examples/reuse/build.yaml"))
		env.Apply(example(t, "examples/reuse/verify.yaml"))
		env.Apply(example(t, "examples/runs/first.yaml"))
		env.Apply(example(t, "examples/runs/command.yaml"))
		ready(env, "sh", "python", "ci")
		failing := created(t, env, "examples/failing.yaml")
		succeeding := append(created(t, env, "examples/ci.yaml"), created(t, env, "examples/reuse/release.yaml")...)
		for _, name := range []string{"first", "command"} {
			run := env.WaitRun(&corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}})
			if run.Status.Phase != corev1alpha1.RunSucceeded {
				t.Errorf("Run %s is %s: %s", name, run.Status.Phase, run.Status.Message)
			}
		}
		for _, name := range succeeding {
			env.WaitSucceeded(name)
		}
		const polite = "1 of 2 tests failed: greeting is not polite"
		if run := env.WaitWorkflowRun(failing[0]); run.Status.Phase != workflowsv1alpha1.WorkflowFailed || !strings.Contains(run.Status.Message, polite) {
			t.Errorf("WorkflowRun %s is %s: %s", run.Name, run.Status.Phase, run.Status.Message)
		}
	})
	t.Run("samples", func(t *testing.T) {
		t.Parallel()
		env := e2e.New(t)
		env.Apply(withImages(env.Render("config/samples")))
		ready(env, "python")
		run := env.WaitSucceeded("ci")
		if got := env.CallsOf(run)["greet"].Status.Outputs["greeting"]; got != "Hello, release 1.4.2" {
			t.Errorf("the greeting is %q", got)
		}
		hello := env.WaitRun(&corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "hello"}})
		if got := env.Krt("logs", hello.Name); got != "Hello from hello\n" {
			t.Errorf("logs of hello: %q", got)
		}
		env.Kubectl("delete", "persistentworkspaces", "--all") // for which the Pod would wait
	})
}

// ready waits for Runtimes.
func ready(env *e2e.Env, runtimes ...string) {
	for _, name := range runtimes {
		env.WaitRuntime(&corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}})
	}
}

// example is a file of the source tree, with images that the cluster has.
func example(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return withImages(string(text))
}

func withImages(manifests string) string {
	return strings.NewReplacer("debian:12-slim", e2e.Setting("BASH_IMAGE"), "python:3.12-slim", e2e.Setting("PYTHON_IMAGE"),
		"python:3.12\n", e2e.Setting("PYTHON_IMAGE")+"\n").Replace(manifests)
}

// created creates what is in a file of the source tree, and returns the names that it got.
func created(t *testing.T, env *e2e.Env, path string) []string {
	t.Helper()
	got := env.TryKubectl(example(t, path), "create", "--filename=-", "--output=name")
	if got.Code != 0 {
		t.Fatalf("creating %s: %+v", path, got)
	}
	var names []string
	for line := range strings.Lines(got.Stdout) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "/")
		names = append(names, name)
	}
	if len(names) == 0 || slices.Contains(names, "") {
		t.Fatalf("creating %s: %+v", path, got)
	}
	return names
}
