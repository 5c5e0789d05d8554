package cluster

import (
	"context"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/manager"
)

// NodeImage is the image of runtimed in suites, where nobody pulls it.
const NodeImage = "example.com/node:1"

// StartManager runs the manager under its own identity, so that its rights are tested as well, until the test ends or
// the returned function is called.
func (c *Cluster) StartManager(tb testing.TB, change ...func(*manager.Options)) (stop func()) {
	tb.Helper()
	options := c.ManagerOptions(tb)
	for _, f := range change {
		f(&options)
	}
	log, silence := TestLog(tb)
	ctx, cancel := context.WithCancel(logr.NewContext(tb.Context(), log))
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx, options) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		err := <-done
		silence()
		if err != nil {
			tb.Errorf("the manager ended with %v", err)
		}
	}
	tb.Cleanup(stop)
	return stop
}

// ManagerOptions are those of a manager under its own identity, with an address of its own for the API server to ask at.
func (c *Cluster) ManagerOptions(tb testing.TB) manager.Options {
	tb.Helper()
	return manager.Options{Config: c.ServiceAccount(tb, config.Namespace, config.ManagerServiceAccount), NodeImage: NodeImage,
		Admission: c.admission.options(tb)}
}

// TestLog logs into the test until it is silenced: goroutines of a component may outlive it for a moment, and a test that
// is over must not be written to.
func TestLog(tb testing.TB) (log logr.Logger, silence func()) {
	tb.Helper()
	var mu sync.Mutex
	silent := false
	log = funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		if !silent {
			tb.Log(prefix, args)
		}
	}, funcr.Options{})
	return log, func() {
		mu.Lock()
		defer mu.Unlock()
		silent = true
	}
}
