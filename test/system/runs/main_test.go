// Package runs takes Runs through a whole dev cluster, with manager and scheduler as processes of their own, while parts
// of it are killed.
package runs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/test/programs"
)

// patience bounds every wait of this package. It is generous: the machine may be busy with other suites.
const patience = 90 * time.Second

var (
	cluster *devcluster.Cluster
	admin   client.Client
	scheme  = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withCluster builds the programs, starts the cluster, and calls run.
func withCluster(run func() int) (code int, err error) {
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, corev1alpha1.AddToScheme, workspacesv1alpha1.AddToScheme, workflowsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return 1, err
		}
	}
	dir, err := os.MkdirTemp("", "kruntimes-system-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin, err := programs.In(dir, programs.Krt, programs.Manager, programs.Scheduler, programs.Runtimed, programs.RuntimeServer)
	if err != nil {
		return 1, err
	}
	cluster, err = devcluster.Start(context.Background(), devcluster.Options{
		StateDir: filepath.Join(dir, "state"), Progress: os.Stderr, Environ: os.Environ(), SeparateProcesses: true,
		Binaries: devcluster.Binaries{
			Kubelet:  []string{filepath.Join(bin, "krt"), "dev", "kubelet"},
			Runtimed: filepath.Join(bin, "runtimed"), RuntimeServer: filepath.Join(bin, "runtime-server"),
			Manager: filepath.Join(bin, "manager"), Scheduler: filepath.Join(bin, "scheduler"),
		},
	})
	if err != nil {
		return 1, fmt.Errorf("starting the dev cluster: %w", err)
	}
	defer cluster.Stop()
	admin, err = client.New(cluster.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return 1, err
	}
	return run(), nil
}
