package core

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/manager"
)

const nodeImage = "example.com/node:1"

// startManager runs the manager under its own identity, so that its rights are tested as well, until the test ends or
// the returned function is called.
func startManager(t *testing.T, change ...func(*manager.Options)) (stop func()) {
	t.Helper()
	options := manager.Options{Config: shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount), NodeImage: nodeImage}
	for _, c := range change {
		c(&options)
	}
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), testr.New(t)))
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx, options) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}
