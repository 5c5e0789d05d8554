package logs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/follow"
	"kruntimes.io/kruntimes/krt/workflowruns"
	"kruntimes.io/kruntimes/workflow/suggest"
)

// stepLogs shows the output of the steps of one WorkflowRun.
type stepLogs struct {
	*options
	client client.WithWatch
	logs   follow.PodLogs
	clock  clock.Clock
	// family is the WorkflowRun with those of its calls, whose steps are shown as well.
	family workflowruns.Family
	run    *workflowsv1alpha1.WorkflowRun
	steps  workflowruns.Steps

	// paths are those of all steps that are known; a step is coloured by its place among them.
	paths []string
	// width is that of the prefixes.
	width int
	// outLock and errLock keep lines whole. They are one where both streams end up on a terminal.
	outLock, errLock *sync.Mutex
}

// executeWorkflowRun does the work of the command for a WorkflowRun.
func executeWorkflowRun(ctx context.Context, o *options) error {
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	clientset, err := o.factory.Clientset()
	if err != nil {
		return err
	}
	run, err := workflowruns.Get(ctx, c, namespace, o.name)
	if err != nil {
		return err
	}
	family, err := workflowruns.Load(ctx, c, run)
	if err != nil {
		return err
	}
	l, err := newStepLogs(o, family)
	if err != nil {
		return err
	}
	l.client, l.logs, l.clock = c, follow.ClusterLogs(clientset), clock.RealClock{}
	if o.follow {
		return l.follow(ctx)
	}
	return l.read(ctx)
}

// stepRun is a Run of a step, and the path of the step within the whole.
type stepRun struct {
	*corev1alpha1.Run
	path string
}

// newStepLogs checks that there are such steps.
func newStepLogs(o *options, family workflowruns.Family) (*stepLogs, error) {
	l := &stepLogs{options: o, family: family, run: family.Run, steps: workflowruns.Steps{Job: o.job, Step: o.step}, outLock: &sync.Mutex{}, errLock: &sync.Mutex{}}
	if cli.OneScreen(o.factory.IO) {
		l.errLock = l.outLock
	}
	if jobs := slices.Sorted(maps.Keys(l.run.Spec.Jobs)); o.job != "" && !slices.Contains(jobs, o.job) {
		return nil, unknown(fmt.Sprintf("the WorkflowRun %s has no job %q", l.run.Name, o.job), o.job, jobs)
	}
	l.paths = l.steps.Paths(family)
	if o.step != "" && len(l.paths) == 0 && family.Complete(o.job) {
		var steps []string
		for _, path := range (workflowruns.Steps{Job: o.job}).Paths(family) {
			steps = append(steps, path[strings.LastIndexByte(path, '/')+1:])
		}
		return nil, unknown(fmt.Sprintf("the WorkflowRun %s has no such step %q", l.run.Name, o.step), o.step, steps)
	}
	for _, path := range l.paths {
		l.width = max(l.width, utf8.RuneCountInString(path))
	}
	return l, nil
}

func unknown(text, name string, there []string) error {
	if near := suggest.Nearest(name, slices.Values(there)); near != "" {
		return cli.WithHint(cli.Usagef("%s", text), "did you mean %s?", near)
	}
	slices.Sort(there)
	return cli.WithHint(cli.Usagef("%s", text), "there are: %s", strings.Join(slices.Compact(there), ", "))
}

// sink returns where the output of a step's Run goes, and the function that ends its last line.
func (l *stepLogs) sink(run stepRun) (sink *follow.Sink, flush func() error) {
	place := workflowruns.Place(l.paths, run.path)
	text := fmt.Sprintf("%-*s | ", l.width, run.path)
	io := l.factory.IO
	out := &prefixer{mu: l.outLock, out: io.Out, prefix: workflowruns.Style{Colours: l.factory.Terminal(io.Out).Colours}.Step(max(place, 0), text)}
	errOut := &prefixer{mu: l.errLock, out: io.ErrOut, prefix: workflowruns.Style{Colours: l.factory.Terminal(io.ErrOut).Colours}.Step(max(place, 0), text)}
	sink = &follow.Sink{Out: out, Err: errOut, Timestamps: l.timestamps}
	if l.since > 0 {
		sink.Since = l.factory.Now().Add(-l.since)
	}
	return sink, func() error { return errors.Join(out.flush(), errOut.flush()) }
}

// list reads the Runs of one WorkflowRun of the family, and the version at which a watch can go on.
func (l *stepLogs) list(ctx context.Context, member workflowruns.Member) ([]stepRun, string, error) {
	found, version, err := member.Steps.List(ctx, l.client, member.Run)
	runs := make([]stepRun, len(found))
	for i, run := range found {
		runs[i] = stepRun{Run: run, path: member.Prefix + workflowruns.PathOf(run)}
	}
	return runs, version, err
}

// read delivers what there is, one step after another.
func (l *stepLogs) read(ctx context.Context) error {
	var found []stepRun
	for _, member := range l.family.Members(l.steps) {
		runs, _, err := l.list(ctx, member)
		if err != nil {
			return err
		}
		found = append(found, runs...)
	}
	slices.SortStableFunc(found, func(a, b stepRun) int {
		return workflowruns.Place(l.paths, a.path) - workflowruns.Place(l.paths, b.path)
	})
	var errs []error
	shown := 0
	for _, run := range found {
		sink, flush := l.sink(run)
		err := follow.Read(ctx, follow.Options{Client: l.client, Logs: l.logs, Clock: l.clock, Sink: sink, Tail: l.tail, Run: run.Run})
		if !errors.Is(err, follow.ErrNoAttempt) {
			shown++
		}
		if err = l.settle(sink, err); err == nil {
			err = flush()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", run.path, err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if shown == 0 && len(errs) == 0 {
		return l.nothing()
	}
	return errors.Join(errs...)
}

// settle tells about output that is missing, and returns what is an error for the command.
func (l *stepLogs) settle(sink *follow.Sink, err error) error {
	var noEnd *follow.NoEndError
	var gone *follow.PodGoneError
	switch {
	case errors.Is(err, follow.ErrNoAttempt):
		return nil
	case errors.As(err, &noEnd), errors.As(err, &gone):
		sink.Talk("warning: %v", err)
		return nil
	}
	return err
}

// nothing says why there is no output at all.
func (l *stepLogs) nothing() error {
	if workflowruns.Refused(l.run) {
		return fmt.Errorf("the WorkflowRun %s has no output, for it was %s", l.run.Name, l.run.Status.Message)
	}
	if phase := workflowruns.Phase(l.run); phase.IsTerminal() {
		return fmt.Errorf("the WorkflowRun %s has no such output: it ended (%s) before the step got a Pod", l.run.Name, phase)
	}
	return cli.WithHint(fmt.Errorf("no such step of the WorkflowRun %s has started yet", l.run.Name),
		"`%s logs workflowrun %s -f -n %s` waits for it", l.factory.Name, l.run.Name, l.run.Namespace)
}
