package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// load is Runs that are created one after the other, at a pace.
type load struct {
	stop func() (created int)
}

// createPaced creates Runs every interval until stop is called.
func createPaced(t *testing.T, namespace, runtime string, interval time.Duration) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	created := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := shared.Admin().Create(t.Context(), newRun(namespace, fmt.Sprintf("r%04d", created), runtime)); err != nil {
				t.Errorf("creating Run %d: %v", created, err)
				return
			}
			created++
		}
	})
	l := &load{stop: sync.OnceValue(func() int {
		cancel()
		wg.Wait()
		return created
	})}
	t.Cleanup(func() { l.stop() })
	return l
}

// awaitMore waits until so many more Runs have succeeded.
func (w *witness) awaitMore(t *testing.T, more int) {
	t.Helper()
	want := w.count(corev1alpha1.RunSucceeded) + more
	cluster.Eventually(t, fmt.Sprintf("%d Runs to have succeeded", want), func(context.Context) (bool, error) {
		return w.count(corev1alpha1.RunSucceeded) >= want, nil
	})
}

// gap is the longest time between two binds, one of which came after a moment.
func (w *witness) gap(after time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	times := slices.SortedFunc(slices.Values(w.bound), time.Time.Compare)
	var longest time.Duration
	for i := 1; i < len(times); i++ {
		if times[i].After(after) {
			longest = max(longest, times[i].Sub(times[i-1]))
		}
	}
	return longest
}

// replica is a scheduler that is started again whenever it ends, as a Deployment does.
type replica struct {
	*electing
	mu sync.Mutex
	// stop ends the present process.
	stop context.CancelFunc
	// ended counts processes that have ended.
	ended int
}

func startReplica(t *testing.T, namespace string) *replica {
	t.Helper()
	r := &replica{electing: newElecting(t, namespace)}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			process, stop := context.WithCancel(ctx)
			r.mu.Lock()
			r.stop = stop
			r.mu.Unlock()
			_ = scheduler.Run(process, r.options) // a leader that has lost the Lease says so
			stop()
			r.mu.Lock()
			r.ended++
			r.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		end()
		wg.Wait()
	})
	return r
}

// restart ends the present process in order.
func (r *replica) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop()
}

// cutOff takes the network from the present process until it has ended.
func (r *replica) cutOff(t *testing.T) {
	t.Helper()
	processes := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.ended
	}
	before := processes()
	r.cut.Store(true)
	cluster.Eventually(t, "a leader that is cut off to end", func(context.Context) (bool, error) { return processes() > before, nil })
	r.cut.Store(false)
}

// TestFailoverUnderLoad takes the leader from two schedulers while Runs arrive and end: first it stops in order, then, twice,
// it is cut off. No Run is lost or bound twice, no Pod gets too many, and somebody carries on soon.
func TestFailoverUnderLoad(t *testing.T) {
	ns := shared.Namespace(t)
	w := observe(t, ns, succeed(t))
	runtimeOf(t, ns, "sh", 2, "4")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	shared.RuntimePod(t, ns, "sh", "pod-b")
	replicas := []*replica{startReplica(t, ns), startReplica(t, ns)}
	l := createPaced(t, ns, "sh", 50*time.Millisecond)
	// leader is the replica that writes.
	leader := func() *replica {
		before := []int64{replicas[0].writes.Load(), replicas[1].writes.Load()}
		w.awaitMore(t, 10)
		if replicas[0].writes.Load()-before[0] > replicas[1].writes.Load()-before[1] {
			return replicas[0]
		}
		return replicas[1]
	}
	ends := []struct {
		how string
		end func(r *replica)
	}{
		{"stopped in order", func(r *replica) { r.restart() }},
		{"was cut off", func(r *replica) { r.cutOff(t) }},
		{"was cut off", func(r *replica) { r.cutOff(t) }},
	}
	for _, e := range ends {
		r := leader()
		began := time.Now()
		e.end(r)
		w.awaitMore(t, 30)
		t.Logf("the leader %s: no Run was bound for %s", e.how, w.gap(began).Round(time.Millisecond))
	}
	w.await(t, corev1alpha1.RunSucceeded, l.stop())
	w.check(t, 4)
}
