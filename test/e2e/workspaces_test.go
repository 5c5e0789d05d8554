//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

// directories returns the names of the directories of workspaces on the first Pod of a Runtime, as its container sees them.
func directories(t *testing.T, env *e2e.Env, runtime string) []string {
	t.Helper()
	result := env.Exec(env.Pods(runtime)[0].Name, "runtime", "ls", "/workspace/persistent")
	if result.Code != 0 {
		t.Fatalf("listing the directories of workspaces: %s", result.Stderr)
	}
	return strings.Fields(result.Stdout)
}

func TestAWorkspaceAndItsFilesEndAsItsPolicySays(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", e2e.WithGrace(15))
	unusedForASecond := func(spec *workspacesv1alpha1.PersistentWorkspaceSpec) { spec.TTLSecondsAfterUnused = ptr.To[int32](1) }
	retained, deleted := env.Workspace("retained", "bash", unusedForASecond), env.Workspace("deleted", "bash")
	expired := env.Workspace("expired", "bash", unusedForASecond)
	for _, workspace := range []string{"retained", "deleted", "expired"} {
		succeeds(t, env, "bash", "mkdir -p deep/er; echo kept >deep/er/file; chmod 500 deep\n", e2e.InWorkspace(workspace))
	}
	env.Kubectl("patch", "pws/expired", "--type=merge", `--patch={"spec":{"cleanupPolicy":"DeleteAfterTTL"}}`)
	env.WaitGone(expired)
	if diff := cmp.Diff([]string{"deleted", "retained"}, directories(t, env, "bash")); diff != "" {
		t.Errorf("directories after the one's time (-want +got):\n%s", diff)
	}
	if err := env.Client.Delete(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	env.WaitGone(deleted)
	if diff := cmp.Diff([]string{"retained"}, directories(t, env, "bash")); diff != "" {
		t.Errorf("directories after the other's deletion (-want +got):\n%s", diff)
	}
	succeeds(t, env, "bash", "[ \"$(cat deep/er/file)\" = kept ]\n", e2e.InWorkspace("retained"))
	if err := env.Client.Delete(t.Context(), retained); err != nil {
		t.Fatal(err)
	}
	env.WaitGone(retained)
	if left := directories(t, env, "bash"); len(left) != 0 {
		t.Errorf("directories after the last one's deletion: %v", left)
	}
}

// On a claim the bytes of a lost workspace outlive the Pod: whoever gets the name next must not see them.
func TestWorkspacesOfALostPodDoNotHang(t *testing.T) {
	t.Parallel()
	volumes := e2e.NewVolumes(t)
	env := e2e.New(t)
	volumes.Claim(env, "work")
	env.Runtime("bash", withClaim("work"), e2e.WithGrace(15))
	ending, kept := env.Workspace("ending", "bash"), env.Workspace("kept", "bash")
	succeeds(t, env, "bash", "echo old >file\n", e2e.InWorkspace("kept"))
	run := env.Run("bash", "echo old >file; exec sleep 600\n", e2e.InWorkspace("ending"))
	env.WaitPhase(run, corev1alpha1.RunRunning)
	if err := env.Client.Delete(t.Context(), ending); err != nil {
		t.Fatal(err)
	}
	// It is not gone: the Run in it has not ended.
	env.WaitWorkspace(ending, workspacesv1alpha1.WorkspaceReleased)
	losePod(t, env, env.Pod(run))
	env.WaitGone(ending)
	if env.WaitRun(run); run.Status.Reason != corev1alpha1.RunReasonRuntimePodLost {
		t.Errorf("the Run ended %s %s", run.Status.Phase, run.Status.Reason)
	}
	env.WaitWorkspace(kept, workspacesv1alpha1.WorkspaceLost)
	waits := env.Run("bash", "true\n", e2e.InWorkspace("kept"))
	env.Eventually("the Run waits for the lost workspace", func() string {
		env.Refresh(waits)
		condition := meta.FindStatusCondition(waits.Status.Conditions, corev1alpha1.RunConditionScheduled)
		if condition != nil && condition.Reason == corev1alpha1.ReasonWorkspaceLost {
			return ""
		}
		return waits.Status.Message
	})
	if err := env.Client.Delete(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	env.WaitGone(kept)
	env.Workspace("ending", "bash")
	succeeds(t, env, "bash", "[ ! -e file ]\n", e2e.InWorkspace("ending"))
}
