package core

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

const nodeImage = cluster.NodeImage

// startManager runs the manager as cluster.StartManager says.
func startManager(t *testing.T, change ...func(*manager.Options)) (stop func()) {
	t.Helper()
	return shared.StartManager(t, change...)
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
			return cluster.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.HasPrefix(r.URL.Path, "/apis/kruntimes.io/v1alpha1/runtimes") {
					requests.Add(1)
					return nil, cluster.ErrKilled
				}
				return next.RoundTrip(r)
			})
		})
	})
	cluster.Eventually(t, "the manager to ask for Runtimes", func(context.Context) (bool, error) { return requests.Load() > 0, nil })
	stop()
}
