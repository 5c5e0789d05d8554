package runtimed

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// maxResident is what runtimed may hold, idle and after a thousand Runs. Unit: KiB.
const maxResident = 25 * 1024

// resident is the resident memory of a process. Unit: KiB.
func resident(t *testing.T, p *process) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var size int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &size); n == 1 {
			return size
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// ends watches a namespace and tells when Runs become terminal.
type ends struct {
	mu sync.Mutex
	// waiting is who wants to know, by the name of the Run. The API server stores the Run after it is expected.
	waiting map[string]chan time.Time
}

func watchEnds(t *testing.T, namespace string) *ends {
	t.Helper()
	c, err := client.NewWithWatch(shared.Config(), client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(t.Context(), &corev1alpha1.RunList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	e := &ends{waiting: map[string]chan time.Time{}}
	go func() {
		for event := range w.ResultChan() {
			run, ok := event.Object.(*corev1alpha1.Run)
			if ok && event.Type != watch.Deleted && run.Status.Phase.IsTerminal() {
				e.tell(run.Name, time.Now())
			}
		}
	}()
	return e
}

// expect returns a channel that receives the time at which the Run is seen to be terminal.
func (e *ends) expect(name string) <-chan time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[name] = make(chan time.Time, 1)
	return e.waiting[name]
}

func (e *ends) tell(name string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if waiting, ok := e.waiting[name]; ok {
		delete(e.waiting, name)
		waiting <- at
	}
}

// TestFootprint executes a thousand Runs, four at a time, and holds runtimed to its memory.
func TestFootprint(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand Runs")
	}
	const total, parallel = 1000, 4
	n := startNode(t)
	idle := resident(t, n.runtimed)
	seen := watchEnds(t, n.namespace)
	latencies := make([]time.Duration, total)
	slots := make(chan struct{}, parallel)
	var work sync.WaitGroup
	for i := range total {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			name := fmt.Sprintf("run-%d", i)
			ended := seen.expect(name)
			n.submit(t, name, args("true"))
			bound := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), cluster.Deadline)
			defer cancel()
			select {
			case at := <-ended:
				latencies[i] = max(at.Sub(bound), 0)
			case <-ctx.Done():
				t.Errorf("Run %s does not end", name)
			}
		})
	}
	work.Wait()
	n.awaitClean(t)
	after := resident(t, n.runtimed)
	slices.Sort(latencies)
	t.Logf("resident memory: %d KiB idle, %d KiB after %d Runs; from the end of bind to terminal: p50 %s, p99 %s",
		idle, after, total, latencies[total/2], latencies[total*99/100])
	if idle > maxResident || after > maxResident {
		t.Errorf("resident memory %d KiB idle and %d KiB after, more than %d KiB", idle, after, maxResident)
	}
}
