package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ourKinds are those of kruntimes, and what they are made of.
const ourKinds = "runtimes.kruntimes.io,runs.kruntimes.io,persistentworkspaces.workspaces.kruntimes.io," +
	"workflows.workflows.kruntimes.io,workflowruns.workflows.kruntimes.io,actions.workflows.kruntimes.io," +
	"deployments,replicasets,pods,persistentvolumeclaims"

// collectLimit bounds the time for all that is kept of one failure.
const collectLimit = 2 * time.Minute

// artifacts is the directory for what is kept of failures: $ARTIFACTS, or a new one.
var artifacts = sync.OnceValues(func() (string, error) {
	if dir := Setting("ARTIFACTS"); dir != "" {
		return filepath.Abs(dir)
	}
	return os.MkdirTemp("", "kruntimes-e2e-")
})

// collect is Collect for the namespace of the test.
func (e *Env) collect() {
	e.t.Helper()
	Collect(e.t, e.Namespace)
}

// Collect keeps objects, events and logs of a test's namespace, and of those in which manager and scheduler run, and says where. It goes
// on where something cannot be had.
func Collect(t *testing.T, namespace string) {
	t.Helper()
	base, err := artifacts()
	if err != nil {
		t.Logf("keeping what helps to understand the failure: %v", err)
		return
	}
	dir := filepath.Join(base, strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), collectLimit)
	defer cancel()
	namespaces := strings.Fields(kubectl(ctx, "get", "pods", "--all-namespaces",
		"--selector=app.kubernetes.io/name=kruntimes,app.kubernetes.io/component", "--output=jsonpath={.items[*].metadata.namespace}"))
	slices.Sort(namespaces)
	for _, namespace := range append(slices.Compact(namespaces), namespace) {
		if err := collectNamespace(ctx, filepath.Join(dir, namespace), namespace); err != nil {
			t.Logf("keeping what helps to understand the failure: %v", err)
		}
	}
	t.Logf("logs, events and objects are in %s", dir)
}

// kubectl returns what the program says, or why it could not be run.
func kubectl(ctx context.Context, args ...string) string {
	result, err := execute(ctx, "", Setting("KUBECTL"), append([]string{"--kubeconfig=" + Setting("KUBECONFIG")}, args...))
	if err != nil {
		return err.Error()
	}
	return result.Stdout + result.Stderr
}

func collectNamespace(ctx context.Context, dir, namespace string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var failed []error
	keep := func(name string, args ...string) {
		content := kubectl(ctx, append([]string{"--namespace=" + namespace}, args...)...)
		if strings.TrimSpace(content) != "" {
			failed = append(failed, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
		}
	}
	keep("objects.yaml", "get", ourKinds, "--output=yaml")
	keep("objects.txt", "get", ourKinds, "--output=wide")
	keep("events.txt", "get", "events", "--sort-by=.metadata.creationTimestamp")
	pods := kubectl(ctx, "--namespace="+namespace, "get", "pods", "--output=jsonpath={.items[*].metadata.name}")
	for _, pod := range strings.Fields(pods) {
		keep(pod+".log", "logs", pod, "--all-containers", "--prefix", "--timestamps")
		keep(pod+".previous.log", "logs", pod, "--all-containers", "--prefix", "--timestamps", "--previous")
		keep(pod+".txt", "describe", "pod", pod)
	}
	return errors.Join(failed...)
}
