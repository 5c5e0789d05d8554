package wait

import (
	"context"
	"iter"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/follow"
	"kruntimes.io/kruntimes/krt/runs"
	"kruntimes.io/kruntimes/krt/track"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// standing is what matters of a Run or WorkflowRun to a person who waits for it.
type standing struct {
	phase                                string
	scheduled, started, ended, succeeded bool
	// ending says how it ended.
	ending string
}

// sight is one observation.
type sight struct {
	standing
	deleted   bool
	lost, err error
}

// look reads a Run or WorkflowRun, and returns what becomes of it, beginning with how it stands.
func look(ctx context.Context, c client.WithWatch, namespace string, target cli.Target) (iter.Seq[sight], error) {
	if target.Kind == cli.KindWorkflowRun {
		run, err := workflowruns.Get(ctx, c, namespace, target.Name)
		if err != nil {
			return nil, err
		}
		return sights(workflowruns.Track(ctx, c, clock.RealClock{}, run), ofWorkflowRun), nil
	}
	run, err := runs.Get(ctx, c, namespace, target.Name)
	if err != nil {
		return nil, err
	}
	return sights(follow.Track(ctx, c, clock.RealClock{}, run), ofRun), nil
}

func sights[T client.Object](tracked <-chan track.Sight[T], of func(T) standing) iter.Seq[sight] {
	return func(yield func(sight) bool) {
		for s := range tracked {
			if !yield(sight{standing: of(s.Object), deleted: s.Deleted, lost: s.Lost, err: s.Err}) {
				return
			}
		}
	}
}

func ofRun(run *corev1alpha1.Run) standing {
	phase := run.Status.Phase
	return standing{
		phase: string(phase), scheduled: run.Status.AssignedPod != "",
		started: phase == corev1alpha1.RunRunning || (phase.IsTerminal() && run.Status.StartTime != nil),
		ended:   phase.IsTerminal(), succeeded: phase == corev1alpha1.RunSucceeded, ending: runs.Ending(run),
	}
}

func ofWorkflowRun(run *workflowsv1alpha1.WorkflowRun) standing {
	phase := run.Status.Phase
	started := false
	for _, job := range run.Status.Jobs {
		started = started || job.StartTime != nil
	}
	ending := string(phase)
	if message := workflowruns.Message(run); message != "" {
		ending += ": " + workflowruns.Flat(message, endingWidth)
	}
	return standing{
		phase: string(phase), scheduled: started, started: started, ended: phase.IsTerminal(),
		succeeded: phase == workflowsv1alpha1.WorkflowSucceeded, ending: ending,
	}
}

// endingWidth bounds how much is said about the end. Unit: characters.
const endingWidth = 300
