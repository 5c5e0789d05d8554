package describe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/follow"
	"kruntimes.io/kruntimes/krt/runs"
)

// excerpt is how many lines of a script are shown.
const excerpt = 20

// runView is a Run and what was read along with it.
type runView struct {
	run *corev1alpha1.Run
	// runtime is the Runtime of an unfinished Run; nil when it is finished, or the Runtime could not be read.
	runtime        *corev1alpha1.Runtime
	runtimeMissing bool
	events         []corev1.Event
	eventsErr      error
}

// text puts the view into words.
func (v *runView) text(now time.Time) string {
	p := &page{now: now}
	v.head(p)
	v.times(p)
	v.what(p)
	v.results(p)
	p.conditions(v.run.Status.Conditions)
	p.events(v.events, v.eventsErr)
	return p.String()
}

// head says which Run it is, how it stands and why.
func (v *runView) head(p *page) {
	run, status := v.run, v.run.Status
	p.field("Name", run.Name)
	p.field("Namespace", run.Namespace)
	p.field("Labels", pairs(run.Labels))
	if owner := metav1.GetControllerOf(run); owner != nil {
		p.field("Owner", owner.Kind+" "+owner.Name)
	}
	p.field("Runtime", run.Spec.Runtime+v.runtimeState())
	phase := string(status.Phase.OrPending())
	if reason := runs.Reason(run); reason != "" && reason != phase {
		phase += " (" + reason + ")"
	}
	p.field("Phase", phase)
	message := runs.Message(run)
	if message == "attempt "+runs.LastAttempt(run) {
		message = "" // said below
	}
	if message = cmp.Or(message, follow.Waiting(run, p.now.Sub(run.CreationTimestamp.Time))); message != string(status.Phase) {
		p.field("Message", message)
	}
	if status.ExitCode != nil && runs.LastAttempt(run) == "" {
		p.field("Exit code", fmt.Sprint(*status.ExitCode))
	}
	p.field("Attempt", runs.Attempt(run))
	p.field("Last attempt", runs.LastAttempt(run))
	if status.AssignedPod != "" {
		p.field("Pod", fmt.Sprintf("%s (uid %s)", status.AssignedPod, status.AssignedPodUID))
	}
	if run.DeletionTimestamp != nil {
		p.field("Deleting", "since "+p.ago(run.DeletionTimestamp.Time))
	}
}

// runtimeState says of an unfinished Run what may keep it waiting.
func (v *runView) runtimeState() string {
	switch {
	case v.runtimeMissing:
		return " (does not exist)"
	case v.runtime == nil || v.run.Status.Phase != corev1alpha1.RunPending:
		return ""
	}
	return fmt.Sprintf(" (%d of %d Pods ready)", v.runtime.Status.ReadyReplicas, v.runtime.DesiredReplicas())
}

// times is the course of the Run: each moment, and how long what came before it took.
func (v *runView) times(p *page) {
	run, status := v.run, v.run.Status
	p.field("Created", p.ago(run.CreationTimestamp.Time))
	if status.ScheduledTime != nil {
		text := stamp(status.ScheduledTime)
		if waited := runs.Waited(run, p.now); waited != "" {
			text += ", waited " + waited
		}
		p.field("Assigned", text)
	} else if !status.Phase.IsTerminal() {
		p.field("Waiting for", runs.Waited(run, p.now))
	}
	if status.NextAttemptTime != nil && status.Phase == corev1alpha1.RunPending {
		text := "not before " + stamp(status.NextAttemptTime)
		if wait := status.NextAttemptTime.Sub(p.now); wait > 0 {
			text += ", in " + runs.Duration(wait)
		}
		p.field("Next attempt", text)
	}
	if status.StartTime != nil {
		text := stamp(status.StartTime)
		if status.ScheduledTime != nil {
			text += fmt.Sprintf(", %s after the assignment", runs.Duration(max(status.StartTime.Sub(status.ScheduledTime.Time), 0)))
		}
		p.field("Started", text)
	}
	took, executed := runs.Execution(run, p.now)
	if status.CompletionTime != nil {
		text := stamp(status.CompletionTime)
		if executed {
			text += ", executed for " + runs.Duration(took)
		}
		p.field("Ended", text)
	} else if executed {
		p.field("Executing", "for "+runs.Duration(took))
	}
	if run.Spec.Timeout != nil {
		p.field("Timeout", runs.Duration(run.Spec.Timeout.Duration))
	}
	if ttl := run.Spec.TTLSecondsAfterFinished; ttl != nil {
		p.field("TTL", runs.Duration(time.Duration(*ttl)*time.Second)+" after the end")
	}
}

