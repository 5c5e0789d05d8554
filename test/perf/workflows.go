package perf

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

const (
	// sequentialSteps and parallelJobs are the sizes of the two WorkflowRuns that every benchmark takes.
	sequentialSteps, parallelJobs = 20, 64
	// sequentialCalls is the size of the WorkflowRun that calls a Workflow again and again.
	sequentialCalls = 10
	// longJobs and longSteps make the long WorkflowRun, of which the first and the last gaps are compared.
	longJobs, longSteps, compared = 8, 120, 50
	// workflowPatience bounds the measurement of one WorkflowRun.
	workflowPatience = 20 * time.Minute
)

// workflows measures WorkflowRuns: what a step costs beside the floor, what many jobs cost beside as many bare Runs and,
// where there is time, whether a step costs more at the end of a long WorkflowRun than at its start.
func (s Suite) workflows(ctx context.Context, c client.WithWatch, dyn dynamic.Interface, report *Report) error {
	_, between, err := MeasureWorkflow(ctx, c, benchNamespace, "sequential", Chain(benchRuntime, 1, sequentialSteps))
	if err != nil {
		return err
	}
	s.add(report, Row{Name: "20 steps, per step", Target: "p50 ≤ 3.5 × floor", Runs: sequentialSteps,
		FloorP50: millis(report.floorP50), ProductP50: millis(median(between))})
	if err := s.calls(ctx, c, report); err != nil {
		return err
	}
	if err := s.fan(ctx, c, dyn, report, Row{Name: "64 jobs, whole", Target: "≤ 2.0 × 64 Runs"}); err != nil {
		return err
	}
	if s.Quick {
		return nil
	}
	_, between, err = MeasureWorkflow(ctx, c, benchNamespace, "long", Chain(benchRuntime, longJobs, longSteps))
	if err != nil {
		return err
	}
	s.add(report, Row{Name: "960 steps, last 50", Target: "p50 < 2.0 × first 50", Runs: len(between) + 1,
		FloorP50: millis(median(between[:compared])), ProductP50: millis(median(between[len(between)-compared:]))})
	return nil
}

// calls measures what one of a row of calls costs, each of a Workflow with one step.
func (s Suite) calls(ctx context.Context, c client.WithWatch, report *Report) error {
	callee := &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: benchNamespace, Name: "callee"},
		Spec: workflowsv1alpha1.WorkflowSpec{Jobs: Fan(benchRuntime, 1)}}
	if err := c.Create(ctx, callee); err != nil {
		return fmt.Errorf("creating the Workflow that is called: %w", err)
	}
	jobs := map[string]workflowsv1alpha1.Job{}
	for i := range sequentialCalls {
		job := workflowsv1alpha1.Job{Uses: callee.Name}
		if i > 0 {
			job.Needs = []string{fmt.Sprintf("c%02d", i-1)}
		}
		jobs[fmt.Sprintf("c%02d", i)] = job
	}
	_, between, err := MeasureWorkflow(ctx, c, benchNamespace, "calls", jobs)
	if err != nil {
		return err
	}
	s.add(report, Row{Name: "10 calls of one step, per call", Target: "reported", Runs: sequentialCalls,
		FloorP50: millis(report.floorP50), ProductP50: millis(median(between))})
	return nil
}

// fan measures how long many parallel jobs of one step take beside as many bare Runs, and adds row with the figures.
func (s Suite) fan(ctx context.Context, c client.WithWatch, dyn dynamic.Interface, report *Report, row Row) error {
	bare, err := Measure(ctx, Product(dyn, benchNamespace, benchRuntime, "bare"), Load{Name: "64 Runs at once", Total: parallelJobs, Creators: 16})
	if err != nil {
		return err
	}
	whole, _, err := MeasureWorkflow(ctx, c, benchNamespace, "parallel", Fan(benchRuntime, parallelJobs))
	if err != nil {
		return err
	}
	row.Runs, row.FloorP50, row.ProductP50 = parallelJobs, millis(bare.Elapsed), millis(whole)
	s.add(report, row)
	return nil
}

// add appends a row that compares two times, in milliseconds.
func (s Suite) add(report *Report, row Row) {
	row.Ratio = row.ProductP50 / row.FloorP50
	fmt.Fprintf(s.Log, "%s: %.1f ms beside %.1f ms, ratio %.2f\n", row.Name, row.ProductP50, row.FloorP50, row.Ratio)
	report.Rows = append(report.Rows, row)
}

