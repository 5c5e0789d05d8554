// Package upgrade holds the manager and scheduler of now against objects that a release has written, in many states and in
// mid-work: testdata has a file for each release, with the objects as they lay in etcd.
//
// The file of a release is recorded by its own code: see docs/development.md.
package upgrade

import (
	"context"
	"flag"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"kruntimes.io/kruntimes/scheduler"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// namespace holds all recorded objects but the Node.
const namespace = "recorded"

// recordTo is where the objects that this version writes are recorded.
var recordTo = flag.String("record", "", "Record the objects of this version into `file` instead of replaying others")

// shared is the control plane of the test that runs.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	m.Run()
}

// startCluster starts a control plane of its own for a test: what is recorded has the same names in every release.
func startCluster(t *testing.T) {
	t.Helper()
	shared = cluster.MustStart()
	t.Cleanup(shared.Stop)
}

// startScheduler runs the scheduler under its own identity until the test ends or the returned function is called.
func startScheduler(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- scheduler.Run(ctx, scheduler.Options{Config: shared.ServiceAccount(t, "kruntimes-system", "kruntimes-scheduler")})
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the scheduler ended with %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}
