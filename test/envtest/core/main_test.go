// Package core tests the kinds of kruntimes.io, their policies and their controllers against a real API server.
package core

import (
	"testing"

	"kruntimes.io/kruntimes/test/envtest/cluster"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	shared = cluster.MustStart()
	defer shared.Stop()
	m.Run()
}