// Chain returns jobs of no-op steps that all run one after another: each job needs the one before.
func Chain(runtime string, jobs, stepsPerJob int) map[string]workflowsv1alpha1.Job {
	chain := make(map[string]workflowsv1alpha1.Job, jobs)
	for j := range jobs {
		job := workflowsv1alpha1.Job{RunsOn: runtime}
		if j > 0 {
			job.Needs = []string{fmt.Sprintf("j%02d", j-1)}
		}
		for s := range stepsPerJob {
			job.Steps = append(job.Steps, workflowsv1alpha1.Step{Name: fmt.Sprintf("s%03d", s), Run: "true\n"})
		}
		chain[fmt.Sprintf("j%02d", j)] = job
	}
	return chain
}

// Fan returns one-step jobs that need nothing.
func Fan(runtime string, jobs int) map[string]workflowsv1alpha1.Job {
	fan := make(map[string]workflowsv1alpha1.Job, jobs)
	for j := range jobs {
		fan[fmt.Sprintf("j%02d", j)] = workflowsv1alpha1.Job{RunsOn: runtime,
			Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true\n"}}}
	}
	return fan
}

// MeasureWorkflow creates a WorkflowRun and returns how long it took until a watcher saw its end, and the times between
// the ends of its steps, in order.
func MeasureWorkflow(ctx context.Context, c client.WithWatch, namespace, name string, jobs map[string]workflowsv1alpha1.Job) (time.Duration, []time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, workflowPatience)
	defer cancel()
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: jobs}}
	start := time.Now()
	if err := c.Create(ctx, run); err != nil {
		return 0, nil, fmt.Errorf("creating WorkflowRun %s: %w", name, err)
	}
	for {
		ended, err := followWorkflow(ctx, c, run)
		switch {
		case err != nil:
			return 0, nil, fmt.Errorf("following WorkflowRun %s: %w", name, err)
		case ended:
			return time.Since(start), gaps(&run.Status), nil
		}
		// The API server closes a watch now and then, one of large objects above all. What was missed is read.
		if err := c.Get(ctx, client.ObjectKeyFromObject(run), run); err != nil {
			return 0, nil, fmt.Errorf("reading WorkflowRun %s: %w", name, err)
		}
	}
}

// followWorkflow follows run from its present state on, and updates it. It returns false when the watch ended before run
// did, and an error when run did not succeed.
func followWorkflow(ctx context.Context, c client.WithWatch, run *workflowsv1alpha1.WorkflowRun) (bool, error) {
	w, err := c.Watch(ctx, &workflowsv1alpha1.WorkflowRunList{}, client.InNamespace(run.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", run.Name)},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: run.ResourceVersion}})
	if err != nil {
		return false, fmt.Errorf("opening the watch: %w", err)
	}
	defer w.Stop()
	for {
		switch phase := run.Status.Phase; {
		case phase == workflowsv1alpha1.WorkflowSucceeded:
			return true, nil
		case phase.IsTerminal():
			return false, fmt.Errorf("it ended %s: %s", phase, run.Status.Message)
		}
		event, ok := <-w.ResultChan()
		if !ok {
			return false, ctx.Err()
		}
		seen, ok := event.Object.(*workflowsv1alpha1.WorkflowRun)
		if !ok || event.Type == watch.Deleted {
			return false, fmt.Errorf("got event %s", event.Type)
		}
		seen.DeepCopyInto(run)
	}
}

// gaps returns the times between the ends of steps and calls.
func gaps(status *workflowsv1alpha1.WorkflowRunStatus) []time.Duration {
	var ends []time.Time
	for _, job := range status.Jobs {
		if job.WorkflowRunName != "" && job.CompletionTime != nil {
			ends = append(ends, job.CompletionTime.Time)
		}
		for _, step := range job.Steps {
			if step.CompletionTime != nil {
				ends = append(ends, step.CompletionTime.Time)
			}
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	between := make([]time.Duration, 0, len(ends))
	for i := 1; i < len(ends); i++ {
		between = append(between, ends[i].Sub(ends[i-1]))
	}
	return between
}

// median returns the middle one of durations; 0 when there is none.
func median(durations []time.Duration) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)/2]
}
