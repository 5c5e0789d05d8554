package get

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// run is a Run of the namespace team, as old as said.
func run(name string, age time.Duration, status corev1alpha1.RunStatus) *corev1alpha1.Run {
	return &corev1alpha1.Run{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", CreationTimestamp: metav1.NewTime(noon.Add(-age))},
		Spec:       corev1alpha1.RunSpec{Runtime: "bash"}, Status: status,
	}
}

// objects are one Run of each sort, three Runtimes, and workspaces.
func objects() []client.Object {
	cancelling := run("cancelling", 10*time.Second, corev1alpha1.RunStatus{Phase: corev1alpha1.RunRunning, Attempt: 1, AssignedPod: "bash-1",
		ScheduledTime: micro(-9 * time.Second), StartTime: micro(-8500 * time.Millisecond)})
	cancelling.Spec.CancelRequested = true
	elsewhere := run("elsewhere", time.Hour, corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending})
	elsewhere.Namespace, elsewhere.Labels = "other", map[string]string{"team": "data"}
	retried := run("retried", time.Minute, corev1alpha1.RunStatus{Phase: corev1alpha1.RunRunning, Attempt: 2, AssignedPod: "bash-2", Reason: corev1alpha1.RunReasonScriptFailed,
		Message: "Exit code 3", ExitCode: ptr.To[int32](3), ScheduledTime: micro(-9 * time.Second), StartTime: micro(-8 * time.Second)})
	retried.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 3}
	return append(workspaces(), []client.Object{
		retried, run("succeeded", 26*time.Hour, corev1alpha1.RunStatus{Phase: corev1alpha1.RunSucceeded, ExitCode: ptr.To[int32](0), Attempt: 1, AssignedPod: "bash-1",
			ScheduledTime: micro(-26*time.Hour + 20*time.Millisecond), StartTime: micro(-26 * time.Hour), CompletionTime: micro(-26*time.Hour + 120*time.Millisecond)}),
		run("failed", 3*time.Hour, corev1alpha1.RunStatus{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonScriptFailed, ExitCode: ptr.To[int32](3), Attempt: 2,
			AssignedPod: "bash-2", Message: "cannot open x\n\x1b[31mred\x1b[0m", ScheduledTime: micro(-2 * time.Hour), StartTime: micro(-2 * time.Hour), CompletionTime: micro(-2*time.Hour + 83*time.Second)}),
		run("lost", 2*time.Hour, corev1alpha1.RunStatus{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonRuntimePodLost, AssignedPod: "bash-3", Attempt: 1,
			ScheduledTime: micro(-2 * time.Hour), CompletionTime: micro(-time.Hour)}),
		run("waiting", time.Minute, corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Conditions: []metav1.Condition{{
			Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionFalse, Reason: corev1alpha1.ReasonNoReadyPods, Message: "Runtime bash has 2 Pods, none is ready"}}}),
		run("new", 0, corev1alpha1.RunStatus{}),
		cancelling, elsewhere,
		&corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Name: "bash", Namespace: "team", CreationTimestamp: metav1.NewTime(noon.Add(-48 * time.Hour))},
			Spec: corev1alpha1.RuntimeSpec{Replicas: ptr.To[int32](2), Capacity: corev1.ResourceList{"runs": resource.MustParse("4")}, Interpreter: []string{"/bin/bash", "-e"},
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runtime", Image: "bash:5"}}}}},
			Status: corev1alpha1.RuntimeStatus{ReadyReplicas: 2, Conditions: []metav1.Condition{{Type: corev1alpha1.RuntimeConditionAvailable, Status: metav1.ConditionTrue, Reason: corev1alpha1.ReasonPodsReady}}}},
		&corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Name: "broken", Namespace: "team", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
			Spec: corev1alpha1.RuntimeSpec{Capacity: corev1.ResourceList{"runs": resource.MustParse("1")}, Interpreter: []string{"python3"},
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runtime", Image: "pyhton:3"}}}}},
			Status: corev1alpha1.RuntimeStatus{Conditions: []metav1.Condition{{Type: corev1alpha1.RuntimeConditionAvailable, Status: metav1.ConditionFalse,
				Reason: corev1alpha1.ReasonPodsFailing, Message: "runtime: ImagePullBackOff: pyhton:3 not found"}}}},
		&corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Name: "unseen", Namespace: "team", CreationTimestamp: metav1.NewTime(noon)}},
	}...)
}

