package measure

import (
	"slices"
	"testing"
	"time"
)

func TestCreatedAt(t *testing.T) {
	second := time.Unix(1_000_000, 0)
	cases := map[string]struct{ seen, want time.Duration }{
		"seen at once":                 {seen: 0, want: 0},
		"seen within the second":       {seen: 730 * time.Millisecond, want: 730 * time.Millisecond},
		"seen a second later":          {seen: time.Second, want: 500 * time.Millisecond},
		"seen after a restart":         {seen: time.Hour, want: 500 * time.Millisecond},
		"seen by a clock that is late": {seen: -time.Minute, want: 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := CreatedAt(second, second.Add(tc.seen)).Sub(second); got != tc.want {
				t.Errorf("created %s after the second began, want %s", got, tc.want)
			}
		})
	}
}

func TestBucketsAscend(t *testing.T) {
	for name, buckets := range map[string][]float64{"latency": LatencyBuckets(), "duration": DurationBuckets()} {
		if !slices.IsSorted(buckets) || len(slices.Compact(slices.Clone(buckets))) != len(buckets) {
			t.Errorf("%s buckets do not ascend: %v", name, buckets)
		}
	}
}
