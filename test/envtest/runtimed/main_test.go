// Package runtimed tests the sidecar, with the real runtime server beside it, against a real API server. Both run as
// processes of this machine; a Runtime's Pod is made by hand, and Runs are bound to it as the scheduler would.
package runtimed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kruntimes.io/kruntimes/test/envtest/cluster"
)

var (
	shared *cluster.Cluster
	// binaries is where runtimed and runtime-server lie.
	binaries string
)

func TestMain(m *testing.M) {
	if os.Getenv(crashEnv) != "" {
		os.Exit(runCrashing())
	}
	os.Exit(runSuite(m))
}

func runSuite(m *testing.M) int {
	dir, err := os.MkdirTemp("", "runtimed-suite-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries = dir
	for name, program := range map[string][2]string{
		"runtimed": {"grpcnotrace", "runtimed"}, "runtimed-s3": {"grpcnotrace,s3", "runtimed"}, "runtime-server": {"grpcnotrace", "runtime-server"},
	} {
		build := exec.Command("go", "build", "-tags="+program[0], "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, name), "kruntimes.io/kruntimes/cmd/"+program[1])
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic(fmt.Errorf("building %s: %w\n%s", name, err, out))
		}
	}
	shared = cluster.MustStart()
	defer shared.Stop()
	return m.Run()
}
