package describe

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/test/golden"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func micro(d time.Duration) *metav1.MicroTime {
	t := metav1.NewMicroTime(noon.Add(d))
	return &t
}

func meta(name string, age time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "team", UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(noon.Add(-age))}
}

func failedRun() *corev1alpha1.Run {
	run := &corev1alpha1.Run{ObjectMeta: meta("failed", 3*time.Minute), Spec: corev1alpha1.RunSpec{
		Runtime: "bash", Source: &corev1alpha1.RunSource{Inline: "#!/bin/bash\n" + strings.Repeat("\techo \"line\"\n", 30)},
		Mode: corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Args: []string{"--all", "two words", "it's"}}},
		Env:  []corev1alpha1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "two\nlines"}}, Timeout: &metav1.Duration{Duration: 10 * time.Minute},
		Resources:               &corev1alpha1.RunResources{Requests: corev1.ResourceList{"runs": resource.MustParse("2"), "example.com/gpu": resource.MustParse("1")}},
		RetryPolicy:             &corev1alpha1.RetryPolicy{MaxAttempts: 3, Backoff: &metav1.Duration{Duration: time.Second}, MaxBackoff: &metav1.Duration{Duration: 5 * time.Minute}, RetryOn: []corev1alpha1.RunReason{corev1alpha1.RunReasonRuntimePodLost}},
		TTLSecondsAfterFinished: ptr.To[int32](0),
	}, Status: corev1alpha1.RunStatus{
		Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonScriptFailed, Message: "Exit code 3\ncannot open \x1b[31mx\x1b[0m", ExitCode: ptr.To[int32](3),
		Attempt: 2, AssignedPod: "bash-1", AssignedPodUID: "uid-of-bash-1",
		ScheduledTime: micro(-175 * time.Second), StartTime: micro(-175*time.Second + 8*time.Millisecond), CompletionTime: micro(-92 * time.Second),
		Outputs:    map[string]corev1alpha1.OutputValue{"version": "1.2", "notes": "first\nsecond"},
		Artifacts:  []corev1alpha1.ArtifactRef{{Name: "report", Type: corev1alpha1.ArtifactFile, SizeBytes: 1234, Digest: "sha256:abc"}},
		Conditions: []metav1.Condition{{Type: "Succeeded", Status: metav1.ConditionFalse, Reason: "ScriptFailed", Message: "Exit code 3", LastTransitionTime: metav1.NewTime(noon.Add(-92 * time.Second))}},
	}}
	run.Labels = map[string]string{"team": "data", "app": "nightly"}
	run.OwnerReferences = []metav1.OwnerReference{{Kind: "WorkflowRun", Name: "release", Controller: ptr.To(true)}}
	return run
}

func waitingRun() *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: meta("waiting", 65*time.Second), Spec: corev1alpha1.RunSpec{
		Runtime: "bash", Mode: corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Args: []string{"sh", "-c", "echo $HOME"}}},
	}, Status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Conditions: []metav1.Condition{{Type: "Scheduled", Status: metav1.ConditionFalse,
		Reason: corev1alpha1.ReasonNoReadyPods, Message: "Runtime bash has 2 Pods, none is ready", LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}}}}
}

func runningRun() *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: meta("running", 65*time.Second), Spec: corev1alpha1.RunSpec{
		Runtime: "bash", Source: &corev1alpha1.RunSource{Inline: "sleep 100"}, CancelRequested: true,
	}, Status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunRunning, Attempt: 1, AssignedPod: "bash-1", AssignedPodUID: "uid-of-bash-1",
		ScheduledTime: micro(-60 * time.Second), StartTime: micro(-60*time.Second + 300*time.Microsecond)}}
}

// retriedRun is at its third attempt, the second of which failed: it waits for it, or executes it.
func retriedRun(name string, waits bool) *corev1alpha1.Run {
	run := failedRun()
	run.ObjectMeta = meta(name, 5*time.Minute)
	run.Spec = corev1alpha1.RunSpec{Runtime: "bash", Source: &corev1alpha1.RunSource{Inline: "false"}, RetryPolicy: run.Spec.RetryPolicy}
	run.Spec.RetryPolicy.MaxAttempts, run.Spec.RetryPolicy.RetryOn = 5, nil
	run.Status.ScheduledTime, run.Status.Conditions = micro(-70*time.Second), nil
	after, _ := run.HandedBack(corev1alpha1.AttemptEnd{Reason: corev1alpha1.RunReasonScriptFailed, Message: "Exit code 3\ncannot open x",
		ExitCode: ptr.To[int32](3), Time: noon.Add(-500 * time.Millisecond)})
	if waits {
		return after
	}
	after.Status.Phase, after.Status.AssignedPod, after.Status.AssignedPodUID = corev1alpha1.RunRunning, "bash-1", "uid-of-bash-1"
	after.Status.NextAttemptTime, after.Status.Conditions = nil, nil
	after.Status.ScheduledTime, after.Status.StartTime = micro(-2*time.Second), micro(-2*time.Second+5*time.Millisecond)
	return after
}

