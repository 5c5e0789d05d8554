package leastloaded

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/scheduler/framework"
)

func runs(milli int64) framework.Resources { return framework.Resources{{Name: "runs", Milli: milli}} }

func TestScore(t *testing.T) {
	both := func(gpu, runs int64) framework.Resources {
		return framework.Resources{{Name: "gpu", Milli: gpu}, {Name: "runs", Milli: runs}}
	}
	cases := map[string]struct {
		requested, offered, used framework.Resources
		want                     int64
	}{
		"an empty Pod after the Run":                     {runs(1000), runs(4000), nil, 750_000},
		"a Pod that the Run fills":                       {runs(1000), runs(4000), runs(3000), 0},
		"the shortest resource counts":                   {both(1000, 1000), both(2000, 4000), both(0, 0), 500_000},
		"what is not requested does not count":           {runs(1000), both(2000, 4000), both(2000, 0), 750_000},
		"what the Runtime lacks does not divide by zero": {both(0, 1000), runs(4000), nil, 750_000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().Score(&framework.Cycle{Run: &framework.RunInfo{Requests: tc.requested}},
				&framework.PodInfo{Capacity: tc.offered, Used: tc.used})
			if got != tc.want {
				t.Errorf("score %d, want %d", got, tc.want)
			}
		})
	}
}

func TestNormalizeGivesTheEmptiestThePrize(t *testing.T) {
	scores := []int64{0, 750_000, 250_000}
	New().Normalize(nil, scores)
	if diff := cmp.Diff([]int64{0, 100, 33}, scores); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}
