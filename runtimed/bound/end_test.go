package bound

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/workspace"
)

// leaving is a workspace whose directory is to be removed.
func leaving() *workspacesv1alpha1.PersistentWorkspace {
	return &workspacesv1alpha1.PersistentWorkspace{
		TypeMeta: metav1.TypeMeta{APIVersion: workspacesv1alpha1.GroupVersion.String(), Kind: workspacesv1alpha1.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w", UID: "u", ResourceVersion: "1",
			DeletionTimestamp: &metav1.Time{Time: time.Now()}, Finalizers: []string{workspacesv1alpha1.Finalizer}},
		Status: workspacesv1alpha1.PersistentWorkspaceStatus{Phase: workspacesv1alpha1.WorkspaceReleased, BoundPod: "p", BoundPodUID: "pu"},
	}
}

// endOf has the workspace w removed from a volume, by an API server that answers patches with the given codes, and returns
// the messages that were logged. No time passes meanwhile.
func endOf(t *testing.T, at string, codes ...int) []string {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPatch {
			code := codes[0]
			if codes = codes[1:]; code != http.StatusOK {
				w.WriteHeader(code)
				_ = json.NewEncoder(w).Encode(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
					Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReasonConflict})
				return
			}
		}
		_ = json.NewEncoder(w).Encode(leaving())
	}))
	defer api.Close()
	client, err := NewClient(&rest.Config{Host: api.URL}, "ns")
	if err != nil {
		t.Fatal(err)
	}
	volume, err := workspace.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = volume.Close() }()
	var messages []string
	k := NewKeeper(Options{
		Pod: "p", PodUID: "pu", Client: client, Volume: volume, Occupancy: &workspace.Occupancy{},
		Active: func(context.Context) ([]*corev1alpha1.Run, error) { return nil, nil },
		Clock:  clocktesting.NewFakeClock(time.Now()),
		Log: funcr.NewJSON(func(line string) {
			var record struct {
				Msg   string
				Cause string
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Error(err)
			}
			messages = append(messages, strings.TrimSuffix(record.Msg+": "+record.Cause, ": "))
		}, funcr.Options{}),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	k.ctx = ctx
	k.end("w", "u")
	if ctx.Err() != nil {
		t.Error("it waited before it tried again")
	}
	if len(codes) > 0 {
		t.Errorf("%d patches are missing", len(codes))
	}
	return messages
}

func TestAConflictIsQuietAndTriedAgainAtOnce(t *testing.T) {
	got := endOf(t, t.TempDir(), http.StatusConflict, http.StatusOK)
	if diff := cmp.Diff([]string{"Removed workspace"}, got); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
}

// TestWhatIsInTheWayIsLogged has user code move the directory of all workspaces away: there is none at the path any more.
func TestWhatIsInTheWayIsLogged(t *testing.T) {
	at := t.TempDir()
	if err := os.Symlink("elsewhere", filepath.Join(at, "persistent")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Found no directory at the path of the workspace, whose files may be left elsewhere: " +
			"persistent: it is no directory, but a symbolic link: remove it",
		"Removed workspace",
	}
	if diff := cmp.Diff(want, endOf(t, at, http.StatusOK)); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
}
