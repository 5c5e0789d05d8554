package events

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// result is what has become of an event that was published.
type result string

const (
	// resultStored means that the event is new.
	resultStored result = "stored"
	// resultCounted means that the event was there, and counts once more.
	resultCounted result = "counted"
	// resultKnown means that the event was there, and is the same.
	resultKnown result = "known"
	// resultDropped means that too many events waited to be stored.
	resultDropped result = "dropped"
	// resultFailed means that the API server did not store the event.
	resultFailed result = "failed"
)

var publishedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kruntimes_events_published_total",
	Help: "Events that this process had to tell of, by what has become of them.",
}, []string{"result"})

func init() {
	metrics.Registry.MustRegister(publishedTotal)
	for _, r := range []result{resultStored, resultCounted, resultKnown, resultDropped, resultFailed} {
		publishedTotal.WithLabelValues(string(r))
	}
}

// count counts an event.
func count(r result) { publishedTotal.WithLabelValues(string(r)).Inc() }
