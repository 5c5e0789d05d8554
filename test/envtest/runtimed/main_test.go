// Package runtimed tests the sidecar, with the real runtime server beside it, against a real API server. Both run as
// processes of this machine; a Runtime's Pod is made by hand, and Runs are bound to it as the scheduler would.
package runtimed

import (
	"os"
	"testing"

	"kruntimes.io/kruntimes/test/envtest/cluster"
	"kruntimes.io/kruntimes/test/programs"
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
	if binaries, err = programs.In(dir, programs.Runtimed, programs.RuntimedS3, programs.RuntimeServer); err != nil {
		panic(err)
	}
	shared = cluster.MustStart()
	defer shared.Stop()
	return m.Run()
}
