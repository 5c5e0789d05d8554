// Package scheduler tests the scheduler against a real API server, with Pods made by hand and a stand-in for runtimed
// that finishes the Runs it is given.
package scheduler

import (
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"kruntimes.io/kruntimes/test/envtest/cluster"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	shared = cluster.MustStart()
	defer shared.Stop()
	m.Run()
}
