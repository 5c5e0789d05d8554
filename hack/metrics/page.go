package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// prefix begins the names of our own metrics.
const prefix = "kruntimes_"

const head = `# Metrics

<!-- Written by "make generate-metrics" from the metrics themselves. Do not edit. -->

What manager and scheduler count. [Operations](operations.md#metrics) says how to read it. runtimed serves no metrics. Beside
these there are those of controller-runtime (` + "`controller_runtime_*`, `workqueue_*`, `leader_election_*`" + `), of the client
(` + "`rest_client_*`" + `) and of the process (` + "`go_*`, `process_*`" + `).

No label holds the name of an object: the number of series is bounded. Times are in seconds. All series of closed labels are
there from the start, at zero.

| metric | of | type | labels | what |
| --- | --- | --- | --- | --- |
`

// page puts our own of the families into words.
func page(families []*dto.MetricFamily) string {
	ours := slices.DeleteFunc(slices.Clone(families), func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), prefix) })
	slices.SortFunc(ours, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	var b strings.Builder
	b.WriteString(head)
	for _, f := range ours {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.GetName(), owner(f.GetName()), strings.ToLower(f.GetType().String()), labels(f), f.GetHelp())
	}
	for _, f := range ours {
		if bounds := buckets(f); bounds != "" {
			if !strings.Contains(b.String(), "## Buckets") {
				b.WriteString("\n## Buckets\n\n| histogram | up to, in seconds |\n| --- | --- |\n")
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", f.GetName(), bounds)
		}
	}
	return b.String()
}

// owner says which component serves a metric.
func owner(name string) string {
	switch {
	case strings.HasPrefix(name, prefix+"scheduler_"):
		return "scheduler"
	case strings.HasPrefix(name, prefix+"events_"):
		return "both"
	default:
		return "manager"
	}
}

// labels lists the labels of a metric with their values, all of which are there from the start.
func labels(f *dto.MetricFamily) string {
	values := map[string]map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if values[l.GetName()] == nil {
				values[l.GetName()] = map[string]bool{}
			}
			values[l.GetName()][cmp.Or(l.GetValue(), "(empty)")] = true
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, fmt.Sprintf("`%s`: %s", name, strings.Join(slices.Sorted(maps.Keys(values[name])), ", ")))
	}
	return strings.Join(all, "; ")
}

// buckets lists the bounds of a histogram; it is empty for all else.
func buckets(f *dto.MetricFamily) string {
	var bounds []string
	for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
		bounds = append(bounds, number(b.GetUpperBound()))
	}
	return strings.Join(bounds, ", ")
}

// number writes a bound as short as people do.
func number(f float64) string {
	if f < 1e-3 {
		return strconv.FormatFloat(f, 'g', 3, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
