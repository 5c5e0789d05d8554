package scheduler

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
	"kruntimes.io/kruntimes/telemetry/measure"
)

// cycleEnd is how a scheduling cycle ended.
type cycleEnd int

const (
	// cyclePlaced means that a Pod was found.
	cyclePlaced cycleEnd = iota
	// cycleUnschedulable means that no Pod fits now.
	cycleUnschedulable
	// cycleError means that a plugin could not decide.
	cycleError
)

// cycleEnds are the values of the label result, in the order of the constants.
var cycleEnds = []string{"placed", "unschedulable", "error"}

// bindEnd is how the storing of an assignment ended; see binder.bind.
type bindEnd string

const (
	bindStored  bindEnd = "stored"
	bindMoved   bindEnd = "moved"
	bindGone    bindEnd = "gone"
	bindRefused bindEnd = "refused"
	bindUnknown bindEnd = "unknown"
)

// meters are what a scheduler counts.
type meters struct {
	attempts *prometheus.CounterVec
	// attempt are the counters of attempts, which a cycle has no time to look up.
	attempt                []prometheus.Counter
	cycleDuration, binding prometheus.Histogram
	bindDuration           *prometheus.HistogramVec
}

// counted and pendingGauge are shared by all schedulers of a process, as the registry is that they serve.
var (
	counted      = newMeters()
	pendingGauge = newPendingRuns()
)

func init() {
	metrics.Registry.MustRegister(counted.attempts, counted.cycleDuration, counted.binding, counted.bindDuration, pendingGauge)
}

// newMeters makes the metrics, all known series at zero, so that rates are defined from the first scrape on.
func newMeters() *meters {
	m := &meters{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruntimes_scheduler_attempts_total",
			Help: "Cycles that looked for a Pod for a Run, by what came of them.",
		}, []string{"result"}),
		cycleDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kruntimes_scheduler_cycle_duration_seconds", Buckets: prometheus.ExponentialBuckets(5e-6, 2.5, 12),
			Help: "What one cycle takes: snapshot, filter and score.",
		}),
		bindDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kruntimes_scheduler_bind_duration_seconds", Buckets: measure.LatencyBuckets(),
			Help: "What it takes to store an assignment, repetitions and looks at a doubtful one included, by what came of it.",
		}, []string{"result"}),
		binding: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kruntimes_scheduler_binding_seconds", Buckets: measure.LatencyBuckets(),
			Help: "From the creation of a Run until the assignment of its first attempt is stored.",
		}),
	}
	for _, name := range cycleEnds {
		m.attempt = append(m.attempt, m.attempts.WithLabelValues(name))
	}
	for _, end := range []bindEnd{bindStored, bindMoved, bindGone, bindRefused, bindUnknown} {
		m.bindDuration.WithLabelValues(string(end))
	}
	return m
}

// cycled counts a cycle.
func (m *meters) cycled(result framework.Result, took time.Duration) {
	end := cyclePlaced
	switch {
	case result.Pod != nil:
	case result.Diagnosis != nil && result.Diagnosis.Err != nil:
		end = cycleError
	default:
		end = cycleUnschedulable
	}
	m.attempt[end].Inc()
	m.cycleDuration.Observe(took.Seconds())
}

// bound counts the end of a bind.
func (m *meters) bound(end bindEnd, took time.Duration) {
	m.bindDuration.WithLabelValues(string(end)).Observe(took.Seconds())
}

// placed counts how long a Run had to wait for its first assignment. seen is when the scheduler saw it first.
func (m *meters) placed(run *corev1alpha1.Run, seen, now time.Time) {
	if run.CurrentAttempt() == 1 {
		m.binding.Observe(max(now.Sub(measure.CreatedAt(run.CreationTimestamp.Time, seen)), 0).Seconds())
	}
}

// cycle looks for a Pod for a Run, and counts that.
func (e *engine) cycle(info *framework.RunInfo) framework.Result {
	began := e.clock.Now()
	result := e.rules.Schedule(e.cache.SnapshotFor(info, e.clock.Now()), info)
	e.meters.cycled(result, e.clock.Since(began))
	return result
}

// waitedSince is when a Run began to wait for the assignment that it has, or is about to get.
func (e *engine) waitedSince(uid types.UID) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t, ok := e.runs[uid]; ok {
		return t.since
	}
	return e.clock.Now()
}

// pendingRuns counts, when it is asked, the Runs that wait. Only a scheduler that works is asked: those that would be the
// next to work know the same Runs.
type pendingRuns struct {
	desc *prometheus.Desc

	mu      sync.Mutex
	engines map[*engine]struct{}
}

func newPendingRuns() *pendingRuns {
	return &pendingRuns{
		engines: map[*engine]struct{}{},
		desc: prometheus.NewDesc("kruntimes_scheduler_pending_runs",
			"Runs that have no Pod, by what they wait for: active ones for their turn, parked ones for an event that may help, "+
				"delayed ones for a time.", []string{"queue"}, nil),
	}
}

// watch counts the Runs of an engine until the returned function is called.
func (p *pendingRuns) watch(e *engine) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.engines[e] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.engines, e)
	}
}

// Describe implements prometheus.Collector.
func (p *pendingRuns) Describe(all chan<- *prometheus.Desc) { all <- p.desc }

// Collect implements prometheus.Collector.
func (p *pendingRuns) Collect(all chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var active, parked, delayed int
	for e := range p.engines {
		a, w, d := e.waiting()
		active, parked, delayed = active+a, parked+w, delayed+d
	}
	for queue, count := range map[string]int{"active": active, "parked": parked, "delayed": delayed} {
		all <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, float64(count), queue)
	}
}

// waiting counts the Runs in the queue.
func (e *engine) waiting() (active, parked, delayed int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queue.Counts()
}
