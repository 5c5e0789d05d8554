//go:build chaos

package chaos

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

// verdict compares what the API server holds, and what is on the node, with what the steps said.
type verdict struct {
	t          *testing.T
	env        *e2e.Env
	attempts   map[attempt][]string
	runs       []corev1alpha1.Run
	workflows  []workflowsv1alpha1.WorkflowRun
	violations int
}

func newVerdict(t *testing.T, env *e2e.Env, attempts map[attempt][]string) *verdict {
	t.Helper()
	v := &verdict{t: t, env: env, attempts: attempts}
	var runs corev1alpha1.RunList
	var workflows workflowsv1alpha1.WorkflowRunList
	v.list(&runs)
	v.list(&workflows)
	v.runs, v.workflows = runs.Items, workflows.Items
	return v
}

func (v *verdict) list(list client.ObjectList, options ...client.ListOption) {
	v.t.Helper()
	if err := v.env.Client.List(v.t.Context(), list, append(options, client.InNamespace(v.env.Namespace))...); err != nil {
		v.t.Fatalf("listing %T: %v", list, err)
	}
}

func (v *verdict) violated(format string, args ...any) {
	v.t.Helper()
	v.violations++
	v.t.Errorf("VIOLATION: "+format, args...)
}

// ranOnce: no attempt was executed twice, none that nobody knows, and every Run that has succeeded was executed.
func (v *verdict) ranOnce() {
	v.t.Helper()
	runsByUID := map[string]*corev1alpha1.Run{}
	for i := range v.runs {
		run := &v.runs[i]
		runsByUID[string(run.UID)] = run
		last := attempt{uid: string(run.UID), number: run.Status.Attempt}
		if run.Status.Phase == corev1alpha1.RunSucceeded && len(v.attempts[last]) == 0 {
			v.violated("Run %s succeeded in attempt %d, which was never executed", run.Name, run.Status.Attempt)
		}
	}
	for a, nonces := range v.attempts {
		run := runsByUID[a.uid]
		switch {
		case run == nil:
			v.violated("Run %s was executed, and is not there", a.uid)
		case a.number > run.Status.Attempt || a.number < 1:
			v.violated("attempt %d of Run %s was executed, which is in attempt %d", a.number, run.Name, run.Status.Attempt)
		case len(nonces) > 1:
			v.violated("attempt %d of Run %s (%s/%s) was executed %d times", a.number, run.Name, run.Status.Phase, run.Status.Reason, len(nonces))
		}
	}
}

// allEnded: everything has ended, and what failed says why.
func (v *verdict) allEnded() {
	v.t.Helper()
	for _, run := range v.workflows {
		if !run.Status.Phase.IsTerminal() || run.Status.Phase == workflowsv1alpha1.WorkflowFailed && run.Status.Message == "" {
			v.violated("WorkflowRun %s is %s: %q", run.Name, run.Status.Phase, run.Status.Message)
		}
	}
	for _, run := range v.runs {
		if !run.Status.Phase.IsTerminal() || run.Status.Phase != corev1alpha1.RunSucceeded && run.Status.Reason == "" {
			v.violated("Run %s is %s without a reason", run.Name, run.Status.Phase)
		}
	}
}

// nothingLeft: once all is idle, there are no workspaces, processes, directories, objects on their way out, and none without
// their owner.
func (v *verdict) nothingLeft() {
	v.t.Helper()
	last := []string{"not looked at yet"}
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for len(last) > 0 && time.Now().Before(deadline) {
		<-tick.C
		last = v.leftovers()
	}
	for _, left := range last {
		v.violated("%s after %s", left, patience)
	}
	uids := map[string]bool{}
	for _, run := range v.workflows {
		uids[string(run.UID)] = true
	}
	for i := range v.runs {
		if v.runs[i].Labels[workflowsv1alpha1.LabelWorkflowRunUID] != "" {
			if err := ownedBy(&v.runs[i], uids); err != nil {
				v.violated("%v", err)
			}
		}
	}
	var revisions appsv1.ControllerRevisionList
	v.list(&revisions)
	for i := range revisions.Items {
		if err := ownedBy(&revisions.Items[i], uids); err != nil {
			v.violated("%v", err)
		}
	}
}

