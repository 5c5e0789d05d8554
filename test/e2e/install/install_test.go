//go:build e2einstall

// Package install installs kruntimes with make under other names, group by group, and removes it, on the cluster of "make e2e".
// It does what an operator does, with kustomize edit alone. What "make e2e" has installed, and what a run that failed has left, is
// removed first.
package install

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
	"kruntimes.io/kruntimes/test/leftovers"
)

const (
	// root is the root of the source tree, seen from this package.
	root = "../../.."
	// overlay is what is installed, seen from the root.
	overlay = "bin/e2e-install"
	// namespace is where it is installed.
	namespace = "acme"
	// limit is how long one command may take.
	limit = 5 * time.Minute
)

func TestInstallsUnderOtherNamesGroupByGroupAndGoes(t *testing.T) {
	if e2e.Setting("CLUSTER") == "" {
		t.Skip("this removes the installation of a cluster, which has to be that of make e2e")
	}
	admin, _ := e2e.Administrator(t)
	for _, before := range []string{"bin/e2e", overlay} {
		if _, err := os.Stat(filepath.Join(root, before, "kustomization.yaml")); err == nil {
			run(t, root, "make", "undeploy", "OVERLAY="+before)
		}
	}
	expectNothing(t, admin)

	directory := filepath.Join(root, overlay)
	if err := os.RemoveAll(directory); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	kustomize(t, directory, "create", "--resources=../../config/overlays/core")
	kustomize(t, directory, "edit", "set", "namespace", namespace)
	kustomize(t, directory, "edit", "set", "nameprefix", "acme-")
	kustomize(t, directory, append([]string{"edit", "set", "image"}, e2e.ImageEdits()...)...)
	kustomize(t, directory, "edit", "add", "transformer", "../../config/clusterscope")
	deploy(t)
	t.Run("core", func(t *testing.T) {
		env := e2e.New(t)
		env.Runtime("bash")
		if r := env.WaitRun(env.Run("bash", "true")); r.Status.Phase != corev1alpha1.RunSucceeded {
			t.Errorf("a Run ended %s %s: %s", r.Status.Phase, r.Status.Reason, r.Status.Message)
		}
		// With what an earlier kubectl has kept of the API, it would send what the API server does not know any more.
		refused := env.TryKubectl(job, "--cache-dir="+t.TempDir(), "create", "-f", "-")
		if refused.Code == 0 || !strings.Contains(refused.Stderr, `no matches for kind "WorkflowRun"`) {
			t.Errorf("a WorkflowRun without its group was answered with exit code %d, %s%s", refused.Code, refused.Stdout, refused.Stderr)
		}
	})

	kustomize(t, directory, "edit", "add", "resource", "../../config/overlays/all")
	kustomize(t, directory, "edit", "remove", "resource", "../../config/overlays/core")
	kustomize(t, directory, "edit", "add", "transformer", "../../config/webhooknames")
	for _, component := range []string{"high-availability", "network-policy"} {
		kustomize(t, directory, "edit", "add", "component", "../../config/components/"+component)
	}
	deploy(t)
	t.Run("all", func(t *testing.T) {
		env := e2e.New(t)
		env.Runtime("bash")
		env.Apply(job)
		env.WaitSucceeded("shares")
	})
	run(t, root, "make", "undeploy", "OVERLAY="+overlay)
	expectNothing(t, admin)
}

// job has steps that share a directory, so the manager is asked about the use of a workspace.
const job = `apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: shares}
spec:
  jobs:
    job:
      runs-on: bash
      steps: [{name: make, run: echo made >file}, {name: check, run: grep made file}]
`

// deploy installs the overlay, after which nothing of it differs from what is there. Installing it again works, and makes nothing new.
// kubectl says "configured" of PodDisruptionBudgets now and then although nothing of them changes, so that is no sign.
func deploy(t *testing.T) {
	t.Helper()
	run(t, root, "make", "deploy", "OVERLAY="+overlay)
	run(t, root, e2e.Setting("KUBECTL"), "--namespace="+namespace, "wait", "--for=condition=Available", "--timeout=180s", "deployment", "--all")
	run(t, root, "bash", "-o", "pipefail", "-c", `"$1" build "$2" | "$3" diff -f -`, "diff", e2e.Setting("KUSTOMIZE"), overlay, e2e.Setting("KUBECTL"))
	for line := range strings.Lines(run(t, root, "make", "deploy", "OVERLAY="+overlay)) {
		if what := strings.TrimSpace(line); strings.HasSuffix(what, " created") {
			t.Errorf("the second time: %s", what)
		}
	}
}

func kustomize(t *testing.T, directory string, args ...string) {
	t.Helper()
	run(t, directory, e2e.Setting("KUSTOMIZE"), args...)
}

// run returns what a command writes, and ends the test when it fails.
func run(t *testing.T, directory, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = directory
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, said)
	}
	t.Logf("%s %s", program, strings.Join(args, " "))
	return string(said)
}

// expectNothing fails when anything of kruntimes is there. What was deleted was waited for, but for what the garbage collector takes.
func expectNothing(t *testing.T, admin client.Client) {
	t.Helper()
	var left []string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, e2e.Deadline, true, func(ctx context.Context) (gone bool, err error) {
		if left, err = leftovers.In(ctx, admin); err != nil {
			return false, err
		}
		if err = admin.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{}); err == nil {
			left = append(left, "Namespace "+namespace)
		}
		return len(left) == 0, client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Fatalf("this is left: %q: %v", left, err)
	}
}
