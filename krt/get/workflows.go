package get

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/runs"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// workflowColumns returns the names of the columns for the kinds of workflows, and nil for others.
func workflowColumns(kind cli.Kind, wide bool) []string {
	switch kind {
	case cli.KindWorkflowRun:
		columns := []string{"NAME", "PHASE", "JOBS", "DURATION", "AGE", "MESSAGE"}
		if wide {
			columns = append(columns, "WORKFLOW")
		}
		return columns
	case cli.KindWorkflow, cli.KindAction:
		parts := "JOBS"
		if kind == cli.KindAction {
			parts = "STEPS"
		}
		columns := []string{"NAME", "READY", "REASON", parts, "INPUTS", "AGE"}
		if wide {
			columns = append(columns, "MESSAGE")
		}
		return columns
	}
	return nil
}

// workflowRunRow returns the cells of a WorkflowRun.
func (l layout) workflowRunRow(run *workflowsv1alpha1.WorkflowRun, now time.Time) []string {
	var cells []string
	if l.namespaces {
		cells = append(cells, run.Namespace)
	}
	phase := string(workflowruns.Phase(run))
	switch {
	case l.deleted:
		phase = "Deleted"
	case run.DeletionTimestamp != nil:
		phase = "Terminating"
	case run.Spec.CancelRequested && !run.Status.Phase.IsTerminal():
		phase = "Cancelling"
	}
	took := ""
	if d, ok := workflowruns.Took(run, now); ok {
		took = runs.Duration(d)
	}
	done, all := workflowruns.Progress(run)
	width := messageWidth
	if l.wide {
		width *= 2
	}
	cells = append(cells, run.Name, phase, fmt.Sprintf("%d/%d", done, all), took, age(run.CreationTimestamp, now),
		workflowruns.Flat(workflowruns.Message(run), width))
	if l.wide {
		cells = append(cells, run.Labels[workflowsv1alpha1.LabelWorkflow])
	}
	return cells
}

// definition is what a Workflow and an Action have in common.
type definition struct {
	namespace, name string
	status          workflowsv1alpha1.DefinitionStatus
	parts, inputs   int
	age             string
}

func (l layout) definitionRow(d definition) []string {
	var cells []string
	if l.namespaces {
		cells = append(cells, d.namespace)
	}
	status, reason, message := "Unknown", "", ""
	if c := meta.FindStatusCondition(d.status.Conditions, workflowsv1alpha1.ConditionReady); c != nil {
		status, reason, message = string(c.Status), c.Reason, c.Message
	}
	if l.deleted {
		reason = "Deleted"
	}
	cells = append(cells, d.name, status, reason, fmt.Sprint(d.parts), fmt.Sprint(d.inputs), d.age)
	if l.wide {
		cells = append(cells, workflowruns.Flat(message, 2*messageWidth))
	}
	return cells
}

func workflowDefinition(w *workflowsv1alpha1.Workflow, now time.Time) definition {
	return definition{w.Namespace, w.Name, w.Status, len(w.Spec.Jobs), len(w.Spec.Inputs), age(w.CreationTimestamp, now)}
}

func actionDefinition(a *workflowsv1alpha1.Action, now time.Time) definition {
	return definition{a.Namespace, a.Name, a.Status, len(a.Spec.Steps), len(a.Spec.Inputs), age(a.CreationTimestamp, now)}
}