func bash() *corev1alpha1.Runtime {
	return &corev1alpha1.Runtime{ObjectMeta: meta("bash", time.Hour), Spec: corev1alpha1.RuntimeSpec{
		Replicas: ptr.To[int32](3), Capacity: corev1.ResourceList{"runs": resource.MustParse("4"), "example.com/gpu": resource.MustParse("1")},
		Interpreter: []string{"/bin/bash", "-e"}, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runtime", Image: "bash:5"}}}},
	}, Status: corev1alpha1.RuntimeStatus{ReadyReplicas: 1, Conditions: []metav1.Condition{{Type: "Available", Status: metav1.ConditionTrue, Reason: corev1alpha1.ReasonSomePodsReady,
		Message: "1 of 3 Pods ready; bash-2: ImagePullBackOff", LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}}}}
}

func pods() []client.Object {
	pod := func(name string, ready corev1.ConditionStatus, containers ...corev1.ContainerStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta(name, 10*time.Minute), Spec: corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}, ContainerStatuses: containers}}
		p.Labels = map[string]string{corev1alpha1.LabelRuntime: "bash"}
		return p
	}
	unplaced := pod("bash-3", corev1.ConditionFalse)
	unplaced.Spec.NodeName, unplaced.Status.Phase = "", corev1.PodPending
	unplaced.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
	return []client.Object{
		unplaced, pod("bash-1", corev1.ConditionTrue, corev1.ContainerStatus{Name: "runtimed", RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}),
		pod("bash-2", corev1.ConditionFalse, corev1.ContainerStatus{Name: "runtime", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}),
	}
}

func events() []client.Object {
	event := func(name, about, reason, message string, at time.Duration) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team"}, InvolvedObject: corev1.ObjectReference{UID: types.UID("uid-of-" + about)},
			Type: "Warning", Reason: reason, Message: message, EventTime: *micro(at)}
	}
	repeated := event("b", "bash", "PodsFailing", "bash-2: ImagePullBackOff", -time.Minute)
	repeated.Series = &corev1.EventSeries{Count: 7, LastObservedTime: *micro(-5 * time.Second)}
	return []client.Object{repeated, event("a", "bash", "PodsStarting", "3 Pods are being made", -time.Hour), event("c", "waiting", "Waiting", "no Pod is ready", -time.Minute)}
}

func sharedWorkspace() *workspacesv1alpha1.PersistentWorkspace {
	w := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: meta("release-build", 3*time.Hour), Spec: workspacesv1alpha1.PersistentWorkspaceSpec{
		Runtime: "bash", Mode: workspacesv1alpha1.WorkspaceRuntimePodLocal, CleanupPolicy: workspacesv1alpha1.CleanupRetain,
	}, Status: workspacesv1alpha1.PersistentWorkspaceStatus{
		Phase: workspacesv1alpha1.WorkspaceBound, Runtime: "bash", BoundPod: "bash-2", BoundPodUID: "uid-of-bash-2",
		Path: "/workspace/persistent/release-build", LastUsedTime: &metav1.Time{Time: noon.Add(-time.Minute)}, Conditions: []metav1.Condition{
			{Type: "Bound", Status: metav1.ConditionTrue, Reason: workspacesv1alpha1.ReasonBound, LastTransitionTime: metav1.NewTime(noon.Add(-3 * time.Hour))},
			{Type: "Available", Status: metav1.ConditionFalse, Reason: workspacesv1alpha1.ReasonPodNotReady, Message: "Pod bash-2 is not ready",
				LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))},
		},
	}}
	w.Labels = map[string]string{"workflows.kruntimes.io/job": "build"}
	w.OwnerReferences = []metav1.OwnerReference{{Kind: "WorkflowRun", Name: "release", Controller: ptr.To(true)}}
	return w
}

func endingWorkspace() *workspacesv1alpha1.PersistentWorkspace {
	w := sharedWorkspace()
	w.ObjectMeta = meta("ending", time.Hour)
	w.DeletionTimestamp, w.Finalizers = &metav1.Time{Time: noon.Add(-20 * time.Second)}, []string{workspacesv1alpha1.Finalizer}
	w.Spec.CleanupPolicy, w.Spec.TTLSecondsAfterUnused = workspacesv1alpha1.CleanupDeleteAfterTTL, ptr.To[int32](5400)
	w.Status = workspacesv1alpha1.PersistentWorkspaceStatus{Phase: workspacesv1alpha1.WorkspaceReleased, BoundPod: "bash-1",
		BoundPodUID: "uid-of-bash-1", Path: "/workspace/persistent/ending"}
	return w
}

// stuckWorkspace is one whose Pod does not remove it.
func stuckWorkspace() *workspacesv1alpha1.PersistentWorkspace {
	w := endingWorkspace()
	w.Name = "stuck"
	w.Status.Conditions = []metav1.Condition{{Type: workspacesv1alpha1.WorkspaceConditionAvailable, Status: metav1.ConditionFalse,
		Reason: workspacesv1alpha1.ReasonCleanupStuck, LastTransitionTime: metav1.NewTime(noon.Add(-20 * time.Second)),
		Message: "its directory could not be removed yet: see the log of container runtimed of Pod bash-1"}}
	return w
}

