package workflowruns

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/runs"
)

// ExitCode returns the exit code with which a follower of a finished WorkflowRun ends.
func ExitCode(run *workflowsv1alpha1.WorkflowRun) int {
	switch run.Status.Phase {
	case workflowsv1alpha1.WorkflowSucceeded:
		return cli.ExitOK
	case workflowsv1alpha1.WorkflowCancelled:
		return cli.ExitInterrupted
	}
	return cli.ExitFailed
}

// Outcome puts into one line how a WorkflowRun ended, or how it stands.
func Outcome(run *workflowsv1alpha1.WorkflowRun, now time.Time) string {
	text := fmt.Sprintf("WorkflowRun %s %s", run.Name, Phase(run))
	if d, ok := Took(run, now); ok {
		text += " after " + runs.Duration(d)
	}
	return text
}

// Failure is why a WorkflowRun failed.
type Failure struct {
	// Path of the job or step; empty when it is the WorkflowRun itself.
	Path string
	// Phase of the job or step.
	Phase string
	// Message says why.
	Message string
	// Run is that of the step, or empty.
	Run string
}

// String puts it into a sentence.
func (f *Failure) String() string {
	text := f.Message
	if f.Path != "" {
		text = f.Path + " " + f.Phase
		if f.Message != "" {
			text += ": " + f.Message
		}
	}
	return text
}

// FirstFailure returns what failed first: the step, else the job, else the WorkflowRun itself; where that is a call, what
// failed inside, if it is known. It returns nil where nothing failed. Of a WorkflowRun that is cancelled, the end of its Runs
// is no failure, and neither is that of a job that stood between two of its steps.
func FirstFailure(family Family) *Failure {
	run := family.Run
	cancelling := isCancelling(run)
	search := failureSearch{
		wasAsked: func(item *Item) bool {
			return (run.Spec.CancelRequested || cancelling) && item.Phase == string(corev1alpha1.RunCancelled)
		},
		ignoreJobs: cancelling,
	}
	for _, job := range family.Jobs() {
		search.visit(&job)
	}
	first := search.first
	switch {
	case first != nil && first.isJob:
		return &Failure{Path: first.Path, Phase: first.Phase, Message: first.Message}
	case first != nil:
		return &Failure{Path: first.Path, Phase: first.Phase, Message: first.Message, Run: first.Child}
	case Phase(run) == workflowsv1alpha1.WorkflowFailed:
		return &Failure{Phase: string(run.Status.Phase), Message: run.Status.Message}
	}
	return nil
}

// failureSearch looks for what failed first.
type failureSearch struct {
	// wasAsked tells that an item ended as a person wanted.
	wasAsked func(*Item) bool
	// ignoreJobs leaves jobs out in which no step failed.
	ignoreJobs bool
	first      *Item
}

// visit considers the items inside and, where none of them failed, the item itself. It tells whether any failed.
func (s *failureSearch) visit(item *Item) bool {
	inside := false
	for i := range item.Items {
		inside = s.visit(&item.Items[i]) || inside
	}
	if inside || item.state() != failed {
		return inside
	}
	if !(s.wasAsked(item) || item.isJob && s.ignoreJobs) && (s.first == nil || endsBefore(item, s.first)) {
		s.first = item
	}
	return true
}

// Refused tells whether a WorkflowRun was not accepted: its message says why, and nothing of it is ever executed.
func Refused(run *workflowsv1alpha1.WorkflowRun) bool {
	return meta.IsStatusConditionFalse(run.Status.Conditions, workflowsv1alpha1.WorkflowRunConditionAccepted)
}

// isCancelling tells whether a WorkflowRun was cancelled, or is about to be.
func isCancelling(run *workflowsv1alpha1.WorkflowRun) bool {
	return Phase(run) == workflowsv1alpha1.WorkflowCancelled || (run.Spec.CancelRequested && !Phase(run).IsTerminal())
}

// endsBefore orders by the time of the end. What has none comes last.
func endsBefore(a, b *Item) bool {
	if a.End == nil || b.End == nil {
		return a.End != nil
	}
	return a.End.Before(b.End)
}

// Outputs lists all outputs, one per line: those of the WorkflowRun itself, then those of its jobs, with the job's name.
func Outputs(run *workflowsv1alpha1.WorkflowRun) []string {
	lines := outputLines("", run.Status.Outputs)
	for _, job := range Alone(run).Jobs() {
		lines = append(lines, outputLines(job.Name+".", job.Outputs)...)
	}
	return lines
}

// valueWidth bounds an output in a line for people. The whole is in the status.
const valueWidth = 200

func outputLines(prefix string, outputs map[string]corev1alpha1.OutputValue) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		lines = append(lines, cli.Visible(prefix+name)+"="+cli.OneLine(strings.TrimRight(string(outputs[name]), "\n"), valueWidth))
	}
	return lines
}

// Artifacts lists what the jobs left, one per line: job and name, and the size as it is stored.
func Artifacts(run *workflowsv1alpha1.WorkflowRun) []string {
	var lines []string
	for _, job := range Alone(run).Jobs() {
		kept := run.Status.Jobs[job.Name].Artifacts
		for _, name := range slices.Sorted(maps.Keys(kept)) {
			text := cli.Visible(job.Name+"/"+name) + "  " + runs.Bytes(kept[name].SizeBytes)
			if kept[name].Type == corev1alpha1.ArtifactDirectory {
				text += ", directory"
			}
			lines = append(lines, text)
		}
	}
	return lines
}

// WriteEnd tells what a view does not show of the end: what failed first, the outputs and the artifacts. krt is how the program was called.
func WriteEnd(out io.Writer, krt string, family Family) error {
	text, run := "", family.Run
	if failure := FirstFailure(family); failure != nil {
		text = "\nFirst failure: " + cli.VisibleLines(failure.String()) + "\n"
		if failure.Run != "" {
			text += fmt.Sprintf("Its output: %s logs %s -n %s\n", krt, cli.Visible(failure.Run), run.Namespace)
		}
	}
	if outputs := Outputs(run); len(outputs) > 0 {
		text += "\nOutputs:\n  " + strings.Join(outputs, "\n  ") + "\n"
	}
	if artifacts := Artifacts(run); len(artifacts) > 0 {
		text += "\nArtifacts:\n  " + strings.Join(artifacts, "\n  ") + "\n" +
			fmt.Sprintf("Fetch them: %s artifacts download workflowrun %s -n %s\n", krt, cli.Visible(run.Name), run.Namespace)
	}
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("writing how it ended: %w", err)
	}
	return nil
}

// Message says in a line why a WorkflowRun stands where it does: what failed first, else what its status says.
func Message(run *workflowsv1alpha1.WorkflowRun) string {
	if failure := FirstFailure(Alone(run)); failure != nil && failure.Path != "" {
		return failure.String()
	}
	return run.Status.Message
}

// Flat makes one line of at most limit characters of a message of several.
func Flat(message string, limit int) string {
	return cli.OneLine(strings.ReplaceAll(strings.TrimSpace(message), "\n", "; "), limit)
}
