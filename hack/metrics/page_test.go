package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// closed are the labels that our metrics may have. Each is a closed list of constants; a name of an object is none.
var closed = map[string]bool{"phase": true, "reason": true, "result": true, "queue": true, "kind": true}

func ours(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var own []*dto.MetricFamily
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), prefix) {
			own = append(own, f)
		}
	}
	if len(own) < 10 {
		t.Fatalf("only %d metrics are registered", len(own))
	}
	return own
}

func TestThePageIsUpToDate(t *testing.T) {
	written, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), page(ours(t))); diff != "" {
		t.Errorf("docs/metrics.md is stale, run \"make generate-metrics\" (-written +made):\n%s", diff)
	}
}

// TestNamesAndLabels holds the metrics to <project>_<subsystem>_<what>_<unit>, or _total, and to closed labels.
func TestNamesAndLabels(t *testing.T) {
	shapes := map[dto.MetricType]*regexp.Regexp{
		dto.MetricType_COUNTER:   regexp.MustCompile(`^kruntimes_[a-z]+_[a-z_]+_total$`),
		dto.MetricType_HISTOGRAM: regexp.MustCompile(`^kruntimes_[a-z]+_[a-z_]+_seconds$`),
		dto.MetricType_GAUGE:     regexp.MustCompile(`^kruntimes_[a-z]+_[a-z_]+_runs$`),
	}
	for _, f := range ours(t) {
		if shape := shapes[f.GetType()]; shape == nil || !shape.MatchString(f.GetName()) {
			t.Errorf("%s is no name for a %s", f.GetName(), f.GetType())
		}
		if !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("%s: the help is no sentence: %q", f.GetName(), f.GetHelp())
		}
		if len(f.GetMetric()) > 50 {
			t.Errorf("%s has %d series", f.GetName(), len(f.GetMetric()))
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !closed[l.GetName()] {
					t.Errorf("%s has the label %s", f.GetName(), l.GetName())
				}
			}
		}
	}
}
