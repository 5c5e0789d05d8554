package core

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

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
	log, silence := testLog(t)
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

// testLog logs into the test until it is silenced: goroutines of a manager may outlive it for a moment, and a test that
// is over must not be written to.
func testLog(t *testing.T) (log logr.Logger, silence func()) {
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
