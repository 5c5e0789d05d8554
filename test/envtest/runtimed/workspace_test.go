package runtimed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/logrecord"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// workspace creates a PersistentWorkspace and binds it to the Pod, as the controller would.
func (n *node) workspace(t *testing.T, name string, change ...func(*workspacesv1alpha1.PersistentWorkspaceStatus)) *workspacesv1alpha1.PersistentWorkspace {
	t.Helper()
	w := &workspacesv1alpha1.PersistentWorkspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name, Finalizers: []string{workspacesv1alpha1.Finalizer}},
		Spec:       workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh"},
	}
	shared.Create(t, w)
	n.change(t, w, append([]func(*workspacesv1alpha1.PersistentWorkspaceStatus){func(s *workspacesv1alpha1.PersistentWorkspaceStatus) {
		s.Phase, s.Runtime = workspacesv1alpha1.WorkspaceBound, "sh"
		s.BoundPod, s.BoundPodUID, s.Path = n.pod.Name, string(n.pod.UID), workspacesv1alpha1.Path(name)
	}}, change...)...)
	return w
}

func (n *node) change(t *testing.T, w *workspacesv1alpha1.PersistentWorkspace, change ...func(*workspacesv1alpha1.PersistentWorkspaceStatus)) {
	t.Helper()
	before := client.MergeFrom(w.DeepCopy())
	for _, c := range change {
		c(&w.Status)
	}
	if err := shared.Admin().Status().Patch(t.Context(), w, before); err != nil {
		t.Fatalf("changing workspace %s: %v", w.Name, err)
	}
}

func released(s *workspacesv1alpha1.PersistentWorkspaceStatus) {
	s.Phase = workspacesv1alpha1.WorkspaceReleased
}

