package describe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// textWidth bounds a description or a value in a table.
const textWidth = 60

// definitionView is a Workflow or an Action, and the events about it.
type definitionView struct {
	object    metav1.ObjectMeta
	inputs    map[string]workflowsv1alpha1.Input
	outputs   map[string]workflowsv1alpha1.Output
	status    workflowsv1alpha1.DefinitionStatus
	jobs      map[string]workflowsv1alpha1.Job
	steps     []workflowsv1alpha1.Step
	events    []corev1.Event
	eventsErr error
}

func loadWorkflow(ctx context.Context, c client.Reader, key client.ObjectKey) (*definitionView, error) {
	var w workflowsv1alpha1.Workflow
	if err := c.Get(ctx, key, &w); err != nil {
		return nil, cli.Missing(err, cli.KindWorkflow, key.Namespace, key.Name)
	}
	v := &definitionView{object: w.ObjectMeta, inputs: w.Spec.Inputs, outputs: w.Spec.Outputs, status: w.Status, jobs: w.Spec.Jobs}
	v.events, v.eventsErr = eventsOf(ctx, c, &w)
	return v, nil
}

func loadAction(ctx context.Context, c client.Reader, key client.ObjectKey) (*definitionView, error) {
	var a workflowsv1alpha1.Action
	if err := c.Get(ctx, key, &a); err != nil {
		return nil, cli.Missing(err, cli.KindAction, key.Namespace, key.Name)
	}
	v := &definitionView{object: a.ObjectMeta, inputs: a.Spec.Inputs, outputs: a.Spec.Outputs, status: a.Status, steps: a.Spec.Steps}
	v.events, v.eventsErr = eventsOf(ctx, c, &a)
	return v, nil
}

// text puts the view into words.
func (v *definitionView) text(now time.Time) string {
	p := &page{now: now}
	p.field("Name", v.object.Name)
	p.field("Namespace", v.object.Namespace)
	p.field("Ready", v.ready())
	p.field("Labels", pairs(v.object.Labels))
	p.field("Created", p.ago(v.object.CreationTimestamp.Time))
	if v.object.DeletionTimestamp != nil {
		p.field("Deleting", "since "+p.ago(v.object.DeletionTimestamp.Time))
	}
	v.writeInputs(p)
	v.writeOutputs(p)
	if v.jobs != nil {
		v.writeJobs(p)
	} else {
		v.writeSteps(p)
	}
	p.conditions(v.status.Conditions)
	p.events(v.events, v.eventsErr)
	return p.String()
}

// ready says whether the definition can be used, and why not: one problem a line.
func (v *definitionView) ready() string {
	c := apimeta.FindStatusCondition(v.status.Conditions, workflowsv1alpha1.ConditionReady)
	switch {
	case c == nil:
		return "Unknown: it has not been checked yet"
	case c.ObservedGeneration < v.object.Generation:
		return string(c.Status) + " before its last change, which has not been checked yet"
	case c.Status == metav1.ConditionTrue:
		return string(c.Status)
	}
	return fmt.Sprintf("%s (%s)\n%s", c.Status, c.Reason, strings.ReplaceAll(c.Message, "; ", "\n"))
}

func (v *definitionView) writeInputs(p *page) {
	if len(v.inputs) == 0 {
		return
	}
	p.section("Inputs")
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(v.inputs)) {
		input := v.inputs[name]
		required, value := "no", `""`
		switch {
		case input.Required:
			required, value = "yes", ""
		case input.Default != nil && *input.Default != "":
			value = cli.OneLine(*input.Default, textWidth)
		}
		rows = append(rows, []string{name, required, value, workflowruns.Flat(input.Description, textWidth)})
	}
	p.table([]string{"NAME", "REQUIRED", "DEFAULT", "DESCRIPTION"}, rows)
}

func (v *definitionView) writeOutputs(p *page) {
	if len(v.outputs) == 0 {
		return
	}
	p.section("Outputs")
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(v.outputs)) {
		rows = append(rows, []string{name, workflowruns.Flat(v.outputs[name].Value, textWidth), workflowruns.Flat(v.outputs[name].Description, textWidth)})
	}
	p.table([]string{"NAME", "VALUE", "DESCRIPTION"}, rows)
}

func (v *definitionView) writeJobs(p *page) {
	p.section("Jobs")
	var rows [][]string
	for _, name := range workflowruns.Order(v.jobs) {
		job := v.jobs[name]
		does := fmt.Sprintf("%d steps on %s", len(job.Steps), job.RunsOn)
		if len(job.Steps) == 1 {
			does = "1 step on " + job.RunsOn
		}
		if job.Uses != "" {
			does = "calls Workflow " + job.Uses
		}
		rows = append(rows, []string{name, strings.Join(slices.Sorted(slices.Values(job.Needs)), ", "), workflowruns.Flat(does, textWidth), strings.Join(actions(job.Steps), ", ")})
	}
	p.table([]string{"NAME", "NEEDS", "DOES", "ACTIONS"}, rows)
}

// actions are the Actions that steps call, each once, in their order.
func actions(steps []workflowsv1alpha1.Step) []string {
	var names []string
	for i := range steps {
		if uses := steps[i].Uses; uses != "" && !slices.Contains(names, uses) {
			names = append(names, uses)
		}
	}
	return names
}

func (v *definitionView) writeSteps(p *page) {
	p.section("Steps")
	var rows [][]string
	for i := range v.steps {
		step := &v.steps[i]
		timeout := ""
		if step.Timeout != nil {
			timeout = step.Timeout.Duration.String()
		}
		first, _, _ := strings.Cut(strings.TrimSpace(step.Run), "\n")
		rows = append(rows, []string{step.Name, timeout, cli.OneLine(first, textWidth)})
	}
	p.table([]string{"NAME", "TIMEOUT", "SCRIPT"}, rows)
}
