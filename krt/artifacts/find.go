package artifacts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/runs"
	"kruntimes.io/kruntimes/krt/workflowruns"
	"kruntimes.io/kruntimes/workflow/expression"
)

// entry is an artifact of a Run, or of a job of a WorkflowRun.
type entry struct {
	// Name is how people call it: that of the artifact, behind the job's where there is one.
	Name string `json:"name"`
	// Runtime is that of the Run, whose Pods reach the store.
	Runtime string `json:"runtime"`
	// Artifact is its address.
	Artifact corev1alpha1.ArtifactRef `json:"artifact"`
}

// holder is a Run or WorkflowRun with what it left.
type holder struct {
	target cli.Target
	// entries are sorted by name.
	entries []entry
	// ended tells that there will be no more.
	ended bool
}

// find reads a Run or WorkflowRun.
func find(ctx context.Context, c client.Reader, namespace string, target cli.Target) (*holder, error) {
	h := &holder{target: target}
	if target.Kind == cli.KindWorkflowRun {
		run, err := workflowruns.Get(ctx, c, namespace, target.Name)
		if err != nil {
			return nil, err
		}
		family, err := workflowruns.Load(ctx, c, run)
		if err != nil {
			return nil, err // else the Runtimes of what calls left would not be known
		}
		h.ended, h.entries = run.Status.Phase.IsTerminal(), entriesOfJobs(family)
		return h, nil
	}
	run, err := runs.Get(ctx, c, namespace, target.Name)
	if err != nil {
		return nil, err
	}
	h.ended = run.Status.Phase.IsTerminal()
	for _, ref := range run.Status.Artifacts {
		h.entries = append(h.entries, entry{Name: ref.Name, Runtime: run.Spec.Runtime, Artifact: ref})
	}
	slices.SortFunc(h.entries, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	return h, nil
}

// entriesOfJobs are the artifacts of the jobs of a WorkflowRun, by job and name. Those of a call are what its jobs left.
func entriesOfJobs(family workflowruns.Family) []entry {
	run := family.Run
	var entries []entry
	for _, job := range slices.Sorted(maps.Keys(run.Status.Jobs)) {
		kept := run.Status.Jobs[job].Artifacts
		for _, name := range slices.Sorted(maps.Keys(kept)) {
			entries = append(entries, entry{Name: job + "/" + name, Runtime: makerOf(family, run, job, kept[name]), Artifact: kept[name]})
		}
	}
	return entries
}

// makerOf is the Runtime whose Pods reach an artifact of a job: the job's own or, of a call, that of the job inside that left
// it. It is empty where it cannot be told.
func makerOf(family workflowruns.Family, run *workflowsv1alpha1.WorkflowRun, job string, ref corev1alpha1.ArtifactRef) string {
	if run.Spec.Jobs[job].Uses == "" {
		return runtimeOf(run.Spec.Jobs[job].RunsOn)
	}
	child := family.Child(run, job)
	if child == nil {
		return ""
	}
	for _, inner := range slices.Backward(workflowruns.Order(child.Spec.Jobs)) { // of several under one name, the last one counts
		if kept, found := child.Status.Jobs[inner].Artifacts[ref.Name]; found && equality.Semantic.DeepEqual(kept, ref) {
			return makerOf(family, child, inner, ref)
		}
	}
	return ""
}

// runtimeOf is the Runtime of a job; empty where it cannot be told.
func runtimeOf(runsOn string) string {
	template, problems := expression.Parse(runsOn)
	if len(problems) > 0 {
		return ""
	}
	name, err := template.Evaluate(expression.Scope{})
	if err != nil {
		return ""
	}
	return name
}

// choose picks the entries of the names; all where there are none.
func (h *holder) choose(names []string) ([]entry, error) {
	if len(names) == 0 {
		if len(h.entries) == 0 {
			return nil, h.none()
		}
		return h.entries, nil
	}
	var chosen []entry
	for _, name := range names {
		i := slices.IndexFunc(h.entries, func(e entry) bool { return e.Name == name })
		if i < 0 {
			return nil, h.unknown(name)
		}
		chosen = append(chosen, h.entries[i])
	}
	return chosen, nil
}

// none is the error about something that left no artifacts.
func (h *holder) none() error {
	err := fmt.Errorf("%s %s left no artifacts", h.target.Kind, h.target.Name)
	if h.ended {
		return err
	}
	return cli.WithHint(fmt.Errorf("%s %s has no artifacts yet", h.target.Kind, h.target.Name),
		"it has not ended: wait for it with `krt wait %s %s`", strings.ToLower(string(h.target.Kind)), h.target.Name)
}

func (h *holder) unknown(name string) error {
	if len(h.entries) == 0 {
		return h.none()
	}
	there := make([]string, len(h.entries))
	for i, e := range h.entries {
		there[i] = fmt.Sprintf("%q", e.Name)
	}
	return cli.WithHint(fmt.Errorf("%s %s has no artifact %q", h.target.Kind, h.target.Name, name), "it has %s", strings.Join(there, ", "))
}

// podOf chooses a Pod of a Runtime: one that is ready, and rather not one that is being deleted.
func podOf(ctx context.Context, c client.Reader, namespace, runtime string) (string, error) {
	if runtime == "" {
		return "", fmt.Errorf("the Runtime that made the artifact is not known")
	}
	var pods corev1.PodList
	labels := client.MatchingLabels{corev1alpha1.LabelRuntime: corev1alpha1.RuntimeLabelValue(runtime)}
	if err := c.List(ctx, &pods, client.InNamespace(namespace), labels); err != nil {
		return "", fmt.Errorf("listing the Pods of Runtime %s: %w", runtime, err)
	}
	ready := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		named, isNamed := pod.Annotations[corev1alpha1.AnnotationRuntime] // The label is shortened where the name is long.
		return !corev1alpha1.PodIsReady(&pod) || isNamed && named != runtime
	})
	if len(ready) == 0 {
		return "", noPod(ctx, c, namespace, runtime)
	}
	leaves := func(pod *corev1.Pod) int {
		if pod.DeletionTimestamp != nil {
			return 1
		}
		return 0
	}
	slices.SortFunc(ready, func(a, b corev1.Pod) int { return cmp.Or(leaves(&a)-leaves(&b), strings.Compare(a.Name, b.Name)) })
	return ready[0].Name, nil
}

// noPod says that artifacts cannot be read through a Pod of a Runtime, and what to do about it.
func noPod(ctx context.Context, c client.Reader, namespace, runtime string) error {
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: runtime}, &corev1alpha1.Runtime{})
	if apierrors.IsNotFound(err) {
		return cli.WithHint(fmt.Errorf("there is no Runtime %s: artifacts are read through its Pods", runtime),
			"create one of that name, with the same artifactStore")
	}
	return cli.WithHint(fmt.Errorf("no Pod of Runtime %s is ready: artifacts are read through one", runtime),
		"see why with `krt describe runtime %[1]s -n %[2]s`, or start one with `kubectl scale runtime %[1]s -n %[2]s --replicas=1`", runtime, namespace)
}
