// Package leastloaded is the plugin that prefers the Pod with the most room left, so that Runs spread over the Pods.
package leastloaded

import "kruntimes.io/kruntimes/scheduler/framework"

// Name identifies the plugin in configuration, logs and metrics.
const Name = "LeastLoaded"

// LeastLoaded scores a Pod by the share that stays free of the requested resource that is shortest there.
type LeastLoaded struct{}

var _ framework.ScorePlugin = (*LeastLoaded)(nil)

// New makes the plugin.
func New() *LeastLoaded { return &LeastLoaded{} }

// Name is the plugin's name.
func (*LeastLoaded) Name() string { return Name }

// parts is the resolution of a share: fine enough to tell the use of one unit in 10,000 apart.
const parts = 1_000_000

// Score is the smallest free share, in parts, over the resources that the Run requests.
func (*LeastLoaded) Score(c *framework.Cycle, pod *framework.PodInfo) int64 {
	free := int64(parts)
	for _, want := range c.Run.Requests {
		offered := pod.Capacity.Of(want.Name)
		if offered <= 0 {
			continue
		}
		share := 1 - (float64(pod.Used.Of(want.Name))+float64(want.Milli))/float64(offered)
		free = min(free, int64(share*parts))
	}
	return free
}

// Normalize stretches the scores over the whole scale: the least loaded Pod gets the maximum.
func (*LeastLoaded) Normalize(_ *framework.Cycle, scores []int64) { framework.Scaled(scores) }