// sharer is a Run that waits for its workspace.
func sharer() *corev1alpha1.Run {
	run := waitingRun()
	run.ObjectMeta = meta("sharer", 10*time.Second)
	run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: "release-build"}
	run.Status.Conditions[0].Reason = corev1alpha1.ReasonWorkspacePodUnavailable
	return run
}

// describeAll runs the command line and returns what it printed.
func describeAll(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stdout bytes.Buffer
	objects := append(append(pods(), events()...), failedRun(), waitingRun(), runningRun(), bash(),
		retriedRun("backoff", true), retriedRun("retried", false))
	objects = append(append(objects, sharedWorkspace(), endingWorkspace(), stuckWorkspace(), sharer()), calledDefinitions()...)
	orphan := waitingRun()
	orphan.ObjectMeta, orphan.Spec.Runtime, orphan.Status = meta("orphan", time.Second), "nope", corev1alpha1.RunStatus{}
	c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(append(objects, orphan)...).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string {
			return []string{string(o.(*corev1.Event).InvolvedObject.UID)}
		}).Build()
	f := &cli.Factory{
		IO: genericiooptions.IOStreams{Out: &stdout, ErrOut: &stdout}, Now: func() time.Time { return noon }, Name: "krt",
		Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil },
	}
	cmd := NewCmd(f, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...)) // nil would mean those of the test binary
	err := cmd.ExecuteContext(t.Context())
	return stdout.String(), err
}

func TestPages(t *testing.T) {
	cases := map[string]struct {
		args   []string
		golden string
	}{
		"a Run that failed":             {args: []string{"run", "failed"}, golden: "run-failed.txt"},
		"a Run that waits":              {args: []string{"run/waiting"}, golden: "run-waiting.txt"},
		"a Run that is being cancelled": {args: []string{"run", "running"}, golden: "run-running.txt"},
		"a Run between two attempts":    {args: []string{"run", "backoff"}, golden: "run-backoff.txt"},
		"a Run in a further attempt":    {args: []string{"run", "retried"}, golden: "run-retried.txt"},
		"a Run of a missing Runtime":    {args: []string{"run", "orphan"}, golden: "run-orphan.txt"},
		"a Runtime in trouble":          {args: []string{"runtime", "bash"}, golden: "runtime.txt"},
		"a workspace":                   {args: []string{"workspace", "release-build"}, golden: "workspace.txt"},
		"a workspace on its way out":    {args: []string{"pws/ending"}, golden: "workspace-ending.txt"},
		"a Workflow":                    {args: []string{"workflow", "release"}, golden: "workflow.txt"},
		"a Workflow that is new":        {args: []string{"workflow", "fresh"}, golden: "workflow-fresh.txt"},
		"an Action":                     {args: []string{"action/setup"}, golden: "action.txt"},
		"an Action that was changed":    {args: []string{"action", "changed"}, golden: "action-changed.txt"},
		"a workspace that stays":        {args: []string{"pws/stuck"}, golden: "workspace-stuck.txt"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := describeAll(t, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, tc.golden, got)
		})
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		args     []string
		want     string
		wantCode int
	}{
		"no name":       {args: []string{"run"}, want: "describe which Run?", wantCode: cli.ExitUsage},
		"no kind":       {want: "what? name a kind", wantCode: cli.ExitUsage},
		"a missing Run": {args: []string{"run", "nope"}, want: `there is no Run "nope" in namespace "team"`, wantCode: cli.ExitFailed},
		"a missing workspace": {args: []string{"workspace", "nope"}, want: `there is no PersistentWorkspace "nope" in namespace "team"`,
			wantCode: cli.ExitFailed},
		"a missing Workflow": {args: []string{"workflow", "nope"}, want: `there is no Workflow "nope" in namespace "team"`, wantCode: cli.ExitFailed},
		"a missing Action":   {args: []string{"action", "nope"}, want: `there is no Action "nope" in namespace "team"`, wantCode: cli.ExitFailed},
		"a missing Runtime":  {args: []string{"runtime", "nope"}, want: `there is no Runtime "nope" in namespace "team"`, wantCode: cli.ExitFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := describeAll(t, tc.args...)
			if err == nil || err.Error() != tc.want || cli.ExitCode(err) != tc.wantCode {
				t.Errorf("error %v with code %d, want %q with %d", err, cli.ExitCode(err), tc.want, tc.wantCode)
			}
		})
	}
}

func TestWhatIsThereIsDescribedBesideWhatIsNot(t *testing.T) {
	got, err := describeAll(t, "run", "nope", "waiting")
	if !strings.HasPrefix(got, "Name:         waiting\n") || cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("printed %q, error %v", got, err)
	}
}