// workspaces are one PersistentWorkspace of each sort.
func workspaces() []client.Object {
	workspace := func(name string, age time.Duration, status workspacesv1alpha1.PersistentWorkspaceStatus, available metav1.Condition) *workspacesv1alpha1.PersistentWorkspace {
		if available.Type = workspacesv1alpha1.WorkspaceConditionAvailable; available.Status != "" {
			status.Conditions = []metav1.Condition{available}
		}
		return &workspacesv1alpha1.PersistentWorkspace{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", CreationTimestamp: metav1.NewTime(noon.Add(-age))},
			Spec:       workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "bash", CleanupPolicy: workspacesv1alpha1.CleanupRetain}, Status: status,
		}
	}
	shared := workspace("shared", 3*time.Hour, workspacesv1alpha1.PersistentWorkspaceStatus{Phase: "Bound", BoundPod: "bash-1", LastUsedTime: &metav1.Time{Time: noon.Add(-time.Minute)}},
		metav1.Condition{Status: "True", Reason: workspacesv1alpha1.ReasonPodReady})
	shared.Spec.CleanupPolicy, shared.Spec.TTLSecondsAfterUnused = workspacesv1alpha1.CleanupDeleteAfterTTL, ptr.To[int32](5400)
	ending := workspace("ending", 2*time.Hour, workspacesv1alpha1.PersistentWorkspaceStatus{Phase: "Released", BoundPod: "bash-1"},
		metav1.Condition{Status: "False", Reason: workspacesv1alpha1.ReasonReleased})
	ending.DeletionTimestamp, ending.Finalizers = &metav1.Time{Time: noon}, []string{workspacesv1alpha1.Finalizer}
	return []client.Object{
		shared, ending, workspace("just-made", 0, workspacesv1alpha1.PersistentWorkspaceStatus{}, metav1.Condition{}),
		workspace("waiting", time.Minute, workspacesv1alpha1.PersistentWorkspaceStatus{Phase: "Pending"},
			metav1.Condition{Status: "False", Reason: workspacesv1alpha1.ReasonNoReadyPods, Message: "Runtime bash has no ready Pod"}),
		workspace("lost", time.Hour, workspacesv1alpha1.PersistentWorkspaceStatus{Phase: "Lost", BoundPod: "bash-3"},
			metav1.Condition{Status: "False", Reason: workspacesv1alpha1.ReasonPodLost, Message: "Pod bash-3 is gone\n\x1b[31mred"}),
	}
}

// get runs the command line and returns what it printed.
func get(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(objects()...).Build()
	f := &cli.Factory{
		IO: genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}, Now: func() time.Time { return noon }, Name: "krt",
		Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil },
	}
	cmd := NewCmd(f, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...)) // nil would mean those of the test binary
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestTables(t *testing.T) {
	cases := map[string]struct {
		args   []string
		golden string
	}{
		"runs":                      {args: []string{"runs"}, golden: "runs.txt"},
		"runs, wide":                {args: []string{"runs", "-o", "wide"}, golden: "runs-wide.txt"},
		"runs of all namespaces":    {args: []string{"run", "-A"}, golden: "runs-all-namespaces.txt"},
		"runs, with labels":         {args: []string{"runs", "-A", "--show-labels", "-l", "team=data"}, golden: "runs-labels.txt"},
		"runs, in another order":    {args: []string{"runs", "--sort-by", ".status.startTime", "-o", "name"}, golden: "runs-sorted.txt"},
		"runtimes":                  {args: []string{"runtimes"}, golden: "runtimes.txt"},
		"runtimes, wide":            {args: []string{"runtime", "-o", "wide"}, golden: "runtimes-wide.txt"},
		"workspaces":                {args: []string{"workspaces"}, golden: "workspaces.txt"},
		"workspaces, wide":          {args: []string{"pws", "-o", "wide", "-A"}, golden: "workspaces-wide.txt"},
		"workspaces by other words": {args: []string{"persistentworkspaces.workspaces.kruntimes.io", "shared", "-o", "name"}, golden: "workspaces-names.txt"},
		"both kinds":                {args: []string{"runtimes,runs", "bash", "failed"}, golden: "both.txt"},
		"named, without the header": {args: []string{"run/failed", "runtime/bash", "--no-headers"}, golden: "named.txt"},
		"names":                     {args: []string{"runs,runtimes", "-o", "name"}, golden: "names.txt"},
		"one value":                 {args: []string{"run", "failed", "-o", "jsonpath={.status.exitCode}"}, golden: "jsonpath.txt"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, _, err := get(t, tc.args...)
			if err != nil && tc.golden != "both.txt" {
				t.Fatal(err)
			}
			golden.Check(t, tc.golden, out)
		})
	}
}

