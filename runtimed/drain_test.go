package runtimed

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"kruntimes.io/kruntimes/runtimed/executor"
)

// lateRun is a Run that was assigned to the Pod, of which no watch has told.
const lateRun = `{"apiVersion":"kruntimes.io/v1alpha1","kind":"Run",
	"metadata":{"namespace":"ns","name":"late","uid":"u","resourceVersion":"8"},"spec":{"runtime":"sh","source":{"inline":"true"}},
	"status":{"phase":"Scheduled","assignedPod":"p","assignedPodUID":"pu","attempt":1}}`

// drainAPI is an API server of a Pod that is being deleted, which sends nothing on its watches.
type drainAPI struct {
	*httptest.Server
	watching chan struct{}

	mu sync.Mutex
	// lists are what the lists of Runs after the first one are answered with, the last one for ever: items, or nothing for
	// an error. patches are what was written.
	lists   []string
	listed  int
	patches []string
	once    sync.Once
}

func startDrainAPI(t *testing.T, lists ...string) *drainAPI {
	t.Helper()
	api := &drainAPI{watching: make(chan struct{}), lists: append([]string{"[]"}, lists...)}
	api.Server = httptest.NewServer(api)
	t.Cleanup(api.Close)
	return api
}

func (a *drainAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	write := func(code int, text string) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch path := r.URL.Path; {
	case query.Has("sendInitialEvents"):
		write(http.StatusUnprocessableEntity, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422}`)
	case query.Has("watch"):
		_ = http.NewResponseController(w).Flush()
		if strings.HasSuffix(path, "/runs") {
			a.once.Do(func() { close(a.watching) })
		}
		a.mu.Unlock()
		<-r.Context().Done()
		a.mu.Lock()
	case strings.Contains(path, "/pods/"):
		write(http.StatusOK, `{"metadata":{"name":"p","uid":"pu","deletionTimestamp":"2026-01-02T03:04:05Z","deletionGracePeriodSeconds":600}}`)
	case strings.HasSuffix(path, "/namespaces/ns"):
		write(http.StatusOK, `{"metadata":{"name":"ns"}}`)
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		a.patches = append(a.patches, string(body))
		write(http.StatusOK, strings.NewReplacer(`"Scheduled"`, `"Pending"`, `"attempt":1`, `"attempt":2`, `"8"`, `"9"`).Replace(lateRun))
	case strings.HasSuffix(path, "/persistentworkspaces"):
		write(http.StatusOK, `{"apiVersion":"workspaces.kruntimes.io/v1alpha1","kind":"PersistentWorkspaceList","metadata":{"resourceVersion":"7"},"items":[]}`)
	case a.lists[min(a.listed, len(a.lists)-1)] == "":
		a.listed++
		write(http.StatusInternalServerError, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"InternalError","code":500}`)
	default:
		items := a.lists[min(a.listed, len(a.lists)-1)]
		a.listed++
		write(http.StatusOK, `{"apiVersion":"kruntimes.io/v1alpha1","kind":"RunList","metadata":{"resourceVersion":"7"},"items":`+items+`}`)
	}
}

// TestTheLastLookFindsRunsOfWhichNoWatchTells keeps a Run from being left behind that was assigned in the last moment.
func TestTheLastLookFindsRunsOfWhichNoWatchTells(t *testing.T) {
	type written struct {
		Phase   string
		Attempt int
	}
	handedBack := []written{{Phase: "Pending", Attempt: 2}}
	cases := map[string]struct {
		lists []string
		want  []written
		// looks is how often the Runs were listed, the first list of all included.
		looks int
	}{
		"there is none":                        {[]string{"[]"}, nil, 2},
		"there is one":                         {[]string{"[" + lateRun + "]", "[]"}, handedBack, 3},
		"the API server has to be asked again": {[]string{"", "[" + lateRun + "]", "", "[]"}, handedBack, 5},
		"it is that of an earlier Pod":         {[]string{"[" + strings.ReplaceAll(lateRun, `"pu"`, `"earlier"`) + "]"}, nil, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := startDrainAPI(t, tc.lists...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			go func() {
				<-api.watching
				cancel()
			}()
			dir, err := os.MkdirTemp("", "drain-") //nolint:usetesting // t.TempDir is too long a path for a socket
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			err = Run(ctx, Options{
				Pod: executor.Pod{Name: "p", Namespace: "ns", UID: "pu"}, Config: &rest.Config{Host: api.URL},
				Socket: filepath.Join(dir, "s"), Scratch: t.TempDir(), State: filepath.Join(dir, "state"),
				Workspace: t.TempDir(), Interpreter: []string{"/bin/sh"}, Stdout: io.Discard, BootID: "b",
				Shutdown: ShutdownTiming{Linger: time.Millisecond},
			})
			if err != nil {
				t.Errorf("Run returned %v: somebody would believe that Runs are lost", err)
			}
			api.mu.Lock()
			defer api.mu.Unlock()
			var got []written
			for _, patch := range api.patches {
				var p struct{ Status written }
				if err := json.Unmarshal([]byte(patch), &p); err != nil {
					t.Fatal(err)
				}
				got = append(got, p.Status)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || api.listed != tc.looks {
				t.Errorf("looked %d times, want %d; written (-want +got):\n%s", api.listed, tc.looks, diff)
			}
		})
	}
}
