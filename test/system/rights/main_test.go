// Package rights holds what the components may do against what they do: their real identities run on a dev cluster whose API
// server notes every request, and the notes are held against the roles.
package rights

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/test/envtest/cluster"
	"kruntimes.io/kruntimes/test/programs"
)

var (
	dev   *devcluster.Cluster
	admin client.Client
	// notes is the file in which the API server notes requests.
	notes string
)

func TestMain(m *testing.M) {
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withCluster builds the programs, starts a dev cluster, and calls run.
func withCluster(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "kruntimes-rights-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	notes = filepath.Join(dir, "audit.log")
	bin, err := programs.In(dir, programs.Krt, programs.Runtimed, programs.RuntimeServer)
	if err != nil {
		return 1, err
	}
	dev, err = devcluster.Start(context.Background(), devcluster.Options{
		StateDir: filepath.Join(dir, "state"), Progress: os.Stderr, Environ: os.Environ(), AuditLog: notes,
		Binaries: devcluster.Binaries{
			Kubelet:  []string{filepath.Join(bin, "krt"), "dev", "kubelet"},
			Runtimed: filepath.Join(bin, "runtimed"), RuntimeServer: filepath.Join(bin, "runtime-server"),
		},
	})
	if err != nil {
		return 1, fmt.Errorf("starting the dev cluster: %w", err)
	}
	defer dev.Stop()
	if admin, err = client.New(dev.Config(), client.Options{Scheme: cluster.Scheme()}); err != nil {
		return 1, err
	}
	return run(), nil
}
