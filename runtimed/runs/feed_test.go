package runs

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

const patience = 10 * time.Second

// apiServer answers list and watch requests; watches end when it is told to.
type apiServer struct {
	*httptest.Server
	requests chan string
	list     corev1alpha1.RunList
	events   chan watch.Event
	cut      chan struct{}
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{requests: make(chan string, 16), events: make(chan watch.Event), cut: make(chan struct{})}
	s.list.ResourceVersion = "10"
	s.list.TypeMeta = metav1.TypeMeta{APIVersion: corev1alpha1.GroupVersion.String(), Kind: "RunList"}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case q.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity) // the Feed falls back to a list
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
	case q.Get("watch") == "":
		s.requests <- "list " + q.Get("resourceVersion") + " " + q.Get("fieldSelector")
		_ = json.NewEncoder(w).Encode(s.list)
	default:
		s.requests <- "watch " + q.Get("resourceVersion") + " " + q.Get("fieldSelector")
		s.stream(r.Context(), w)
	}
}

func (s *apiServer) stream(ctx context.Context, w http.ResponseWriter) {
	flush := http.NewResponseController(w).Flush
	_ = flush()
	for {
		select {
		case e := <-s.events:
			_ = json.NewEncoder(w).Encode(map[string]any{"type": e.Type, "object": e.Object})
			_ = flush()
		case <-s.cut:
			return
		case <-ctx.Done():
			return
		}
	}
}

// recorder writes down what a handler is told.
type recorder chan string

func (r recorder) Listed(all []*corev1alpha1.Run) {
	names := make([]string, 0, len(all))
	for _, run := range all {
		names = append(names, run.Name)
	}
	r <- "listed " + strings.Join(names, ",")
}
func (r recorder) Changed(run *corev1alpha1.Run) { r <- "changed " + run.Name }
func (r recorder) Left(run *corev1alpha1.Run)    { r <- "left " + run.Name }

func runOn(name, podUID string) *corev1alpha1.Run {
	return &corev1alpha1.Run{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1alpha1.GroupVersion.String(), Kind: "Run"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), ResourceVersion: "11"},
		Status:     corev1alpha1.RunStatus{Phase: corev1alpha1.RunScheduled, AssignedPod: "p", AssignedPodUID: podUID},
	}
}

func next(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case s := <-from:
		return s
	case <-time.After(patience):
		t.Fatal("nothing comes")
	}
	return ""
}

func TestFeed(t *testing.T) {
	s := startAPIServer(t)
	s.list.Items = []corev1alpha1.Run{*runOn("a", "mine"), *runOn("b", "theirs")}
	client, err := NewClient(&rest.Config{Host: s.URL}, "ns")
	if err != nil {
		t.Fatal(err)
	}
	told := make(recorder, 16)
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	feed := NewFeed(client, FeedOptions{Pod: "p", PodUID: "mine", Handler: told, Clock: clock, Log: logr.Discard()})
	live := func(want bool) {
		t.Helper()
		if got, why := feed.Live(); got != want || (why == "") != want {
			t.Errorf("want live %v, got %v %q", want, got, why)
		}
	}
	live(false)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { feed.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()

	const selector = "status.assignedPod=p,status.phase!=Succeeded,status.phase!=Failed,status.phase!=Timeout,status.phase!=Cancelled"
	for _, want := range []string{"list  " + selector, "watch 10 " + selector} {
		if diff := cmp.Diff(want, next(t, s.requests)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	s.events <- watch.Event{Type: watch.Added, Object: runOn("c", "theirs")}
	s.events <- watch.Event{Type: watch.Added, Object: runOn("d", "mine")}
	s.events <- watch.Event{Type: watch.Deleted, Object: runOn("c", "theirs")}
	s.events <- watch.Event{Type: watch.Deleted, Object: runOn("d", "mine")}
	for _, want := range []string{"listed a", "changed d", "left d"} {
		if diff := cmp.Diff(want, next(t, told)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	live(true) // as long as the watch is open
	s.cut <- struct{}{}
	if got := next(t, s.requests); !strings.HasPrefix(got, "watch 11 ") {
		t.Errorf("want the watch to go on, got %q", got)
	}
}

// TestLiveAfterALoss closes the last watch: the Pod counts as in touch for a while.
func TestLiveAfterALoss(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	feed := NewFeed(nil, FeedOptions{Clock: clock})
	feed.open = 1
	feed.watchEnded()
	for after, want := range map[time.Duration]bool{0: true, staleAfter - 1: true, staleAfter: false} {
		clock.SetTime(time.Unix(1000, 0).Add(after))
		if got, _ := feed.Live(); got != want {
			t.Errorf("after %s: want %v, got %v", after, want, got)
		}
	}
}
