//go:build e2e

package e2e_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

// judgedWithin is how long it may take from the API server's knowing of the end of a Pod to the verdict on its Runs.
const judgedWithin = 10 * time.Second

func TestRunsOfALostPodAreJudgedOrTriedAgain(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", e2e.WithGrace(15))
	reasons := []corev1alpha1.RunReason{corev1alpha1.RunReasonRuntimePodLost}
	if e2e.Setting("CLUSTER") == "" {
		reasons = append(reasons, corev1alpha1.RunReasonPodTerminated)
	}
	once := env.Run("bash", "exec sleep 600\n")
	again := env.Run("bash", "[ $KRUNTIME_ATTEMPT = 2 ] || exec sleep 600\n", func(r *corev1alpha1.Run) {
		r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 2, RetryOn: reasons}
	})
	env.WaitPhase(once, corev1alpha1.RunRunning)
	env.WaitPhase(again, corev1alpha1.RunRunning)
	pod := env.Pod(once)
	lost := serverTime(t, env)
	losePod(t, env, pod)
	expectJudged(t, env, lost, once, again)
	if once.Status.Phase != corev1alpha1.RunFailed || !slices.Contains(reasons, once.Status.Reason) {
		t.Errorf("the Run without a policy: %+v", once.Status)
	}
	env.WaitRun(again)
	if again.Status.Phase != corev1alpha1.RunSucceeded || again.Status.Attempt != 2 {
		t.Errorf("the Run with a policy: %+v", again.Status)
	}
}

// serverTime is what the clock of the API server says, in whole seconds, as in all that it stores.
func serverTime(t *testing.T, env *e2e.Env) time.Time {
	t.Helper()
	unstored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "time"}}
	if err := env.Client.Create(t.Context(), unstored, client.DryRunAll); err != nil {
		t.Fatalf("asking for the time: %v", err)
	}
	return unstored.CreationTimestamp.Time
}

// expectJudged waits until once has ended, and again has been handed back, and fails the test where the cluster's own clocks say that
// either of them was judged too late after the API server knew. When the test gets to see it, or a Pod is free, has no say in this.
func expectJudged(t *testing.T, env *e2e.Env, known time.Time, once, again *corev1alpha1.Run) {
	t.Helper()
	env.WaitRun(once)
	env.WaitEvent(again, "Normal "+corev1alpha1.EventRetrying+" ")
	verdicts := map[string]time.Time{"the end of the Run": once.Status.CompletionTime.Time}
	var all corev1.EventList
	if err := env.Client.List(t.Context(), &all, client.InNamespace(env.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, event := range all.Items {
		if event.InvolvedObject.UID == again.UID && event.Reason == corev1alpha1.EventRetrying {
			verdicts["the next attempt of the other"] = event.EventTime.Time // it may be stored later
		}
	}
	for what, at := range verdicts {
		took := at.Sub(known)
		t.Logf("%s was told %s after the end of the Pod", what, took)
		if took > judgedWithin+time.Second { // for the fraction that known lacks
			t.Errorf("%s was told %s after the end of the Pod, want %s at most", what, took, judgedWithin)
		}
	}
}

// losePod deletes a Pod without grace. Where it is in reach runtimed is frozen before, as when its node has died; else it hears
// of its end from the kubelet, and with luck is the first to tell of its Runs.
func losePod(t *testing.T, env *e2e.Env, pod *corev1.Pod) {
	t.Helper()
	if e2e.Setting("CLUSTER") != "" {
		freeze(t, env, pod)
	}
	env.LosePod(pod)
}

// freeze stops runtimed of a Pod without its noticing.
func freeze(t *testing.T, env *e2e.Env, pod *corev1.Pod) {
	t.Helper()
	processes := env.Processes(pod, corev1alpha1.ContainerRuntimed)
	if len(processes) == 0 {
		t.Fatal("runtimed has no process")
	}
	for pid := range processes {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatalf("freezing runtimed: %v", err)
		}
	}
}

// Where the kernel's out-of-memory killer takes a whole container, as with cgroups v2 it does by default, no Run of the Pod
// outlives it; with v1 it takes the process that wants too much.
func TestARunThatTakesTooMuchMemoryIsTold(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", e2e.WithGrace(15), func(r *corev1alpha1.Runtime) {
		r.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("96Mi")}
	})
	gate := env.NewGate("other")
	other := env.Run("bash", gate.Wait)
	env.WaitPhase(other, corev1alpha1.RunRunning)
	pod := env.Pod(other)
	groups := env.Exec(pod.Name, "runtime", "stat", "--file-system", "--format=%T", "/sys/fs/cgroup")
	greedy := env.WaitRun(env.Run("bash", "head -c 500M /dev/zero | tail -c 400M >/dev/null\n"))
	if strings.TrimSpace(groups.Stdout) == "cgroup2fs" && greedy.Status.Reason == corev1alpha1.RunReasonServerLost {
		env.Eventually("the kubelet says how the container ended", func() string {
			env.Refresh(pod)
			at := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "runtime" })
			status := pod.Status.ContainerStatuses[at]
			if last := cmp.Or(status.State.Terminated, status.LastTerminationState.Terminated); last == nil || last.Reason != "OOMKilled" {
				return fmt.Sprintf("its status is %+v", status)
			}
			return ""
		})
		if env.WaitRun(other); other.Status.Reason != corev1alpha1.RunReasonServerLost {
			t.Errorf("the other Run ended %s %s", other.Status.Phase, other.Status.Reason)
		}
		return
	}
	if greedy.Status.Reason != corev1alpha1.RunReasonOOMKilled || greedy.Status.ExitCode == nil || *greedy.Status.ExitCode != 137 {
		t.Errorf("with cgroups on %s the Run ended %+v", groups.Stdout, greedy.Status)
	}
	gate.Open(pod.Name)
	if env.WaitRun(other); other.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("the other Run of the Pod ended %s %s", other.Status.Phase, other.Status.Reason)
	}
}

