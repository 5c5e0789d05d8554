package runtimed

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"kruntimes.io/kruntimes/runtimed/executor"
)

// oneRun is what an API server holds that has one Run for the Pod, which asks to be cancelled.
const oneRun = `{"apiVersion":"kruntimes.io/v1alpha1","kind":"RunList","metadata":{"resourceVersion":"7"},"items":[
	{"metadata":{"namespace":"ns","name":"r","uid":"u","resourceVersion":"7"},
	"spec":{"runtime":"sh","cancelRequested":true},
	"status":{"phase":"Scheduled","assignedPod":"p","assignedPodUID":"pu","attempt":1}}]}`

// stuck is an API server that answers no watch, no write, and nothing about Pods. writing is closed at the first write.
func stuck(t *testing.T) (config *rest.Config, writing chan struct{}) {
	t.Helper()
	writing = make(chan struct{})
	var first sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case r.Method == http.MethodGet && !query.Has("watch") && !strings.Contains(r.URL.Path, "/pods/"):
			_, _ = io.WriteString(w, oneRun)
			return
		case query.Has("sendInitialEvents"): // as an API server answers that cannot do it
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422}`)
			return
		}
		if r.Method == http.MethodPatch {
			first.Do(func() { close(writing) })
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, writing
}

// TestClaimsEndBeforeRunReturns has a claim that is busy when the time is up: nothing may be closed under its hands, and
// nobody may believe that all is reported.
func TestClaimsEndBeforeRunReturns(t *testing.T) {
	config, writing := stuck(t)
	returned, ended, late := make(chan struct{}), make(chan struct{}), false
	log := funcr.New(func(_, line string) {
		if !strings.Contains(line, "Dropped Run") {
			return
		}
		defer close(ended)
		// A Run that does not wait for the claim has returned long before the time is up.
		timer := time.NewTimer(300 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-returned:
			late = true
		case <-timer.C:
		}
	}, funcr.Options{})
	ctx, cancel := context.WithTimeout(logr.NewContext(t.Context(), log), time.Minute)
	defer cancel()
	go func() {
		<-writing
		cancel()
	}()
	dir := t.TempDir()
	err := Run(ctx, Options{
		Pod: executor.Pod{Name: "p", Namespace: "ns", UID: "pu"}, Config: config,
		Socket: filepath.Join(dir, "s"), Scratch: dir, State: filepath.Join(dir, "state"),
		Workspace: t.TempDir(), Interpreter: []string{"/bin/sh"}, Stdout: io.Discard, BootID: "b", Shutdown: ShutdownTiming{UnknownGrace: time.Millisecond},
	})
	close(returned)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the claim does not end")
	}
	if late || !errors.Is(err, errTimeUp) {
		t.Errorf("Run returned %v; while a claim was at work: %t", err, late)
	}
}
