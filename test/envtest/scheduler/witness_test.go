package scheduler

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// witness watches the Runs of a namespace and keeps the books from what the API server has stored, in the order in
// which it was stored.
type witness struct {
	mu sync.Mutex
	// at is on which Pod each active Run is, by UID; most is the largest number that a Pod had at a time, by name.
	at   map[types.UID]string
	most map[string]int
	// binds counts assignments per Run and attempt, bound is when each was seen.
	binds map[string]int
	bound []time.Time
	// phases is the newest phase of each Run.
	phases map[types.UID]corev1alpha1.RunPhase
	// finish, if not nil, is called for each Run that becomes Scheduled, in a goroutine of its own.
	finish func(context.Context, *corev1alpha1.Run)
}

// observe starts a witness that ends with the test.
func observe(t *testing.T, namespace string, finish func(context.Context, *corev1alpha1.Run)) *witness {
	t.Helper()
	w := &witness{
		at: map[types.UID]string{}, most: map[string]int{}, binds: map[string]int{},
		phases: map[types.UID]corev1alpha1.RunPhase{}, finish: finish,
	}
	watching, err := client.NewWithWatch(shared.Config(), client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	// The list gives the version to watch from: nothing that is stored later is missed.
	list := &corev1alpha1.RunList{}
	if err := watching.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		version := list.ResourceVersion
		for ctx.Err() == nil {
			// The API server ends the watch of a client that is slow; it goes on from where it was.
			events, err := watching.Watch(ctx, &corev1alpha1.RunList{}, client.InNamespace(namespace),
				&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
			if err != nil {
				continue
			}
			for e := range events.ResultChan() {
				run, ok := e.Object.(*corev1alpha1.Run)
				if ctx.Err() != nil {
					return
				}
				if !ok {
					t.Errorf("watching Runs from version %s: %v", version, e.Object)
					return
				}
				version = run.ResourceVersion
				w.see(e.Type, run)
				if w.finish != nil && e.Type != watch.Deleted && isScheduled(run) {
					wg.Go(func() { w.finish(ctx, run) })
				}
			}
			events.Stop()
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return w
}

func (w *witness) see(kind watch.EventType, run *corev1alpha1.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.at, run.UID)
	if kind == watch.Deleted {
		delete(w.phases, run.UID)
		return
	}
	if isScheduled(run) && w.phases[run.UID] != corev1alpha1.RunScheduled {
		w.binds[fmt.Sprintf("%s %s attempt %d", run.Name, run.UID, run.Status.Attempt)]++
		w.bound = append(w.bound, time.Now())
	}
	w.phases[run.UID] = run.Status.Phase
	if run.Status.Phase.IsActive() {
		w.at[run.UID] = run.Status.AssignedPodUID
		used := 0
		for _, pod := range w.at {
			if pod == run.Status.AssignedPodUID {
				used++
			}
		}
		w.most[run.Status.AssignedPod] = max(w.most[run.Status.AssignedPod], used)
	}
}

// count is the number of Runs in a phase.
func (w *witness) count(phase corev1alpha1.RunPhase) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range w.phases {
		if p == phase {
			n++
		}
	}
	return n
}

// await waits until a number of Runs is in a phase. It has patience as long as the number changes.
func (w *witness) await(t *testing.T, phase corev1alpha1.RunPhase, want int) {
	t.Helper()
	for last := w.count(phase); last != want; last = w.count(phase) {
		cluster.Eventually(t, fmt.Sprintf("%d Runs to be %s", want, phase), func(context.Context) (bool, error) {
			if w.count(phase) == last {
				return false, fmt.Errorf("%d Runs are %s", last, phase)
			}
			return true, nil
		})
	}
}

// check reports Pods that had more Runs than capacity, and attempts that were bound more than once.
func (w *witness) check(t *testing.T, capacity int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for pod, n := range w.most {
		if n > capacity {
			t.Errorf("Pod %s had %d Runs at a time, its capacity is %d", pod, n, capacity)
		}
	}
	for attempt, n := range w.binds {
		if n != 1 {
			t.Errorf("Run %s was bound %d times", attempt, n)
		}
	}
}

// peaks is the largest number of Runs that each Pod had at a time.
func (w *witness) peaks() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.most)
}

// succeed ends a Run as its runtimed would.
func succeed(t *testing.T) func(context.Context, *corev1alpha1.Run) {
	return func(ctx context.Context, run *corev1alpha1.Run) {
		err := patchStatus(ctx, run, func(s *corev1alpha1.RunStatus) {
			now := metav1.NowMicro()
			s.Phase, s.CompletionTime = corev1alpha1.RunSucceeded, &now
		})
		if err != nil && ctx.Err() == nil {
			t.Errorf("ending Run %s: %v", run.Name, err)
		}
	}
}