// A volume in memory is as large as it was asked for, whatever the node is like.
func TestAFullWorkspaceVolumeHarmsItsUsersOnly(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", withEmptyDir(corev1.StorageMediumMemory, "4Mi"), e2e.WithGrace(15))
	full := env.Workspace("full", "bash")
	const more = "head -c 1M /dev/zero >another\n"
	for _, tc := range []struct {
		script string
		reason corev1alpha1.RunReason
	}{
		// It leaves room for the script of the next, which leaves none for so long a script as the last one.
		{"head -c 16M /dev/zero >file || { truncate --size=-64K file; exit 1; }\n", corev1alpha1.RunReasonScriptFailed},
		{more, corev1alpha1.RunReasonScriptFailed},
		{"#" + strings.Repeat(" long", 20<<10) + "\n" + more, corev1alpha1.RunReasonStagingFailed},
	} {
		writer := env.WaitRun(env.Run("bash", tc.script, e2e.InWorkspace("full")))
		if writer.Status.Reason != tc.reason || !strings.Contains(strings.ToLower(writer.Status.Message), "no space left on device") {
			t.Errorf("the Run of %.40q ended %s %s: %s", tc.script, writer.Status.Phase, writer.Status.Reason, writer.Status.Message)
		}
	}
	succeeds(t, env, "bash", "head -c 1M /dev/zero >elsewhere\n")
	if err := env.Client.Delete(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	env.WaitGone(full)
	env.Workspace("empty", "bash")
	succeeds(t, env, "bash", "head -c 1M /dev/zero >file\n", e2e.InWorkspace("empty"))
}

// daemons leaves its process group, session and parent in all the ways there are.
const daemons = `setsid sleep 98761 >/dev/null 2>&1 &
( setsid bash -c 'trap "" TERM HUP; (sleep 98762; sleep 98763) & disown' >/dev/null 2>&1 & )
nohup sleep 98764 >/dev/null 2>&1 &
`

func TestNothingSurvivesItsExecution(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Cluster()
	env.Runtime("bash", e2e.WithGrace(15))
	gate := env.NewGate("end")
	cases := map[string]struct {
		script string
		end    func(*corev1alpha1.Run)
		want   corev1alpha1.RunPhase
	}{
		"the script ends": {
			daemons + gate.Wait, func(r *corev1alpha1.Run) { gate.Open(r.Status.AssignedPod) }, corev1alpha1.RunSucceeded,
		},
		"it is cancelled": {
			daemons + "exec sleep 600\n", func(r *corev1alpha1.Run) { env.Krt("cancel", r.Name) }, corev1alpha1.RunCancelled,
		},
	}
	for name, tc := range cases {
		run := env.Run("bash", tc.script)
		env.WaitPhase(run, corev1alpha1.RunRunning)
		pod := env.Pod(run)
		env.Eventually("the daemons are there", func() string {
			if got := sleepers(env, pod); len(got) != 3 {
				return fmt.Sprintf("%v", got)
			}
			return ""
		})
		tc.end(run)
		if env.WaitRun(run); run.Status.Phase != tc.want {
			t.Errorf("%s: the Run ended %s %s", name, run.Status.Phase, run.Status.Message)
		}
		if left := sleepers(env, pod); len(left) > 0 {
			t.Errorf("%s: still there after the end: %v", name, left)
		}
	}
}

// sleepers are the daemons of a Pod that run.
func sleepers(env *e2e.Env, pod *corev1.Pod) []string {
	var lines []string
	for _, line := range env.Processes(pod, corev1alpha1.ContainerRuntime) {
		if strings.HasPrefix(line, "sleep 9876") {
			lines = append(lines, line)
		}
	}
	return lines
}
