package runtimed

import (
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
	at map[string]time.Time
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
	e := &ends{at: map[string]time.Time{}}
	go func() {
		for event := range w.ResultChan() {
			run, ok := event.Object.(*corev1alpha1.Run)
			if ok && event.Type != watch.Deleted && run.Status.Phase.IsTerminal() {
				e.mu.Lock()
				e.at[run.Name] = time.Now()
				e.mu.Unlock()
			}
		}
	}()
	return e
}

func (e *ends) of(name string) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.at[name]
	return at, ok
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
			n.submit(t, name, args("true"))
			bound := time.Now()
			deadline := time.After(cluster.Deadline)
			for {
				if at, ok := seen.of(name); ok {
					latencies[i] = max(at.Sub(bound), 0)
					return
				}
				select {
				case <-deadline:
					t.Errorf("Run %s does not end", name)
					return
				case <-time.After(time.Millisecond):
				}
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
