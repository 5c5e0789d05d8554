package runtimed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// readiness answers the readiness probe from what runtimed knows; it asks nobody.
type readiness struct {
	// draining is closed when runtimed takes no more Runs.
	draining <-chan struct{}
	// checks return false, and why, when the Pod cannot execute Runs now.
	checks []func() (bool, string)
}

// problems returns why the Pod is not ready; nothing when it is.
func (r readiness) problems() []string {
	select {
	case <-r.draining:
		return []string{"shutting down"}
	default:
	}
	var problems []string
	for _, check := range r.checks {
		if ok, why := check(); !ok {
			problems = append(problems, why)
		}
	}
	return problems
}

// ServeHTTP answers 200, or 503 with the reasons.
func (r readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	text := "ok"
	if problems := r.problems(); len(problems) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = strings.Join(problems, "; ")
	}
	_, _ = fmt.Fprintln(w, text) // a prober that hung up is nobody to tell
}

// serveHealth serves /readyz until ctx ends.
func serveHealth(ctx context.Context, address string, ready readiness) error {
	if address == "" || address == "0" {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /readyz", ready)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 10 * time.Second}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening for health probes: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // the process is about to end
	defer stop()
	if err := s.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving health probes: %w", err)
	}
	return nil
}