func (v *verdict) leftovers() (left []string) {
	v.t.Helper()
	var workspaces workspacesv1alpha1.PersistentWorkspaceList
	var pods corev1.PodList
	v.list(&workspaces)
	for _, w := range workspaces.Items {
		left = append(left, fmt.Sprintf("workspace %s is there: %v, finalizers %v", w.Name, w.Status.Phase, w.Finalizers))
	}
	v.list(&pods, client.HasLabels{corev1alpha1.LabelRuntime})
	if len(pods.Items) != replicas {
		left = append(left, fmt.Sprintf("%d Pods are there, want %d", len(pods.Items), replicas))
	}
	for i := range pods.Items {
		left = append(left, v.leftOfPod(&pods.Items[i])...)
	}
	for i := range v.runs {
		if v.runs[i].DeletionTimestamp != nil {
			left = append(left, "Run "+v.runs[i].Name+" is on its way out")
		}
	}
	return left
}

// leftOfPod names processes of the runtime container other than the server and its supervisors, and directories of Runs and workspaces.
func (v *verdict) leftOfPod(pod *corev1.Pod) (left []string) {
	v.t.Helper()
	if pod.DeletionTimestamp != nil || !e2e.IsReady(pod) {
		return []string{"Pod " + pod.Name + " is not ready"}
	}
	processes, err := e2e.ProcessesOf(pod, corev1alpha1.ContainerRuntime)
	if err != nil {
		return []string{err.Error()}
	}
	for _, p := range processes {
		if !strings.HasPrefix(p.Line, "/kruntimes/bin/runtime-server ") { // its supervisors wait for executions to come
			left = append(left, fmt.Sprintf("process %q of Pod %s", p.Line, pod.Name))
		}
	}
	if len(processes) == 0 {
		left = append(left, "no process of Pod "+pod.Name+" is seen")
	}
	volumes := filepath.Join(e2e.Setting("CLUSTER"), "kubelet", "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir")
	for _, dir := range []string{
		"kruntimes-scratch", "kruntimes-state/runs", "workspace/persistent", "workspace/.kruntimes/runs", "workspace/.kruntimes/workspaces",
	} {
		entries, err := os.ReadDir(filepath.Join(volumes, dir))
		if err != nil && !os.IsNotExist(err) {
			v.t.Fatal(err)
		}
		for _, entry := range entries {
			left = append(left, fmt.Sprintf("%s/%s of Pod %s", dir, entry.Name(), pod.Name))
		}
	}
	return left
}

// fullCapacity: the Pods take as many Runs as they may, at once. What the scheduler held for others is free again.
func (v *verdict) fullCapacity() {
	v.t.Helper()
	var all []*corev1alpha1.Run
	for range replicas * capacity {
		all = append(all, v.env.Run("bash", "exec sleep 600"))
	}
	for _, run := range all {
		v.env.WaitPhase(run, corev1alpha1.RunRunning)
	}
	for _, run := range all {
		if err := v.env.Client.Patch(v.t.Context(), run, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancelRequested":true}}`))); err != nil {
			v.t.Fatal(err)
		}
	}
	for _, run := range all {
		v.env.WaitRun(run)
	}
}

// print writes the table for people.
func (v *verdict) print(kills map[string]int, took time.Duration) {
	counts := map[string]int{}
	retries, attempts := 0, 0
	for _, run := range v.workflows {
		kind := "WorkflowRuns"
		if run.Labels[workflowsv1alpha1.LabelWorkflowRunUID] != "" {
			kind = "WorkflowRuns of calls"
		}
		counts[fmt.Sprintf("%s %s", kind, run.Status.Phase)]++
	}
	for _, run := range v.runs {
		counts[strings.TrimSpace(fmt.Sprintf("Runs %s %s", run.Status.Phase, reasonOf(run)))]++
		retries += max(0, int(run.Status.Attempt)-1)
	}
	for _, nonces := range v.attempts {
		attempts += len(nonces)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, kind := range slices.Sorted(maps.Keys(kills)) {
		fmt.Fprintf(table, "%s\t%d\t\n", kind, kills[kind])
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(table, "%s\t%d\t\n", kind, counts[kind])
	}
	fmt.Fprintf(table, "attempts executed\t%d\t\nattempts after the first\t%d\t\nviolations\t%d\t\nseconds\t%.0f\t\n", attempts, retries, v.violations, took.Seconds())
	_ = table.Flush()
}

func reasonOf(run corev1alpha1.Run) corev1alpha1.RunReason {
	if run.Status.Phase == corev1alpha1.RunSucceeded {
		return ""
	}
	return run.Status.Reason
}