func TestJSONIsAListUnlessOneIsNamed(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"all":          {args: []string{"runs", "-o", "json"}, want: "List"},
		"none":         {args: []string{"runs", "-l", "a=b", "-o", "json"}, want: "List"},
		"one by name":  {args: []string{"run", "failed", "-o", "json"}, want: "Run"},
		"two by names": {args: []string{"run", "failed", "lost", "-o", "json"}, want: "List"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, _, err := get(t, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			var object struct {
				Kind string `json:"kind"`
			}
			if err := json.Unmarshal([]byte(out), &object); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if object.Kind != tc.want {
				t.Errorf("kind %s, want %s", object.Kind, tc.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		args     []string
		want     string
		wantCode int
	}{
		"no kind":                 {want: "what? name a kind", wantCode: cli.ExitUsage},
		"an unknown kind":         {args: []string{"pods"}, want: `there is no kind "pods"`, wantCode: cli.ExitUsage},
		"a name that is none":     {args: []string{"run", "nope"}, want: `there is no Run "nope" in namespace "team"`, wantCode: cli.ExitFailed},
		"names and -A":            {args: []string{"run", "x", "-A"}, want: "a name belongs to one namespace: give names or -A, not both", wantCode: cli.ExitUsage},
		"names and a selector":    {args: []string{"run", "x", "-l", "a=b"}, want: "give names or a selector, not both", wantCode: cli.ExitUsage},
		"a selector that is none": {args: []string{"runs", "-l", "a=b=c"}, want: "--selector a=b=c: found '=', expected: ',' or 'end of string'", wantCode: cli.ExitUsage},
		"a watch of two kinds":    {args: []string{"runs,runtimes", "-w"}, want: "-w watches one kind, or one object", wantCode: cli.ExitUsage},
		"a watch in an order":     {args: []string{"runs", "-w", "--sort-by", ".a"}, want: "-w shows changes as they come: --sort-by cannot order them", wantCode: cli.ExitUsage},
		"an order that is none":   {args: []string{"runs", "--sort-by", "{.a"}, want: "--sort-by {.a: unclosed action", wantCode: cli.ExitUsage},
		"two ways of naming":      {args: []string{"run/a", "b"}, want: `"b": write either KIND NAME... or KIND/NAME..., not both`, wantCode: cli.ExitUsage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := get(t, tc.args...)
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if code := cli.ExitCode(err); code != tc.wantCode {
				t.Errorf("exit code %d, want %d", code, tc.wantCode)
			}
		})
	}
}

func TestWhatIsThereIsShownBesideWhatIsNot(t *testing.T) {
	out, _, err := get(t, "run", "nope", "failed", "-o", "name")
	if out != "run.kruntimes.io/failed\n" || cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("printed %q, error %v", out, err)
	}
}

func TestNothingIsSaidOnStderr(t *testing.T) {
	out, errOut, err := get(t, "runs", "-l", "no=such")
	if err != nil || out != "" || errOut != "No Run matches in namespace \"team\".\n" {
		t.Errorf("stdout %q, stderr %q, error %v", out, errOut, err)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(objects()...).Build()
	f := &cli.Factory{
		IO: genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}, Now: func() time.Time { cancel(); return noon }, Name: "krt",
		Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil },
	}
	cmd := NewCmd(f, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"run", "failed", "-w"})
	if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	golden.Check(t, "watch.txt", stdout.String())
}
