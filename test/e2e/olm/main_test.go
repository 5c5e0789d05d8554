//go:build e2eolm

// Package olm installs the bundle with the real operator of OLM into the cluster of KUBECONFIG, uses what came of it, and removes
// it again. The cluster needs a kubelet and the images kruntimes/controlplane:dev and kruntimes/node:dev, and neither OLM nor
// another installation of kruntimes may be in it. "make e2e-olm" provides such a cluster.
package olm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/devcluster/process"
	"kruntimes.io/kruntimes/test/e2e"
)

const (
	// namespace is where the bundle is installed: another one than that of config/default.
	namespace = "kruntimes-by-olm"
	bundle    = "../../../bundle"
	// programs is where olm and olm-catalog lie.
	programs = "../../../bin/tools"
	// patience is how long one step may take.
	patience = 3 * time.Minute
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	m.Run()
}

// harness is the cluster.
type harness struct {
	config *rest.Config
	admin  client.Client
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	admin, config := e2e.Administrator(t)
	return &harness{config: config, admin: admin}
}

func (h *harness) client(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: e2e.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs a program to its end.
func (h *harness) run(t *testing.T, program string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(programs, program), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}

// startOLM runs the operator until the test ends. Its log is printed where the test has failed.
func (h *harness) startOLM(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "olm.log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(programs, "olm"), "--namespace=default", "--interval=30s") // It is ended below, after what depends on it.
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = process.Attributes(syscall.SIGKILL) // also when go test's -timeout ends this process
	if err := process.StartBound(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Kill(), log.Close()); err != nil {
			t.Errorf("ending olm: %v", err)
		}
		_ = cmd.Wait()
		if !t.Failed() {
			return
		}
		e2e.Collect(t, team)
		if text, err := os.ReadFile(path); err == nil {
			t.Logf("olm said:\n%s", text[max(0, len(text)-8000):])
		}
	})
}

// eventually waits until condition is true.
func eventually(t *testing.T, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		done, err := condition(ctx)
		last = err
		return done && err == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, errors.Join(err, last))
	}
}

// waitForInstallation waits until OLM says so, and the Deployments are up to date.
func (h *harness) waitForInstallation(t *testing.T) {
	t.Helper()
	csvs := &unstructured.UnstructuredList{}
	csvs.SetAPIVersion("operators.coreos.com/v1alpha1")
	csvs.SetKind("ClusterServiceVersionList")
	eventually(t, "phase Succeeded", func(ctx context.Context) (bool, error) {
		if err := h.admin.List(ctx, csvs, client.InNamespace(namespace)); err != nil || len(csvs.Items) != 1 {
			return false, errors.Join(fmt.Errorf("there are %d ClusterServiceVersions", len(csvs.Items)), err)
		}
		status, _, _ := unstructured.NestedMap(csvs.Items[0].Object, "status")
		if status["phase"] != "Succeeded" {
			return false, fmt.Errorf("phase %v: %v", status["phase"], status["message"])
		}
		return h.rolledOut(ctx)
	})
}

// rolledOut tells whether the Deployments run what they say.
func (h *harness) rolledOut(ctx context.Context) (bool, error) {
	var deployments appsv1.DeploymentList
	if err := h.admin.List(ctx, &deployments, client.InNamespace(namespace)); err != nil || len(deployments.Items) != 2 {
		return false, errors.Join(fmt.Errorf("there are %d Deployments", len(deployments.Items)), err)
	}
	for _, d := range deployments.Items {
		if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != 1 || d.Status.Replicas != 1 || d.Status.UpdatedReplicas != 1 {
			return false, fmt.Errorf("Deployment %s is not rolled out: %+v", d.Name, d.Status)
		}
	}
	return true, nil
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
