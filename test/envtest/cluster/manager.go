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
func (c *Cluster) StartManager(t *testing.T, change ...func(*manager.Options)) (stop func()) {
	t.Helper()
	options := manager.Options{Config: c.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount), NodeImage: NodeImage,
		Admission: c.admission.options(t)}
	for _, f := range change {
		f(&options)
	}
	log, silence := TestLog(t)
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), log))
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
			t.Errorf("the manager ended with %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// TestLog logs into the test until it is silenced: goroutines of a component may outlive it for a moment, and a test that
// is over must not be written to.
func TestLog(t *testing.T) (log logr.Logger, silence func()) {
	t.Helper()
	var mu sync.Mutex
	silent := false
	log = funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		if !silent {
			t.Log(prefix, args)
		}
	}, funcr.Options{})
	return log, func() {
		mu.Lock()
		defer mu.Unlock()
		silent = true
	}
}
