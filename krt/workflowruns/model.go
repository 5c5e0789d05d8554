package workflowruns

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/graph"
)

// Item is a job, a step, or a step of a called Action: what its definition says and what has become of it.
type Item struct {
	// Path is the name with those around it: job, job/step, job/step/step and, inside a call, job/job/step.
	Path string
	// Name of the job or step.
	Name string
	// Phase is where it stands: a JobPhase or a RunPhase.
	Phase string
	// Message says why, or is empty.
	Message string
	// Needs are the jobs that a job waits for.
	Needs []string
	// Uses is the Workflow or Action that is called, or empty.
	Uses string
	// Child is the Run of a step or the WorkflowRun of a call, or empty.
	Child string
	// Start and End are when it started and ended; nil when it has not.
	Start, End *metav1.MicroTime
	// Outputs by name.
	Outputs map[string]corev1alpha1.OutputValue
	// Items are the steps of a job, those of a called Action, or the jobs of a called Workflow, in their order.
	Items []Item

	// isJob tells jobs from steps.
	isJob bool
}

// phasePending is the phase of what has no status yet. Jobs, Runs and WorkflowRuns share the word.
const phasePending = string(workflowsv1alpha1.WorkflowPending)

// Took is how long the item has been executing, up to now when it still does; false when it never started.
func (i *Item) Took(now time.Time) (time.Duration, bool) { return took(i.Start, i.End, now) }

func took(start, end *metav1.MicroTime, now time.Time) (time.Duration, bool) {
	if start == nil {
		return 0, false
	}
	if end != nil {
		now = end.Time
	}
	return max(now.Sub(start.Time), 0), true
}

// Took is how long a WorkflowRun has been executing, up to now when it still does; false when it never started.
func Took(run *workflowsv1alpha1.WorkflowRun, now time.Time) (time.Duration, bool) {
	return took(run.Status.StartTime, run.Status.CompletionTime, now)
}

// Phase is where a WorkflowRun stands, also when nobody has looked at it yet.
func Phase(run *workflowsv1alpha1.WorkflowRun) workflowsv1alpha1.WorkflowPhase {
	if run.Status.Phase == "" {
		return workflowsv1alpha1.WorkflowPending
	}
	return run.Status.Phase
}

// Jobs returns the jobs of a WorkflowRun with their steps and, where they are calls, with the jobs inside. A job comes after
// those that it needs; of jobs that could change places, the one whose name sorts first comes first.
func (f Family) Jobs() []Item { return f.jobs(f.Run, "", 0) }

func (f Family) jobs(run *workflowsv1alpha1.WorkflowRun, prefix string, depth int) []Item {
	jobs := make([]Item, 0, len(run.Spec.Jobs))
	for _, name := range Order(run.Spec.Jobs) {
		item := job(prefix+name, name, run.Spec.Jobs[name], run.Status.Jobs[name])
		if child := f.Child(run, name); child != nil && depth < maxDepth {
			item.Items = f.jobs(child, item.Path+"/", depth+1)
		}
		jobs = append(jobs, item)
	}
	return jobs
}

// Order returns the names of jobs in the order of Jobs.
func Order(jobs map[string]workflowsv1alpha1.Job) []string {
	needs := make(map[string][]string, len(jobs))
	for name := range jobs {
		needs[name] = jobs[name].Needs
	}
	order, err := graph.Order(needs)
	if err != nil { // was not accepted; any stable order will do
		return slices.Sorted(maps.Keys(needs))
	}
	return order
}

func job(path, name string, spec workflowsv1alpha1.Job, status workflowsv1alpha1.JobStatus) Item {
	item := Item{
		Path: path, Name: name, Phase: string(status.Phase), Message: status.Message, Needs: slices.Sorted(slices.Values(spec.Needs)),
		Uses: spec.Uses, Child: status.WorkflowRunName, Start: status.StartTime, End: status.CompletionTime, Outputs: status.Outputs, isJob: true,
	}
	if item.Phase == "" {
		item.Phase = phasePending
		if len(spec.Needs) > 0 {
			item.Phase = string(workflowsv1alpha1.JobWaiting)
		}
	}
	statuses := make(map[string]workflowsv1alpha1.StepStatus, len(status.Steps))
	for _, s := range status.Steps {
		statuses[s.Name] = s
	}
	for _, s := range spec.Steps {
		item.Items = append(item.Items, step(path, s, statuses[s.Name]))
	}
	return item
}

func step(job string, spec workflowsv1alpha1.Step, status workflowsv1alpha1.StepStatus) Item {
	item := Item{
		Path: job + "/" + spec.Name, Name: spec.Name, Phase: string(status.Phase), Message: status.Message, Uses: spec.Uses,
		Child: status.RunName, Start: status.StartTime, End: status.CompletionTime, Outputs: status.Outputs,
	}
	if item.Phase == "" {
		item.Phase = phasePending
	}
	for _, s := range status.ActionSteps {
		item.Items = append(item.Items, Item{
			Path: item.Path + "/" + s.Name, Name: s.Name, Phase: string(s.Phase), Message: s.Message,
			Child: s.RunName, Start: s.StartTime, End: s.CompletionTime, Outputs: s.Outputs,
		})
	}
	return item
}

// Progress counts the jobs that have ended, and all.
func Progress(run *workflowsv1alpha1.WorkflowRun) (done, all int) {
	for name := range run.Spec.Jobs {
		if run.Status.Jobs[name].Phase.IsTerminal() {
			done++
		}
	}
	return done, len(run.Spec.Jobs)
}

// state is what a phase means, whatever it is a phase of.
type state int

const (
	// waiting has not started.
	waiting state = iota
	// started has a Run that waits for its Pod.
	started
	running
	succeeded
	skipped
	failed
)

// stateOf maps the phases of Runs, jobs and WorkflowRuns, whose words mean the same everywhere.
func stateOf(phase string, child bool) state {
	switch phase {
	case string(corev1alpha1.RunRunning):
		return running
	case string(corev1alpha1.RunSucceeded):
		return succeeded
	case string(workflowsv1alpha1.JobSkipped):
		return skipped
	case string(corev1alpha1.RunFailed), string(corev1alpha1.RunTimeout), string(corev1alpha1.RunCancelled):
		return failed
	}
	if child {
		return started
	}
	return waiting
}

func (i *Item) state() state {
	return stateOf(i.Phase, i.Child != "" && i.Phase != string(workflowsv1alpha1.JobWaiting))
}

// active tells whether something of it goes on now.
func (s state) active() bool { return s == started || s == running }
