package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"kruntimes.io/kruntimes/telemetry/endpoint"
)

// health answers probes.
type health struct {
	// listener is nil when no address was given.
	listener net.Listener
	ready    atomic.Bool
}

func newHealth(address string) (*health, error) {
	if address == "" || address == endpoint.Off {
		return &health{}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for health probes on %s: %w", address, err)
	}
	return &health{listener: listener}, nil
}

// setReady tells that the informers hold what the API server holds. A scheduler that waits for the Lease is ready too.
func (h *health) setReady() { h.ready.Store(true) }

// serve answers until ctx ends.
func (h *health) serve(ctx context.Context) error {
	if h.listener == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !h.ready.Load() {
			http.Error(w, "informers are not synced", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(h.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answering health probes: %w", err)
	}
	return nil
}

// newMetrics makes the server of what is counted here, in controller-runtime and in client-go; nil when it is off.
func newMetrics(options Options) (metricsserver.Server, error) {
	serving, err := options.Metrics.Server()
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(options.Config)
	if err != nil {
		return nil, fmt.Errorf("making the client for metrics: %w", err)
	}
	server, err := metricsserver.NewServer(serving, options.Config, client)
	if err != nil {
		return nil, fmt.Errorf("making the metrics server: %w", err)
	}
	return server, nil
}
