package e2e

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
)

// Result is what a program left.
type Result struct {
	// Stdout and Stderr are what it wrote.
	Stdout, Stderr string
	// Code is its exit code.
	Code int
}

// Kubectl runs kubectl as the administrator in the test's namespace, fails the test when it fails, and returns what it wrote.
func (e *Env) Kubectl(args ...string) string {
	e.t.Helper()
	return e.must(e.TryKubectl("", args...), "kubectl", args)
}

// Apply gives manifests to kubectl apply, those that name no namespace in that of the test, and returns what it says of each.
func (e *Env) Apply(manifests string) string {
	e.t.Helper()
	args := []string{"apply", "-f", "-"}
	return e.must(e.TryKubectl(manifests, args...), "kubectl", args)
}

// ApplyInstallation gives manifests that name their namespaces to kubectl apply, and returns what it says of each.
func (e *Env) ApplyInstallation(manifests string) string {
	e.t.Helper()
	args := []string{"--kubeconfig=" + Setting("KUBECONFIG"), "apply", "-f", "-"}
	return e.must(e.execute(manifests, Setting("KUBECTL"), args), "kubectl", args)
}

// TryKubectl is Kubectl with an input, for commands that may fail.
func (e *Env) TryKubectl(stdin string, args ...string) Result {
	e.t.Helper()
	return e.execute(stdin, Setting("KUBECTL"), append([]string{"--kubeconfig=" + Setting("KUBECONFIG"), "--namespace=" + e.Namespace}, args...))
}

// Krt runs krt as the administrator in the test's namespace, fails the test when it fails, and returns what it wrote.
func (e *Env) Krt(args ...string) string {
	e.t.Helper()
	return e.must(e.TryKrt("", args...), "krt", args)
}

// TryKrt is Krt with an input, for commands that may fail.
func (e *Env) TryKrt(stdin string, args ...string) Result {
	e.t.Helper()
	return e.execute(stdin, Setting("KRT"), append([]string{"--kubeconfig=" + Setting("KUBECONFIG"), "--namespace=" + e.Namespace}, args...))
}

// Render returns what kustomize makes of a folder of the source tree, such as config/default.
func (e *Env) Render(folder string) string {
	e.t.Helper()
	args := []string{"build", filepath.Join(root(), folder)}
	return e.must(e.execute("", Setting("KUSTOMIZE"), args), "kustomize", args)
}

func (e *Env) must(result Result, program string, args []string) string {
	e.t.Helper()
	if result.Code != 0 {
		e.t.Fatalf("%s %s: exit code %d\n%s%s", program, strings.Join(args, " "), result.Code, result.Stdout, result.Stderr)
	}
	return result.Stdout
}

func (e *Env) execute(stdin, program string, args []string) Result {
	e.t.Helper()
	result, err := execute(e.t.Context(), stdin, program, args)
	if err != nil {
		e.t.Fatalf("running %s: %v", program, err)
	}
	return result
}

// execute returns an error only when the program cannot be started.
func execute(ctx context.Context, stdin, program string, args []string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return Result{}, err
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}, nil
}
