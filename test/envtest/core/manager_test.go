package core

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
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

// TestAManagerCanBeStoppedWhileItStarts stops managers at ever later moments of their start.
func TestAManagerCanBeStoppedWhileItStarts(t *testing.T) {
	for delay := time.Duration(0); delay < 400*time.Millisecond; delay += 40 * time.Millisecond {
		stop := startManager(t)
		<-time.After(delay)
		stop()
	}
}

// TestAManagerWithoutAnAPIServerCanBeStopped never gets its caches filled.
func TestAManagerWithoutAnAPIServerCanBeStopped(t *testing.T) {
	var requests atomic.Int32
	stop := startManager(t, func(o *manager.Options) {
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.HasPrefix(r.URL.Path, "/apis/kruntimes.io/v1alpha1/runtimes") {
					requests.Add(1)
					return nil, errKilled
				}
				return next.RoundTrip(r)
			})
		})
	})
	cluster.Eventually(t, "the manager to ask for Runtimes", func(context.Context) (bool, error) { return requests.Load() > 0, nil })
	stop()
}
