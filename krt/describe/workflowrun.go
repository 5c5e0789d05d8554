package describe

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/krt/runs"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// workflowRunView is a WorkflowRun and what was read along with it.
type workflowRunView struct {
	family workflowruns.Family
	// familyErr is why calls are missing.
	familyErr error
	events    []corev1.Event
	eventsErr error
}

// loadWorkflowRun reads a WorkflowRun, those of its calls, and the events about it.
func loadWorkflowRun(ctx context.Context, c client.Reader, key client.ObjectKey) (*workflowRunView, error) {
	run, err := workflowruns.Get(ctx, c, key.Namespace, key.Name)
	if err != nil {
		return nil, err
	}
	view := &workflowRunView{}
	view.family, view.familyErr = workflowruns.Load(ctx, c, run)
	view.events, view.eventsErr = eventsOf(ctx, c, run)
	return view, nil
}

// text puts the view into words.
func (v *workflowRunView) text(now time.Time) string {
	p := &page{now: now}
	run, status := v.family.Run, v.family.Run.Status
	p.field("Name", run.Name)
	p.field("Namespace", run.Namespace)
	phase := string(workflowruns.Phase(run))
	if run.Spec.CancelRequested && !status.Phase.IsTerminal() {
		phase += " (cancelling)"
	}
	p.field("Phase", phase)
	if failure := workflowruns.FirstFailure(v.family); failure != nil {
		text := failure.String()
		if failure.Run != "" {
			text = strings.TrimRight(text, "\n") + fmt.Sprintf("\nits output: krt logs %s -n %s", failure.Run, run.Namespace)
		}
		p.field("Failed first", text)
	} else {
		p.field("Message", status.Message)
	}
	done, all := workflowruns.Progress(run)
	if workflowruns.Refused(run) {
		p.field("Jobs", fmt.Sprintf("none of %d was started: it was not accepted", all))
	} else {
		p.field("Jobs", fmt.Sprintf("%d of %d have ended", done, all))
	}
	p.field("Labels", pairs(run.Labels))
	if owner := metav1.GetControllerOf(run); owner != nil {
		p.field("Owner", owner.Kind+" "+owner.Name)
	}
	v.times(p)
	p.field("Snapshot", status.SnapshotName)
	if ttl := run.Spec.TTLSecondsAfterFinished; ttl != nil {
		p.field("TTL", runs.Duration(time.Duration(*ttl)*time.Second)+" after the end")
	}
	p.section("Jobs")
	for _, line := range (workflowruns.Picture{Details: true, Now: now.UTC()}).Draw(v.family) {
		p.WriteString("  " + line + "\n")
	}
	if v.familyErr != nil {
		p.line("(what is inside of calls cannot be read: %v)", v.familyErr)
	}
	if outputs := workflowruns.Outputs(run); len(outputs) > 0 {
		p.section("Outputs")
		p.WriteString("  " + strings.Join(outputs, "\n  ") + "\n")
	}
	if artifacts := workflowruns.Artifacts(run); len(artifacts) > 0 {
		p.section("Artifacts")
		p.WriteString("  " + strings.Join(artifacts, "\n  ") + "\n")
	}
	p.conditions(status.Conditions)
	p.events(v.events, v.eventsErr)
	return p.String()
}

// times is the course of the WorkflowRun.
func (v *workflowRunView) times(p *page) {
	run, status := v.family.Run, v.family.Run.Status
	p.field("Created", p.ago(run.CreationTimestamp.Time))
	if status.StartTime != nil {
		p.field("Started", stamp(status.StartTime))
	}
	took, started := workflowruns.Took(run, p.now)
	switch {
	case status.CompletionTime != nil && started:
		p.field("Ended", stamp(status.CompletionTime)+", took "+runs.Duration(took))
	case status.CompletionTime != nil:
		p.field("Ended", stamp(status.CompletionTime))
	case started:
		p.field("Running", "for "+runs.Duration(took))
	}
	if run.DeletionTimestamp != nil {
		p.field("Deleting", "since "+p.ago(run.DeletionTimestamp.Time))
	}
}
