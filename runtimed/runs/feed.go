package runs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// Handler is told about the active Runs of the Pod. Calls come one at a time and must return quickly.
type Handler interface {
	// Listed hands over all active Runs of the Pod: first at the start, and again after the watch had a gap.
	Listed(all []*corev1alpha1.Run)
	// Changed hands over a Run that came or changed.
	Changed(run *corev1alpha1.Run)
	// Left tells that a Run is finished, or not assigned to the Pod any more, or deleted.
	Left(run *corev1alpha1.Run)
}

// FeedOptions configure a Feed. All fields are required.
type FeedOptions struct {
	// Pod and PodUID name the Pod whose Runs are watched.
	Pod, PodUID string
	// Handler is told about them.
	Handler Handler
	// Clock measures for how long there was no watch.
	Clock clock.PassiveClock
	// Log receives what goes wrong.
	Log logr.Logger
}

// Feed watches the active Runs of one Pod. It stores none of them.
type Feed struct {
	FeedOptions
	client   *Client
	selector string

	mu sync.Mutex
	// open counts the watches that are open; lostAt is when the last one ended.
	open   int
	lostAt time.Time
}

// NewFeed returns a Feed of the active Runs that are assigned to the Pod.
func NewFeed(client *Client, opts FeedOptions) *Feed {
	return &Feed{
		FeedOptions: opts, client: client, selector: activeOn(opts.Pod), lostAt: opts.Clock.Now().Add(-staleAfter),
	}
}

// staleAfter is how long the feed may be without a watch before the Pod counts as out of touch with the API.
const staleAfter = 30 * time.Second

// activeOn selects the Runs that are assigned to the Pod and not finished. The API server evaluates it, so that a
// finished Run leaves the watch at once.
func activeOn(pod string) string {
	terms := []fields.Selector{fields.OneTermEqualSelector(corev1alpha1.FieldAssignedPod, pod)}
	for _, phase := range corev1alpha1.RunPhases() {
		if phase.IsTerminal() {
			terms = append(terms, fields.OneTermNotEqualSelector(corev1alpha1.FieldPhase, string(phase)))
		}
	}
	return fields.AndSelectors(terms...).String()
}

// Run feeds the handler until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: 5 * time.Second}
	reflector := cache.NewReflectorWithOptions(
		&cache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch},
		&corev1alpha1.Run{}, (*sink)(f),
		cache.ReflectorOptions{Name: "runs", Logger: &f.Log, Backoff: &backoff},
	)
	reflector.RunWithContext(ctx)
}

// Live tells whether changes arrive now, or did until a moment ago, and if not, why.
func (f *Feed) Live() (bool, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open > 0 || f.Clock.Since(f.lostAt) < staleAfter {
		return true, ""
	}
	return false, fmt.Sprintf("no watch on Runs for more than %s", staleAfter)
}

// list reads the Runs of the Pod. The API server must not answer from an old cache: a Run that was bound and marked
// before a restart of runtimed, yet missing here, would be taken for finished and later for new.
func (f *Feed) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	opts.FieldSelector = f.selector
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion = ""
	}
	return f.client.list(ctx, opts)
}

// Active reads the active Runs of the Pod from the API server's store, beside what Run feeds to the handler.
func (f *Feed) Active(ctx context.Context) ([]*corev1alpha1.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := f.client.list(ctx, metav1.ListOptions{FieldSelector: f.selector})
	if err != nil {
		return nil, fmt.Errorf("listing the active Runs of the Pod: %w", err)
	}
	var mine []*corev1alpha1.Run
	for i := range list.Items {
		if run := &list.Items[i]; f.isMine(run) {
			mine = append(mine, run)
		}
	}
	return mine, nil
}

func (f *Feed) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.FieldSelector = f.selector
	opts.Watch = true
	var timeout time.Duration
	if opts.TimeoutSeconds != nil {
		timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	w, err := f.client.rest.Get().Namespace(f.client.namespace).Resource(resource).
		VersionedParams(&opts, f.client.parameters).Timeout(timeout).Watch(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
	return &trackedWatch{Interface: w, ended: sync.OnceFunc(f.watchEnded)}, nil
}

func (f *Feed) watchEnded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
	f.lostAt = f.Clock.Now()
}

// isMine tells a Run of this Pod from one of an earlier Pod of the same name.
func (f *Feed) isMine(run *corev1alpha1.Run) bool { return run.Status.AssignedPodUID == f.PodUID }

// trackedWatch tells when it is over. The reflector stops every watch it has opened.
type trackedWatch struct {
	watch.Interface
	ended func()
}

func (w *trackedWatch) Stop() {
	w.Interface.Stop()
	w.ended()
}

// sink is the store that the reflector writes to. It keeps nothing and passes everything on.
type sink Feed

var _ cache.ReflectorStore = (*sink)(nil)

func (s *sink) Add(obj any) error { return s.Update(obj) }

func (s *sink) Update(obj any) error {
	if run := obj.(*corev1alpha1.Run); (*Feed)(s).isMine(run) {
		s.Handler.Changed(run)
	}
	return nil
}

func (s *sink) Delete(obj any) error {
	if run := obj.(*corev1alpha1.Run); (*Feed)(s).isMine(run) {
		s.Handler.Left(run)
	}
	return nil
}

func (s *sink) Replace(objs []any, _ string) error {
	mine := make([]*corev1alpha1.Run, 0, len(objs))
	for _, obj := range objs {
		if run := obj.(*corev1alpha1.Run); (*Feed)(s).isMine(run) {
			mine = append(mine, run)
		}
	}
	s.Handler.Listed(mine)
	return nil
}

func (s *sink) Resync() error { return nil }
