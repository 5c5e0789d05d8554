package workflows

import (
	"fmt"
	"testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// BenchmarkCalculate decides on WorkflowRuns that are halfway through.
func BenchmarkCalculate(b *testing.B) {
	action := workflowsv1alpha1.Step{Uses: "action"}
	cases := map[string]struct {
		jobs, steps int
		step        func(place int) workflowsv1alpha1.Step
	}{
		"8 jobs of 120 steps": {8, 120, func(place int) workflowsv1alpha1.Step {
			if place == 0 {
				return workflowsv1alpha1.Step{Run: "true"}
			}
			return workflowsv1alpha1.Step{Run: fmt.Sprintf("true ${{ steps.s%d.outputs.x }}", place-1)}
		}},
		"8 jobs of 40 Actions of three steps": {8, 40, func(int) workflowsv1alpha1.Step { return action }},
		"64 calls":                            {64, 0, nil},
	}
	for name, tc := range cases {
		b.Run(name, func(b *testing.B) {
			jobs := map[string]workflowsv1alpha1.Job{}
			for j := range tc.jobs {
				job := workflowsv1alpha1.Job{Uses: callee}
				if tc.steps > 0 {
					job = workflowsv1alpha1.Job{RunsOn: "sh"}
				}
				for s := range tc.steps {
					step := tc.step(s)
					step.Name = fmt.Sprintf("s%d", s)
					job.Steps = append(job.Steps, step)
				}
				jobs[fmt.Sprintf("j%02d", j)] = job
			}
			o := halfway(b, jobs, map[string]*workflowsv1alpha1.ActionSpec{"action": {Steps: steps("a", "b", "c")}})
			for b.Loop() {
				calculate(o)
			}
		})
	}
}

// halfway plays jobs until one half of their children have ended.
func halfway(b *testing.B, jobs map[string]workflowsv1alpha1.Job, actions map[string]*workflowsv1alpha1.ActionSpec) observation {
	b.Helper()
	w, total := newWorld(b, jobs), 0
	w.actions = actions
	for name, job := range jobs {
		total += len(game{actions: actions}.leaves(name, job))
	}
	w.quiet()
	for range total / 2 {
		if id := w.active()[0]; id.isCall() {
			w.endCall(id.job, workflowsv1alpha1.WorkflowSucceeded, nil)
		} else {
			w.endLeaf(id, corev1alpha1.RunSucceeded, outputs{"x": "y"})
		}
		w.quiet()
	}
	return w.observe()
}
