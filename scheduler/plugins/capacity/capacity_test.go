package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

type verdict struct {
	Code         framework.Code
	Reason, Text string
}

func verdictOf(s *framework.Status) verdict {
	if s == nil {
		return verdict{}
	}
	return verdict{s.Code, s.Reason, s.Message()}
}

func runs(milli int64) framework.Resources { return framework.Resources{{Name: "runs", Milli: milli}} }

func gpuAndRuns(gpu, runs int64) framework.Resources {
	return framework.Resources{{Name: "gpu", Milli: gpu}, {Name: "runs", Milli: runs}}
}

func TestPreFilter(t *testing.T) {
	exceeds := func(text string) verdict {
		return verdict{framework.Unresolvable, corev1alpha1.ReasonExceedsCapacity, text}
	}
	cases := map[string]struct {
		offered, requested framework.Resources
		want               verdict
	}{
		"just as large as a Pod": {runs(4000), runs(4000), verdict{}},
		"larger than a Pod": {runs(4000), runs(5000),
			exceeds(`the Run requests 5 of runs, an empty Pod of Runtime "sh" has 4`)},
		"a resource that the Runtime does not have": {runs(4000), gpuAndRuns(500, 1000),
			exceeds(`the Run requests 0.5 of gpu, an empty Pod of Runtime "sh" has 0`)},
		"nothing of a resource that the Runtime does not have": {runs(4000), gpuAndRuns(0, 1000), verdict{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().PreFilter(&framework.Cycle{
				Run:      &framework.RunInfo{Requests: tc.requested},
				Snapshot: &framework.Snapshot{Runtime: &framework.RuntimeInfo{Name: "sh", Capacity: tc.offered}},
			})
			if diff := cmp.Diff(tc.want, verdictOf(got)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
	if got := New().PreFilter(&framework.Cycle{Run: &framework.RunInfo{}, Snapshot: &framework.Snapshot{}}); got != nil {
		t.Errorf("without a Runtime: %v, want no objection", got)
	}
}

func TestFilter(t *testing.T) {
	full := func(text string) verdict {
		return verdict{framework.Unschedulable, corev1alpha1.ReasonInsufficientCapacity, text}
	}
	cases := map[string]struct {
		offered, used, requested framework.Resources
		want                     verdict
	}{
		"an empty Pod":                        {runs(4000), nil, runs(1000), verdict{}},
		"the last slot":                       {runs(4000), runs(3000), runs(1000), verdict{}},
		"no slot":                             {runs(4000), runs(4000), runs(1000), full("full (runs 4/4)")},
		"half a slot too little":              {runs(4000), runs(3500), runs(1000), full("full (runs 3.5/4)")},
		"the other resource is short":         {gpuAndRuns(1000, 4000), gpuAndRuns(1000, 1000), gpuAndRuns(1000, 1000), full("full (gpu 1/1)")},
		"the other resource is not asked for": {gpuAndRuns(1000, 4000), gpuAndRuns(1000, 1000), runs(1000), verdict{}},
		"capacity was lowered below use":      {runs(2000), runs(3000), runs(1000), full("full (runs 3/2)")},
		"nothing fits even then":              {runs(2000), runs(3000), runs(0), verdict{}},
		"use that has overflowed stays full":  {runs(4000), runs(1<<63 - 1), runs(1000), full("full (runs 9223372036854775.807/4)")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().Filter(&framework.Cycle{Run: &framework.RunInfo{Requests: tc.requested}},
				&framework.PodInfo{Capacity: tc.offered, Used: tc.used})
			if diff := cmp.Diff(tc.want, verdictOf(got)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}
