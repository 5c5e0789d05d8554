package get

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/runs"
)

// messageWidth bounds a message in a wide table.
const messageWidth = 80

// layout says which columns a table has besides the usual ones.
type layout struct {
	namespaces, wide, labels bool
	// deleted tells that the object of this row does not exist any more.
	deleted bool
}

// header returns the names of the columns for a kind.
func (l layout) header(kind cli.Kind) []string {
	cells := l.usualHeader(kind)
	if l.labels {
		cells = append(cells, "LABELS")
	}
	return cells
}

func (l layout) usualHeader(kind cli.Kind) []string {
	var cells []string
	if l.namespaces {
		cells = append(cells, "NAMESPACE")
	}
	if columns := workflowColumns(kind, l.wide); columns != nil {
		return append(cells, columns...)
	}
	if kind == cli.KindWorkspace {
		return append(cells, workspaceColumns(l.wide)...)
	}
	if kind == cli.KindRuntime {
		cells = append(cells, "NAME", "READY", "RUNS/POD", "AVAILABLE", "REASON", "IMAGE", "AGE")
		if l.wide {
			cells = append(cells, "INTERPRETER", "MESSAGE")
		}
		return cells
	}
	cells = append(cells, "NAME", "RUNTIME", "PHASE", "REASON", "EXIT", "DURATION", "AGE")
	if l.wide {
		cells = append(cells, "ATTEMPT", "WAITED", "POD", "MESSAGE")
	}
	return cells
}

// runRow returns the cells of a Run.
func (l layout) runRow(run *corev1alpha1.Run, now time.Time) []string {
	var cells []string
	if l.namespaces {
		cells = append(cells, run.Namespace)
	}
	exit, took := "", ""
	if run.Status.ExitCode != nil && !run.Status.Phase.IsActive() { // else it is an earlier attempt's
		exit = fmt.Sprint(*run.Status.ExitCode)
	}
	if d, ok := runs.Execution(run, now); ok {
		took = runs.Duration(d)
	}
	cells = append(cells, run.Name, run.Spec.Runtime, l.phase(run), runs.Reason(run), exit, took, age(run.CreationTimestamp, now))
	if l.wide {
		cells = append(cells, runs.Attempt(run), runs.Waited(run, now), run.Status.AssignedPod,
			cli.OneLine(runs.Message(run), messageWidth))
	}
	return cells
}

func (l layout) phase(run *corev1alpha1.Run) string {
	switch {
	case l.deleted:
		return "Deleted"
	case run.DeletionTimestamp != nil:
		return "Terminating"
	}
	return string(run.Status.Phase.OrPending())
}

// runtimeRow returns the cells of a Runtime.
func (l layout) runtimeRow(runtime *corev1alpha1.Runtime, now time.Time) []string {
	var cells []string
	if l.namespaces {
		cells = append(cells, runtime.Namespace)
	}
	status, reason, message := "Unknown", "", ""
	if c := meta.FindStatusCondition(runtime.Status.Conditions, corev1alpha1.RuntimeConditionAvailable); c != nil {
		status, reason, message = string(c.Status), c.Reason, c.Message
	}
	switch {
	case l.deleted:
		reason = "Deleted"
	case runtime.DeletionTimestamp != nil:
		reason = "Terminating"
	}
	image := ""
	if containers := runtime.Spec.Template.Spec.Containers; len(containers) > 0 {
		image = containers[0].Image
	}
	capacity := runtime.OfferedCapacity()[corev1alpha1.ResourceRuns]
	cells = append(cells, runtime.Name, fmt.Sprintf("%d/%d", runtime.Status.ReadyReplicas, runtime.DesiredReplicas()), capacity.String(),
		status, reason, image, age(runtime.CreationTimestamp, now))
	if l.wide {
		cells = append(cells, cli.OneLine(strings.Join(runtime.Spec.Interpreter, " "), messageWidth), cli.OneLine(message, messageWidth))
	}
	return cells
}

func age(created metav1.Time, now time.Time) string {
	if created.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(now.Sub(created.Time), 0))
}

// row writes one object of any kind.
func (l layout) row(out io.Writer, object any, now time.Time) {
	var cells []string
	var set labels.Set
	switch o := object.(type) {
	case *corev1alpha1.Run:
		cells, set = l.runRow(o, now), o.Labels
	case *corev1alpha1.Runtime:
		cells, set = l.runtimeRow(o, now), o.Labels
	case *workflowsv1alpha1.WorkflowRun:
		cells, set = l.workflowRunRow(o, now), o.Labels
	case *workflowsv1alpha1.Workflow:
		cells, set = l.definitionRow(workflowDefinition(o, now)), o.Labels
	case *workflowsv1alpha1.Action:
		cells, set = l.definitionRow(actionDefinition(o, now)), o.Labels
	case *workspacesv1alpha1.PersistentWorkspace:
		cells, set = l.workspaceRow(o, now), o.Labels
	}
	if l.labels {
		cells = append(cells, set.String())
	}
	cli.Row(out, cells...)
}