// release deletes a workspace, as the controller and a person together would.
func (n *node) release(t *testing.T, w *workspacesv1alpha1.PersistentWorkspace) {
	t.Helper()
	if err := shared.Admin().Delete(t.Context(), w.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	n.change(t, w, released)
}

func awaitRemoved(t *testing.T, w *workspacesv1alpha1.PersistentWorkspace) {
	t.Helper()
	cluster.Eventually(t, "workspace "+w.Name+" to be gone", func(ctx context.Context) (bool, error) {
		err := shared.Admin().Get(ctx, client.ObjectKeyFromObject(w), w.DeepCopy())
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// inWorkspace is the spec of a Run with an inline script in a workspace.
func inWorkspace(name, text string) corev1alpha1.RunSpec {
	spec := script(text)
	spec.Workspace = &corev1alpha1.WorkspaceReference{Name: name}
	return spec
}

func (n *node) exists(t *testing.T, name string) bool {
	t.Helper()
	_, err := os.Lstat(n.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func (n *node) awaitFile(t *testing.T, name string) {
	t.Helper()
	cluster.Eventually(t, name+" to be there", func(context.Context) (bool, error) { return n.exists(t, name), nil })
}

func TestRunsShareAWorkspace(t *testing.T) {
	n := startNode(t)
	n.workspace(t, "ws")
	first := awaitEnd(t, n.submit(t, "first", inWorkspace("ws", `
		mkdir src; echo code >src/app
		pwd; echo "$KRUNTIME_WORKSPACE"
		echo tests=passed >>"$KRUNTIME_OUTPUTS"
		echo private >"$HOME/x"; echo private >"$TMPDIR/x"
		case "$HOME$TMPDIR" in *persistent*) exit 9;; esac
		[ -x "$0" ] && echo script "$0"`)))
	if diff := cmp.Diff(succeeded(map[string]corev1alpha1.OutputValue{"tests": "passed"}), outcomeOf(first)); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	at := n.path("workspace/persistent/ws")
	want := fmt.Sprintf("%s\n%s\nscript %s/.kruntimes/runs/%s/script\n", at, at, at, first.UID)
	if diff := cmp.Diff(want, text(t, n.records(t, first), logrecord.Stdout)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	second := awaitEnd(t, n.submit(t, "second", inWorkspace("ws", "cat src/app; ls -A .kruntimes/runs | wc -l; rm src/app; echo left >left")))
	if diff := cmp.Diff("code\n1\n", text(t, n.records(t, second), logrecord.Stdout)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	n.awaitClean(t)
	entries, err := os.ReadDir(filepath.Join(at, ".kruntimes/runs"))
	if err != nil || len(entries) > 0 || !n.exists(t, "workspace/persistent/ws/left") {
		t.Errorf("staged: %v (%v)", entries, err)
	}
	alone := awaitEnd(t, n.submit(t, "alone", script("ls -A")))
	if got := text(t, n.records(t, alone), logrecord.Stdout); got != "" {
		t.Errorf("a Run without a workspace sees %q", got)
	}
}

// TestFirstRunsOfAWorkspaceRace starts many Runs in a workspace whose directory does not exist yet.
func TestFirstRunsOfAWorkspaceRace(t *testing.T) {
	n := startNode(t)
	n.workspace(t, "ws")
	var runs []*corev1alpha1.Run
	for i := range 12 {
		runs = append(runs, n.submit(t, fmt.Sprintf("run-%d", i), inWorkspace("ws", "echo >$KRUNTIME_RUN_NAME")))
	}
	for _, run := range runs {
		if diff := cmp.Diff(succeeded(nil), outcomeOf(awaitEnd(t, run))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", run.Name, diff)
		}
		if !n.exists(t, "workspace/persistent/ws/"+run.Name) {
			t.Errorf("the file of %s is missing", run.Name)
		}
	}
}

func TestAWorkspaceThatCannotBeUsedHere(t *testing.T) {
	n := startNode(t)
	other := func(s *workspacesv1alpha1.PersistentWorkspaceStatus) { s.BoundPodUID = "another" }
	n.workspace(t, "of-another-pod", other)
	n.workspace(t, "released", released)
	n.change(t, n.workspace(t, "lost"), func(s *workspacesv1alpha1.PersistentWorkspaceStatus) { s.Phase = workspacesv1alpha1.WorkspaceLost })
	deleting := n.workspace(t, "deleting")
	if err := shared.Admin().Delete(t.Context(), deleting); err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{
		"missing": "does not exist any more", "of-another-pod": "is not bound to this Pod", "released": "is being deleted",
		"lost": "is lost", "deleting": "is being deleted",
	} {
		run := awaitHandedBack(t, n.submit(t, "in-"+name, appendingIn(name, n.path("executed"))))
		want := outcome{Phase: corev1alpha1.RunPending, Reason: corev1alpha1.RunReasonWorkspaceUnavailable,
			Message: fmt.Sprintf("PersistentWorkspace %q %s", name, why)}
		if diff := cmp.Diff(want, outcomeOf(run)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if next := run.Status.NextAttemptTime; run.Status.Attempt != 2 || run.Status.AssignedPod != "" || next == nil {
			t.Errorf("%s: attempt %d on Pod %q, not before %v", name, run.Status.Attempt, run.Status.AssignedPod, next)
		}
	}
	if got := executions(t, n.path("executed")); len(got) > 0 || n.exists(t, "workspace/persistent") {
		t.Errorf("executed: %v", got)
	}
}

// awaitHandedBack waits until a Run is Pending again.
func awaitHandedBack(t *testing.T, run *corev1alpha1.Run) *corev1alpha1.Run {
	t.Helper()
	return await(t, run, "handed back", func(r *corev1alpha1.Run) bool {
		return r.Status.Phase == corev1alpha1.RunPending && r.Status.Attempt > 1
	})
}

func appendingIn(workspace, file string) corev1alpha1.RunSpec {
	spec := appending(file, "true")
	spec.Workspace = &corev1alpha1.WorkspaceReference{Name: workspace}
	return spec
}

// TestALinkAtThePlaceOfStaging plants one: nothing is staged elsewhere, and the message says what to do.
func TestALinkAtThePlaceOfStaging(t *testing.T) {
	n := startNode(t)
	n.workspace(t, "ws")
	planting := awaitEnd(t, n.submit(t, "plants", inWorkspace("ws", "mv .kruntimes moved; ln -s ../victim .kruntimes; mkdir ../victim")))
	if planting.Status.Phase != corev1alpha1.RunFailed && planting.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("got %s", planting.Status.Phase)
	}
	run := awaitEnd(t, n.submit(t, "follows", inWorkspace("ws", "true")))
	if run.Status.Reason != corev1alpha1.RunReasonStagingFailed || !strings.Contains(run.Status.Message, ".kruntimes") {
		t.Errorf("got %s: %s", run.Status.Reason, run.Status.Message)
	}
	if left, err := os.ReadDir(n.path("workspace/persistent/victim")); err != nil || len(left) > 0 {
		t.Errorf("staged elsewhere: %v (%v)", left, err)
	}
}

// TestADeletedWorkspaceIsRemoved expects the directory to go first, and not before the last Run in it has ended.
func TestADeletedWorkspaceIsRemoved(t *testing.T) {
	n := startNode(t)
	w := n.workspace(t, "ws")
	n.workspace(t, "other")
	awaitEnd(t, n.submit(t, "elsewhere", inWorkspace("other", "echo >kept")))
	awaitEnd(t, n.submit(t, "fills", inWorkspace("ws", "mkdir -p a/b; echo >a/b/c; mkfifo pipe; ln -s ../other link; chmod 0500 a/b; chmod 0 a")))
	active := n.submit(t, "active", inWorkspace("ws", "mkfifo gate; read x <gate"))
	n.awaitFile(t, "workspace/persistent/ws/gate")
	n.release(t, w)
	after := awaitHandedBack(t, n.submit(t, "late", inWorkspace("ws", "true")))
	if after.Status.Reason != corev1alpha1.RunReasonWorkspaceUnavailable {
		t.Errorf("a Run that came late: %s %s", after.Status.Reason, after.Status.Message)
	}
	if !n.exists(t, "workspace/persistent/ws/gate") {
		t.Fatal("the directory went while a Run was in it")
	}
	n.write(t, "workspace/persistent/ws/gate", "go\n")
	if diff := cmp.Diff(succeeded(nil), outcomeOf(awaitEnd(t, active))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	awaitRemoved(t, w)
	if n.exists(t, "workspace/persistent/ws") || !n.exists(t, "workspace/persistent/other/kept") {
		t.Error("too little or too much was removed")
	}
	n.workspace(t, "ws")
	if run := awaitEnd(t, n.submit(t, "successor", inWorkspace("ws", "[ ! -e a ]"))); run.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("a successor of the name: %s %s", run.Status.Phase, run.Status.Message)
	}
}

// TestARemovalGoesOnAfterAKill deletes a workspace while runtimed is away, and in the middle of its work.
func TestARemovalGoesOnAfterAKill(t *testing.T) {
	n := startNode(t)
	w, mid := n.workspace(t, "ws"), n.workspace(t, "mid")
	awaitEnd(t, n.submit(t, "fills", inWorkspace("ws", "echo >file")))
	awaitEnd(t, n.submit(t, "fills-too", inWorkspace("mid", "echo >file")))
	n.runtimed.kill(t)
	if err := os.RemoveAll(n.path("workspace/persistent/mid")); err != nil { // as if it had come that far
		t.Fatal(err)
	}
	n.release(t, w)
	n.release(t, mid)
	n.startRuntimed(t)
	awaitRemoved(t, w)
	awaitRemoved(t, mid)
	if n.exists(t, "workspace/persistent/ws") {
		t.Error("the directory is left")
	}
}

// TestATakeoverInAWorkspace kills runtimed while Runs execute in a workspace; one of them is gone when it is back.
func TestATakeoverInAWorkspace(t *testing.T) {
	n := startNode(t)
	n.workspace(t, "ws")
	run := n.submit(t, "run", inWorkspace("ws", "mkfifo gate; echo a=b >>$KRUNTIME_OUTPUTS; read x <gate; echo c=d >>$KRUNTIME_OUTPUTS"))
	gone := n.submit(t, "gone", inWorkspace("ws", "exec sleep 300"))
	n.awaitFile(t, "workspace/persistent/ws/gate")
	awaitPhase(t, gone, corev1alpha1.RunRunning)
	n.runtimed.kill(t)
	if err := shared.Admin().Delete(t.Context(), gone, client.GracePeriodSeconds(0), client.Preconditions{UID: ptr.To(gone.UID)}); err != nil {
		t.Fatal(err)
	}
	n.startRuntimed(t)
	n.awaitReady(t)
	n.write(t, "workspace/persistent/ws/gate", "go\n")
	want := succeeded(map[string]corev1alpha1.OutputValue{"a": "b", "c": "d"})
	if diff := cmp.Diff(want, outcomeOf(awaitEnd(t, run))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	n.awaitClean(t)
	cluster.Eventually(t, "what was staged to be removed", func(context.Context) (bool, error) {
		entries, err := os.ReadDir(n.path("workspace/persistent/ws/.kruntimes/runs"))
		return len(entries) == 0, err
	})
}

// TestRunsTakeRightsAndMoveDirectories has Runs without a workspace do to the directory of all workspaces what they may:
// deletions come to their end, Runs in workspaces execute, or fail with what is in their way.
func TestRunsTakeRightsAndMoveDirectories(t *testing.T) {
	n := startNode(t)
	long := strings.Repeat("n", 253)
	w, other := n.workspace(t, long), n.workspace(t, "other")
	persistent := n.path("workspace/persistent")
	awaitEnd(t, n.submit(t, "fills", inWorkspace(long, "echo >kept")))
	awaitEnd(t, n.submit(t, "denies", script("chmod 000 "+persistent+"/* "+persistent)))
	if diff := cmp.Diff(succeeded(nil), outcomeOf(awaitEnd(t, n.submit(t, "finds", inWorkspace(long, "[ -e kept ]"))))); diff != "" {
		t.Errorf("in a workspace without rights (-want +got):\n%s", diff)
	}
	awaitEnd(t, n.submit(t, "denies-again", script("chmod 000 "+persistent+"/* "+persistent)))
	n.release(t, w)
	awaitRemoved(t, w)
	if n.exists(t, "workspace/persistent/"+long) {
		t.Error("the directory is left")
	}
	awaitEnd(t, n.submit(t, "moves", script("mv "+persistent+" "+persistent+"-moved; ln -s persistent-moved "+persistent)))
	run := awaitEnd(t, n.submit(t, "follows", inWorkspace("other", "true")))
	if want := "preparing workspace other: persistent: it is no directory, but a symbolic link: remove it"; run.Status.Message != want {
		t.Errorf("got %s: %s", run.Status.Reason, run.Status.Message)
	}
	n.release(t, other)
	awaitRemoved(t, other)
}
