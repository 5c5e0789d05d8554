package scheduler

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/scheduler"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// scale makes the tests of this file as large as docs/performance.md tells, which takes many minutes. Else they are small.
var scale = flag.Bool("scale", false, "run the scale tests at full size")

// sized is the full size with -scale, else the small one.
func sized(full, small int) int {
	if *scale {
		return full
	}
	return small
}

// tally counts the writes of components by verb and resource.
type tally struct {
	mu     sync.Mutex
	writes map[string]int
}

// count wraps a configuration. Writes to Leases are left out.
func (c *tally) count(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases") {
				c.mu.Lock()
				c.writes[r.Method+" "+resourceOf(r.URL.Path)]++
				c.mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	})
	return cfg
}

// resourceOf is the resource, with the subresource, of a request path: /apis/g/v/namespaces/n/runs/r/status is runs/status.
func resourceOf(p string) string {
	_, rest, found := strings.Cut(p, "/namespaces/")
	if !found {
		return path.Base(p)
	}
	parts := strings.Split(rest, "/")
	resource := strings.Join(parts[1:min(2, len(parts))], "")
	if len(parts) > 3 {
		resource += "/" + parts[3]
	}
	return resource
}

func (c *tally) snapshot() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.writes)
}

func (c *tally) total() int {
	n := 0
	for _, count := range c.snapshot() {
		n += count
	}
	return n
}

// awaitQuiet waits until nothing was written for a while.
func (c *tally) awaitQuiet(t *testing.T, quiet time.Duration) {
	t.Helper()
	last, since := c.total(), time.Now()
	cluster.Eventually(t, fmt.Sprintf("no write for %s", quiet), func(context.Context) (bool, error) {
		if now := c.total(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= quiet, nil
	})
}

// inParallel calls do for 0 to n-1, sixteen at a time.
func inParallel(n int, do func(i int)) {
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}

// TestAnIdleMinuteCostsNoWrites has Pods, finished Runs, and some that wait, under the real manager and scheduler, and
// nothing that happens.
func TestAnIdleMinuteCostsNoWrites(t *testing.T) {
	pods, finished, waiting := sized(100, 5), sized(10_000, 100), sized(50, 5)
	idle := time.Duration(sized(60, 5)) * time.Second
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", int32(pods), "4")
	inParallel(pods, func(i int) { shared.RuntimePod(t, ns, "sh", fmt.Sprintf("pod-%03d", i)) })
	inParallel(finished, func(i int) {
		run := newRun(ns, fmt.Sprintf("r%05d", i), "sh")
		err := shared.Admin().Create(t.Context(), run)
		if err == nil {
			err = patchStatus(t.Context(), run, func(s *corev1alpha1.RunStatus) {
				now := metav1.NowMicro()
				s.Phase, s.CompletionTime = corev1alpha1.RunCancelled, &now
			})
		}
		if err != nil {
			t.Errorf("finishing Run %d: %v", i, err)
		}
	})
	runtimeOf(t, ns, "none", 0, "4")
	inParallel(waiting, func(i int) { shared.Create(t, newRun(ns, fmt.Sprintf("w%05d", i), "none")) })

	c := &tally{writes: map[string]int{}}
	shared.StartManager(t, func(o *manager.Options) { o.Config = c.count(o.Config) })
	start(t, scheduler.Options{Config: c.count(identity(t))})
	eventuallyRun(t, ns, "w00000", "told why it waits", func(r *corev1alpha1.Run) bool {
		return whyOf(r).Reason == corev1alpha1.ReasonNoPods
	})
	c.awaitQuiet(t, 5*time.Second)
	before := c.snapshot()
	timer := time.NewTimer(idle)
	defer timer.Stop()
	<-timer.C
	written := c.snapshot()
	maps.DeleteFunc(written, func(what string, n int) bool { return n == before[what] })
	t.Logf("%d Pods, %d finished Runs, %d that wait: %d writes before, in %s of quiet: %v", pods, finished, waiting, len(before), idle, written)
	if len(written) > 0 {
		t.Errorf("something was written while nothing happened: %v, before %v", written, before)
	}
	// They were not asleep.
	shared.Create(t, newRun(ns, "probe", "sh"))
	eventuallyRun(t, ns, "probe", "scheduled", isScheduled)
}

// TestTwentyRuntimesOfFiftyPods serves a backlog, and one of twice the size, with a real API server. What counts is how many
// writes that takes; the times are told.
func TestTwentyRuntimesOfFiftyPods(t *testing.T) {
	runtimes, pods, count := sized(20, 3), sized(50, 4), sized(5000, 100)
	type course struct {
		took   time.Duration
		writes map[string]int
	}
	serve := func(count int) course {
		ns := shared.Namespace(t)
		w := observe(t, ns, succeed(t))
		for i := range runtimes {
			runtimeOf(t, ns, fmt.Sprintf("sh%02d", i), int32(pods), "4")
		}
		inParallel(runtimes*pods, func(i int) {
			shared.RuntimePod(t, ns, fmt.Sprintf("sh%02d", i%runtimes), fmt.Sprintf("pod-%02d-%02d", i%runtimes, i/runtimes))
		})
		inParallel(count, func(i int) {
			if err := shared.Admin().Create(t.Context(), newRun(ns, fmt.Sprintf("r%05d", i), fmt.Sprintf("sh%02d", i%runtimes))); err != nil {
				t.Errorf("creating Run %d: %v", i, err)
			}
		})
		c := &tally{writes: map[string]int{}}
		began := time.Now()
		p := start(t, scheduler.Options{Config: c.count(identity(t))})
		w.await(t, corev1alpha1.RunSucceeded, count)
		got := course{took: time.Since(began), writes: c.snapshot()}
		p.end(t)
		w.check(t, 4)
		if err := shared.Admin().DeleteAllOf(t.Context(), &corev1alpha1.Run{}, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d Runs on %d Runtimes of %d Pods: %s, %.0f Runs/s, writes %v", count, runtimes, pods,
			got.took.Round(time.Millisecond), float64(count)/got.took.Seconds(), got.writes)
		return got
	}
	once, twice := serve(count), serve(2*count)
	const status = "PATCH runs/status"
	// Each Run is bound once. How many are told why they wait depends on the time that it takes.
	for runs, c := range map[int]course{count: once, 2 * count: twice} {
		if told := c.writes[status] - runs; told < 0 || float64(told) > 250*c.took.Seconds() {
			t.Errorf("%d writes to the status of %d Runs in %s", c.writes[status], runs, c.took)
		}
	}
}
