package events

import (
	"context"
	"errors"
	goruntime "runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// deadline is how long a test waits for what must come.
const deadline = 30 * time.Second

// bench is a recorder on a stand-in for the API server.
type bench struct {
	*Recorder
	api   *fake.Clientset
	clock *clocktesting.FakeClock
	// before holds the counters as they were.
	before map[result]float64
}

func newBench() *bench {
	api, clock := fake.NewClientset(), clocktesting.NewFakeClock(noon)
	return &bench{Recorder: newRecorder(api.EventsV1(), "example.com/mender", "host", clock), api: api, clock: clock, before: counters()}
}

func counters() map[result]float64 {
	all := map[result]float64{}
	for _, r := range []result{resultStored, resultCounted, resultKnown, resultDropped, resultFailed} {
		var m dto.Metric
		if err := publishedTotal.WithLabelValues(string(r)).Write(&m); err != nil {
			panic(err)
		}
		all[r] = m.GetCounter().GetValue()
	}
	return all
}

// counted is what was counted since the bench was made.
func (b *bench) counted() map[result]float64 {
	grown := map[result]float64{}
	for r, now := range counters() {
		if now != b.before[r] {
			grown[r] = now - b.before[r]
		}
	}
	return grown
}

// flush stores what was published, as a process does that is about to end.
func (b *bench) flush(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) stored(t *testing.T) []eventsv1.Event {
	t.Helper()
	list, err := b.api.EventsV1().Events("team").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestWhatIsToldTwiceIsStoredOnce(t *testing.T) {
	b := newBench()
	for range 3 {
		b.Publish(event("w", "1"))
		b.flush(t)
		b.clock.Step(time.Minute)
	}
	got := b.stored(t)
	if len(got) != 1 || !got[0].EventTime.Time.Equal(noon) || got[0].Series != nil {
		t.Errorf("stored %+v", got)
	}
	if diff := cmp.Diff(map[result]float64{resultStored: 1, resultKnown: 2}, b.counted()); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

func TestWhatHappensAgainIsCounted(t *testing.T) {
	b := newBench()
	e := event("w", "1")
	e.Recurs = true
	for i := range 3 {
		e.Note = "for the time " + strconv.Itoa(i) // the API keeps the first
		b.Publish(e)
		b.flush(t)
		b.clock.Step(time.Minute)
	}
	got := b.stored(t)
	if len(got) != 1 || got[0].Series == nil || got[0].Series.Count != 3 || !got[0].Series.LastObservedTime.Time.Equal(noon.Add(2*time.Minute)) || got[0].Note != "for the time 0" {
		t.Errorf("stored %+v", got)
	}
	if diff := cmp.Diff(map[result]float64{resultStored: 1, resultCounted: 2}, b.counted()); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

func TestRefusalsAndFailures(t *testing.T) {
	resource := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	noNamespace := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team")
	noNamespace.ErrStatus.Details.Kind = "namespaces"
	cases := map[string]struct {
		err  error
		want result
		// tries is how often the event is sent.
		tries int32
	}{
		"a server that is busy":        {apierrors.NewTooManyRequests("later", 1), resultStored, 3},
		"a server that fails":          {apierrors.NewInternalError(errors.New("etcd")), resultStored, 3},
		"a server that cannot be had":  {errors.New("connection refused"), resultStored, 3},
		"a missing right":              {apierrors.NewForbidden(resource, "w", errors.New("no")), resultFailed, 1},
		"an event that is not allowed": {apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "w", nil), resultFailed, 1},
		"a namespace that is gone":     {noNamespace, resultFailed, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			var tries atomic.Int32
			b.api.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
				return tries.Add(1) <= 2, nil, tc.err
			})
			b.Publish(event("w", "1"))
			b.run(t, func() bool { return len(b.counted()) > 0 })
			if diff := cmp.Diff(map[result]float64{tc.want: 1}, b.counted()); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
			if got := tries.Load(); got != tc.tries {
				t.Errorf("sent %d times, want %d", got, tc.tries)
			}
		})
	}
}

// run works, and lets time pass, until done.
func (b *bench) run(t *testing.T, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	ended := make(chan error, 1)
	go func() { ended <- b.Start(ctx) }()
	for !done() && ctx.Err() == nil {
		if b.clock.HasWaiters() {
			b.clock.Step(lastRetry)
		}
		goruntime.Gosched()
	}
	if ctx.Err() != nil {
		t.Error("it does not come to an end")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestAnEventIsGivenUpInTheEnd(t *testing.T) {
	b := newBench()
	b.api.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	b.Publish(event("w", "1"))
	b.run(t, func() bool { return len(b.counted()) > 0 })
	if diff := cmp.Diff(map[result]float64{resultFailed: 1}, b.counted()); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if waited := b.clock.Since(noon); waited < patience {
		t.Errorf("given up after %s, before %s", waited, patience)
	}
}

func TestWhatIsTooMuchIsDropped(t *testing.T) {
	b := newBench()
	for i := range maxQueued + 7 {
		b.Publish(event("w", strconv.Itoa(i)))
	}
	if diff := cmp.Diff(map[result]float64{resultDropped: 7}, b.counted()); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

func TestANilRecorderStoresNothing(t *testing.T) {
	var r *Recorder
	r.Publish(event("w", "1"))
}

func TestTheInstanceFitsTheAPI(t *testing.T) {
	host := make([]byte, 200)
	for i := range host {
		host[i] = 'h'
	}
	if got := newRecorder(nil, "example.com/mender", string(host), nil).by.instance; len(got) != maxInstance {
		t.Errorf("the instance has %d bytes", len(got))
	}
}

// endingContext ends when somebody begins to wait for its end, and last is called just before.
type endingContext struct {
	context.Context
	cancel, last func()
}

func (c endingContext) Done() <-chan struct{} {
	c.last()
	c.cancel()
	return c.Context.Done()
}

// TestAnEventThatIsToldAtTheEndIsStored publishes an event at the very end of a recorder that waits for one. Whether a select
// sees the event or the end is a matter of luck, so it is tried often.
func TestAnEventThatIsToldAtTheEndIsStored(t *testing.T) {
	for i := range 50 {
		b := newBench()
		ctx, cancel := context.WithCancel(t.Context())
		b.serve(endingContext{ctx, cancel, func() { b.Publish(event("w", "1")) }}, t.Context())
		if got := b.stored(t); len(got) != 1 {
			t.Fatalf("try %d: %d events were stored, want 1", i, len(got))
		}
	}
}
