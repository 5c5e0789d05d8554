package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// collect keeps objects, events and logs of the test's namespace and of that of kruntimes, and says where. It goes on where
// something cannot be had.
func (e *Env) collect() {
	e.t.Helper()
	base, err := artifacts()
	if err != nil {
		e.t.Logf("keeping what helps to understand the failure: %v", err)
		return
	}
	dir := filepath.Join(base, strings.NewReplacer("/", "_", " ", "_").Replace(e.t.Name()))
	ctx, cancel := context.WithTimeout(context.Background(), collectLimit)
	defer cancel()
	for _, namespace := range []string{e.Namespace, SystemNamespace} {
		e.collectNamespace(ctx, filepath.Join(dir, namespace), namespace)
	}
	e.t.Logf("logs, events and objects are in %s", dir)
}

func (e *Env) collectNamespace(ctx context.Context, dir, namespace string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		e.t.Logf("keeping what helps to understand the failure: %v", err)
		return
	}
	kubectl := func(args ...string) string {
		result, err := execute(ctx, "", Setting("KUBECTL"), append([]string{"--kubeconfig=" + Setting("KUBECONFIG"), "--namespace=" + namespace}, args...))
		if err != nil {
			return err.Error()
		}
		return result.Stdout + result.Stderr
	}
	keep := func(name, content string) {
		if strings.TrimSpace(content) == "" {
			return
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			e.t.Logf("keeping %s: %v", name, err)
		}
	}
	keep("objects.yaml", kubectl("get", ourKinds, "--output=yaml"))
	keep("objects.txt", kubectl("get", ourKinds, "--output=wide"))
	keep("events.txt", kubectl("get", "events", "--sort-by=.metadata.creationTimestamp"))
	for _, pod := range strings.Fields(kubectl("get", "pods", "--output=jsonpath={.items[*].metadata.name}")) {
		keep(pod+".log", kubectl("logs", pod, "--all-containers", "--prefix", "--timestamps"))
		keep(pod+".previous.log", kubectl("logs", pod, "--all-containers", "--prefix", "--timestamps", "--previous"))
		keep(pod+".txt", kubectl("describe", "pod", pod))
	}
}
