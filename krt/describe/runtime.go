package describe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/runs"
)

// shownRuns is how many unfinished Runs of a Runtime are listed.
const shownRuns = 10

// runtimeView is a Runtime and what was read along with it.
type runtimeView struct {
	runtime   *corev1alpha1.Runtime
	pods      []corev1.Pod
	podsErr   error
	runs      []corev1alpha1.Run
	runsErr   error
	events    []corev1.Event
	eventsErr error
}

// text puts the view into words.
func (v *runtimeView) text(now time.Time) string {
	p := &page{now: now}
	v.head(p)
	p.conditions(v.runtime.Status.Conditions)
	v.podTable(p)
	v.runTable(p)
	p.events(v.events, v.eventsErr)
	return p.String()
}

func (v *runtimeView) head(p *page) {
	r := v.runtime
	p.field("Name", r.Name)
	p.field("Namespace", r.Namespace)
	p.field("Labels", pairs(r.Labels))
	p.field("Created", p.ago(r.CreationTimestamp.Time))
	if r.DeletionTimestamp != nil {
		p.field("Deleting", "since "+p.ago(r.DeletionTimestamp.Time))
	}
	p.field("Pods", fmt.Sprintf("%d of %d ready", r.Status.ReadyReplicas, r.DesiredReplicas()))
	p.field("Capacity", quantities(r.OfferedCapacity())+" per Pod")
	if containers := r.Spec.Template.Spec.Containers; len(containers) > 0 {
		p.field("Image", containers[0].Image)
	}
	p.field("Interpreter", runs.CommandLine(r.Spec.Interpreter))
	if r.Spec.Server == corev1alpha1.ServerCustom {
		p.field("Server", "Custom: the image brings its own")
	}
	switch store := r.Spec.ArtifactStore; {
	case store == nil:
		p.field("Artifacts", "no store")
	case store.Filesystem != nil:
		p.field("Artifacts", "volume claim "+store.Filesystem.VolumeClaimName)
	case store.S3 != nil:
		p.field("Artifacts", "bucket "+store.S3.Bucket)
	}
}

// podTable shows each Pod with what keeps it from being ready, and what it does.
func (v *runtimeView) podTable(p *page) {
	p.section("Pods")
	switch {
	case v.podsErr != nil:
		p.line("(cannot be read: %v)", v.podsErr)
		return
	case len(v.pods) == 0:
		p.line("none")
		return
	}
	capacity := v.runtime.OfferedCapacity()[corev1alpha1.ResourceRuns]
	taken := v.takenRuns()
	pods := slices.Clone(v.pods)
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	var rows [][]string
	for _, pod := range pods {
		ready, state, restarts := podState(&pod)
		rows = append(rows, []string{pod.Name, ready, state, fmt.Sprint(restarts),
			fmt.Sprintf("%d/%s", taken[string(pod.UID)], capacity.String()), pod.Spec.NodeName, p.since(pod.CreationTimestamp.Time)})
	}
	p.table([]string{"NAME", "READY", "STATE", "RESTARTS", "RUNS", "NODE", "AGE"}, rows)
}

// takenRuns returns by UID of the Pod how many units of "runs" are taken, as the scheduler counts them.
func (v *runtimeView) takenRuns() map[string]int64 {
	taken := map[string]int64{}
	for _, run := range v.runs {
		if run.Status.Phase.IsActive() {
			units := run.Requests()[corev1alpha1.ResourceRuns]
			taken[run.Status.AssignedPodUID] += units.Value()
		}
	}
	return taken
}

// podState returns the readiness of a Pod and, in one word, what it is doing or what is wrong with it.
func podState(pod *corev1.Pod) (ready, state string, restarts int32) {
	ready, state = "False", string(pod.Status.Phase)
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady:
			ready = string(c.Status)
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			state = cmp.Or(c.Reason, state)
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		restarts += s.RestartCount
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "" && s.State.Waiting.Reason != "PodInitializing":
			state = s.State.Waiting.Reason + " (" + s.Name + ")"
		case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
			state = cmp.Or(s.State.Terminated.Reason, "Error") + " (" + s.Name + ")"
		}
	}
	if pod.DeletionTimestamp != nil {
		state = "Terminating"
	}
	return ready, state, restarts
}

// runTable shows the Runs of the Runtime.
func (v *runtimeView) runTable(p *page) { p.runs(v.runs, v.runsErr, v.runtime.Namespace) }

// runs counts Runs, and lists the unfinished ones, the oldest first.
func (p *page) runs(all []corev1alpha1.Run, err error, namespace string) {
	p.section("Runs")
	if err != nil {
		p.line("(cannot be read: %v)", err)
		return
	}
	counts := map[corev1alpha1.RunPhase]int{}
	var open []corev1alpha1.Run
	for _, run := range all {
		phase := run.Status.Phase.OrPending()
		counts[phase]++
		if !phase.IsTerminal() {
			open = append(open, run)
		}
	}
	var words []string
	for _, phase := range corev1alpha1.RunPhases() {
		if counts[phase] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[phase], phase))
		}
	}
	if len(words) == 0 {
		words = []string{"none"}
	}
	p.line("%s", strings.Join(words, ", "))
	if len(open) == 0 {
		return
	}
	slices.SortFunc(open, func(a, b corev1alpha1.Run) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	var rows [][]string
	for _, run := range open[:min(len(open), shownRuns)] {
		rows = append(rows, []string{run.Name, string(run.Status.Phase.OrPending()), runs.Reason(&run),
			run.Status.AssignedPod, p.since(run.CreationTimestamp.Time)})
	}
	p.table([]string{"NAME", "PHASE", "REASON", "POD", "AGE"}, rows)
	if more := len(open) - shownRuns; more > 0 {
		p.line("… and %d more: krt get runs -n %s", more, namespace)
	}
}
