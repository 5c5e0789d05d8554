package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// maxQueued is how many events wait to be stored. What is published beyond that is dropped: ten thousand Runs may fail
	// at once, and telling of it must neither hold anybody up nor take much memory.
	maxQueued = 10_000
	// writers is how many events are stored at a time. Few, so that other writes go first.
	writers = 4
	// maxInstance is what the API allows for the name of a reporting process, in bytes.
	maxInstance = 128
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
	// firstRetry and lastRetry bound the wait before an event is sent again that the API server could not store.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 15 * time.Second
	// patience is how old an event may get before it is given up.
	patience = 5 * time.Minute
	// farewell is how long the last events may take when the process is to end.
	farewell = 2 * time.Second
)

// Recorder stores events beside whatever else its process does. A nil Recorder stores nothing.
type Recorder struct {
	client eventsclient.EventsV1Interface
	clock  clock.WithTicker
	by     reporter
	queue  chan published
}

// published is an event and when it was told.
type published struct {
	event Event
	at    time.Time
}

// NewRecorder makes a recorder that reports as a controller, whose name is a qualified one, such as "kruntimes.io/manager".
func NewRecorder(config *rest.Config, controller string, c clock.WithTicker) (*Recorder, error) {
	client, err := eventsclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client for events: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("asking for the host's name: %w", err)
	}
	return newRecorder(client, controller, host, c), nil
}

func newRecorder(client eventsclient.EventsV1Interface, controller, host string, c clock.WithTicker) *Recorder {
	instance := controller + "-" + host
	return &Recorder{
		client: client, clock: c, by: reporter{controller: controller, instance: instance[:min(len(instance), maxInstance)]},
		queue: make(chan published, maxQueued),
	}
}

// Publish hands events over and returns at once. They are stored in no particular order.
func (r *Recorder) Publish(events ...Event) {
	if r == nil {
		return
	}
	for _, e := range events {
		select {
		case r.queue <- published{event: e, at: r.clock.Now()}:
		default:
			count(resultDropped)
		}
	}
}

// NeedLeaderElection tells the manager of controller-runtime to start the recorder in every replica.
func (*Recorder) NeedLeaderElection() bool { return false }

// Start stores what is published until ctx ends, and then, within two seconds, what has been published by then.
func (r *Recorder) Start(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, cancel) })()
	var parts sync.WaitGroup
	for range writers {
		parts.Go(func() { r.serve(ctx, work) })
	}
	parts.Wait()
	return nil
}

// serve stores one event after the other until ctx has ended and none is left. Nothing is stored once work has ended.
func (r *Recorder) serve(ctx, work context.Context) {
	for ctx.Err() == nil {
		select {
		case p := <-r.queue:
			r.record(work, p)
		case <-ctx.Done():
		}
	}
	for { // The select above has no preference.
		select {
		case p := <-r.queue:
			r.record(work, p)
		default:
			return
		}
	}
}

// record stores one event, however often it has to be sent.
func (r *Recorder) record(ctx context.Context, p published) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		result, err := r.store(ctx, p)
		if err == nil {
			count(result)
			return
		}
		if !mayPass(err) || r.clock.Since(p.at) > patience || !r.sleep(ctx, wait) {
			count(resultFailed)
			logr.FromContextOrDiscard(ctx).V(1).Info("Gave an event up", "kind", p.event.Regarding.Kind,
				"object", klog.KRef(p.event.Regarding.Namespace, p.event.Regarding.Name), "reason", p.event.Reason, "cause", err.Error())
			return
		}
	}
}

// store sends one event.
func (r *Recorder) store(ctx context.Context, p published) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	object := p.event.object(r.by, metav1.NewMicroTime(p.at))
	client := r.client.Events(object.Namespace)
	_, err := client.Create(ctx, object, metav1.CreateOptions{})
	switch {
	case err == nil:
		return resultStored, nil
	case !apierrors.IsAlreadyExists(err):
		return "", fmt.Errorf("creating an event: %w", err)
	case !p.event.Recurs:
		return resultKnown, nil
	}
	stored, err := client.Get(ctx, object.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the event that is to be counted: %w", err)
	}
	patch, err := again(stored, metav1.NewMicroTime(p.at))
	if err != nil {
		return "", err
	}
	if _, err := client.Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return "", fmt.Errorf("counting an event: %w", err)
	}
	return resultCounted, nil
}

// again is the patch that counts an event once more. The API lets nothing else of it change, its note least of all.
func again(stored *eventsv1.Event, at metav1.MicroTime) ([]byte, error) {
	series := eventsv1.EventSeries{Count: 2, LastObservedTime: at}
	if stored.Series != nil {
		series.Count = stored.Series.Count + 1
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": stored.ResourceVersion, "uid": stored.UID}, "series": series,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the series of an event: %w", err)
	}
	return patch, nil
}

// mayPass tells whether the same request may succeed later: the API server could not be reached, was too busy, or found the
// event changed or gone between two requests. Everything else it says for good.
func mayPass(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	s := status.Status()
	switch {
	case apierrors.IsNotFound(err):
		return s.Details != nil && s.Details.Kind == "events" // and not the namespace
	case apierrors.IsConflict(err), apierrors.IsTooManyRequests(err):
		return true
	}
	return s.Code == 0 || s.Code >= 500
}

// sleep waits; it returns false when ctx has ended.
func (r *Recorder) sleep(ctx context.Context, d time.Duration) bool {
	timer := r.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}
