package follow

import (
	"context"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/track"
)

// Sight is one observation of a Run.
type Sight = track.Sight[*corev1alpha1.Run]

// trackedRuns says how Runs are read.
var trackedRuns = track.Kind[*corev1alpha1.Run]{
	Name:    "Run",
	New:     func() *corev1alpha1.Run { return &corev1alpha1.Run{} },
	NewList: func() client.ObjectList { return &corev1alpha1.RunList{} },
}

// Track sends what becomes of run, beginning with run itself, until it is deleted, tracking fails, or ctx ends.
// Then it closes the channel. A watch that breaks is made again.
func Track(ctx context.Context, c client.WithWatch, clk clock.Clock, run *corev1alpha1.Run) <-chan Sight {
	return trackedRuns.Track(ctx, c, clk, run)
}