func stamp(t *metav1.MicroTime) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// what is executed.
func (v *runView) what(p *page) {
	spec := v.run.Spec
	if spec.Resources != nil {
		p.field("Requests", quantities(spec.Resources.Requests))
	}
	if w := spec.Workspace; w != nil {
		p.field("Workspace", w.Kind+" "+w.Name)
	}
	if r := spec.RetryPolicy; r != nil {
		p.field("Retries", retries(r))
	}
	if len(spec.Env) > 0 {
		p.section("Environment")
		for _, e := range spec.Env {
			p.line("%s=%s", e.Name, e.Value)
		}
	}
	if len(spec.ArtifactInputs) > 0 {
		p.section("Artifact inputs")
		var rows [][]string
		for _, input := range spec.ArtifactInputs {
			rows = append(rows, []string{input.Path, input.Artifact.Name, string(input.Artifact.Type), runs.Bytes(input.Artifact.SizeBytes)})
		}
		p.table([]string{"PATH", "ARTIFACT", "TYPE", "SIZE"}, rows)
	}
	var args []string
	if spec.Mode.Task != nil {
		args = spec.Mode.Task.Args
	}
	switch {
	case spec.Source == nil:
		p.section("Command")
		p.line("%s", runs.CommandLine(args))
		return
	case spec.Source.Git != nil:
		p.section("Source")
		p.line("%s of %s, revision %s", spec.Mode.Task.Entrypoint, spec.Source.Git.URL, cmp.Or(spec.Source.Git.Revision, "of the default branch"))
	default:
		v.script(p, spec.Source.Inline)
	}
	if len(args) > 0 {
		p.section("Arguments")
		p.line("%s", runs.CommandLine(args))
	}
}

// script shows the beginning of the script.
func (v *runView) script(p *page, script string) {
	lines := strings.Split(strings.TrimRight(script, "\n"), "\n")
	p.section(fmt.Sprintf("Script (%s, %s)", counted(len(lines), "line"), counted(len(script), "byte")))
	for i, line := range lines {
		if i == excerpt {
			p.line("… %d more lines: krt get run %s -n %s -o jsonpath={.spec.source.inline}", len(lines)-excerpt, v.run.Name, v.run.Namespace)
			return
		}
		p.line("%3d  %s", i+1, strings.ReplaceAll(line, "\t", "    "))
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// results are what the script left.
func (v *runView) results(p *page) {
	if outputs := v.run.Status.Outputs; len(outputs) > 0 {
		p.section("Outputs")
		for _, name := range slices.Sorted(maps.Keys(outputs)) {
			p.line("%s=%s", name, outputs[name])
		}
	}
	if artifacts := v.run.Status.Artifacts; len(artifacts) > 0 {
		p.section("Artifacts")
		var rows [][]string
		for _, a := range artifacts {
			rows = append(rows, []string{a.Name, string(a.Type), fmt.Sprint(a.SizeBytes), a.Digest})
		}
		p.table([]string{"NAME", "TYPE", "BYTES", "DIGEST"}, rows)
	}
}

func pairs(m map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, k+"="+m[k])
	}
	return strings.Join(all, "\n")
}

func quantities(list corev1.ResourceList) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		all = append(all, string(name)+"="+q.String())
	}
	return strings.Join(all, ", ")
}

func retries(r *corev1alpha1.RetryPolicy) string {
	if r.Attempts() == 1 {
		return "none"
	}
	text := fmt.Sprintf("up to %d attempts", r.Attempts())
	if r.Backoff != nil && r.MaxBackoff != nil {
		text += fmt.Sprintf(", %s to %s apart", runs.Duration(r.Backoff.Duration), runs.Duration(r.MaxBackoff.Duration))
	}
	if len(r.RetryOn) > 0 {
		text += fmt.Sprintf(", after %v", r.RetryOn)
	}
	return text
}
