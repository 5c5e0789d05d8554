//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

// Whatever becomes of the control plane, a step that executes goes on, and those after it follow.
func TestAWorkflowRunGoesOnWhileManagerAndSchedulerAreReplaced(t *testing.T) {
	cases := map[string]func(env *e2e.Env, open func()){
		"as by an upgrade": func(env *e2e.Env, open func()) {
			env.RestartComponent(e2e.Manager)
			env.RestartComponent(e2e.Scheduler)
			open()
		},
		"lost, and the step ends while none is there": func(env *e2e.Env, open func()) {
			for _, component := range []string{e2e.Manager, e2e.Scheduler} {
				for _, pod := range env.SystemPods(component) {
					env.LosePod(&pod)
				}
			}
			open()
		},
	}
	for name, disturb := range cases {
		t.Run(name, func(t *testing.T) {
			env := e2e.New(t)
			env.Runtime("bash")
			gate := env.NewGate("step")
			env.Manifests(fmt.Sprintf(`
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: replaced}
spec:
  jobs:
    first:
      runs-on: bash
      steps: [{name: held, run: %q}, {name: next, run: "test -e file"}]
    second:
      runs-on: bash
      needs: [first]
      steps: [{name: last, run: "true"}]
`, gate.Wait+"touch file"))
			held := env.WaitStep("replaced", "first", "held")
			disturb(env, func() { gate.Open(held.Status.AssignedPod) })
			env.WaitSucceeded("replaced")
			eachSucceeded(t, env, 3, 1)
		})
	}
}

// eachSucceeded checks that there are so many Runs in the namespace, and that all succeeded in so many attempts at most.
func eachSucceeded(t *testing.T, env *e2e.Env, want int, attempts int32) {
	t.Helper()
	var runs corev1alpha1.RunList
	if err := env.Client.List(t.Context(), &runs, client.InNamespace(env.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(runs.Items) != want {
		t.Errorf("there are %d Runs, want %d", len(runs.Items), want)
	}
	for _, run := range runs.Items {
		if run.Status.Phase != corev1alpha1.RunSucceeded || run.Status.Attempt > attempts {
			t.Errorf("Run %s: %s/%s in attempt %d: %s", run.Name, run.Status.Phase, run.Status.Reason, run.Status.Attempt, run.Status.Message)
		}
	}
}

// waitRuns waits until all Runs of the namespace have ended.
func waitRuns(t *testing.T, env *e2e.Env) {
	t.Helper()
	env.Eventually("all Runs have ended", func() string {
		var runs corev1alpha1.RunList
		if err := env.Client.List(t.Context(), &runs, client.InNamespace(env.Namespace)); err != nil {
			return err.Error()
		}
		active := slices.DeleteFunc(runs.Items, func(r corev1alpha1.Run) bool { return r.Status.Phase.IsTerminal() })
		if len(active) == 0 {
			return ""
		}
		return fmt.Sprintf("%d are active, such as %s: %+v", len(active), active[0].Name, active[0].Status)
	})
}

// Runs come all the time while the Pods are replaced. What executes on an old Pod ends there, however long it takes.
func TestARuntimeIsRolledUnderLoad(t *testing.T) {
	t.Parallel()
	const total, changeAt, interval = 40, 8, 250 * time.Millisecond
	env := e2e.New(t)
	runtime := env.Runtime("bash", e2e.WithReplicas(2), e2e.WithGrace(120))
	old := map[string]bool{}
	for _, pod := range env.Pods("bash") {
		old[pod.Name] = true
	}
	gate := env.NewGate("long")
	long := env.WaitPhase(env.Run("bash", gate.Wait), corev1alpha1.RunRunning)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for i := range total {
		env.Run("bash", "sleep 0.5")
		if i == changeAt {
			before := client.MergeFrom(runtime.DeepCopy())
			runtime.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "GENERATION", Value: "2"}}
			if err := env.Client.Patch(t.Context(), runtime, before); err != nil {
				t.Fatal(err)
			}
		}
		<-tick.C
	}
	env.WaitRuntime(runtime)
	env.Eventually("a Run finds what was changed", func() string {
		run := env.WaitRun(env.Run("bash", "echo generation=$GENERATION >>$KRUNTIME_OUTPUTS"))
		if run.Status.Outputs["generation"] == "2" && !old[run.Status.AssignedPod] {
			return ""
		}
		return fmt.Sprintf("%+v", run.Status)
	})
	if env.Refresh(long); long.Status.Phase != corev1alpha1.RunRunning {
		t.Fatalf("the long Run did not go on: %+v", long.Status)
	}
	gate.Open(long.Status.AssignedPod)
	if pod := long.Status.AssignedPod; env.WaitRun(long).Status.AssignedPod != pod || long.Status.Attempt != 1 {
		t.Errorf("the long Run began on %s: %+v", pod, long.Status)
	}
	waitRuns(t, env)
	var runs corev1alpha1.RunList
	if err := env.Client.List(t.Context(), &runs, client.InNamespace(env.Namespace)); err != nil {
		t.Fatal(err)
	}
	eachSucceeded(t, env, max(len(runs.Items), total+2), 3)
	env.Eventually("the old Pods are gone", func() string {
		for _, pod := range env.Pods("bash") {
			if old[pod.Name] {
				return pod.Name
			}
		}
		return ""
	})
}

// A drain of a node evicts Pods: the budget of their owner is heeded, and what executes ends where it is.
func TestEvictedPodsOfARuntimeFinishTheirRuns(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", e2e.WithReplicas(2), e2e.WithGrace(120))
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "bash"}, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1alpha1.LabelRuntime: "bash"}}, MaxUnavailable: ptr.To(intstr.FromInt32(0)),
	}}
	env.Create(budget)
	env.Eventually("the budget is known", func() string {
		if env.Refresh(budget); budget.Status.ObservedGeneration == budget.Generation && budget.Status.CurrentHealthy == 2 {
			return ""
		}
		return fmt.Sprintf("%+v", budget.Status)
	})
	gate := env.NewGate("long")
	long := env.WaitPhase(env.Run("bash", gate.Wait), corev1alpha1.RunRunning)
	pod := env.Pod(long)
	if err := env.Evict(pod); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("with a budget that allows nothing: %v", err)
	}
	if env.Refresh(pod); pod.DeletionTimestamp != nil {
		t.Fatalf("the Pod is being deleted against its budget")
	}
	if err := env.Client.Delete(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	env.Eventually("the Pod is evicted", func() string {
		if err := env.Evict(pod); err != nil {
			return err.Error()
		}
		return ""
	})
	if other := env.WaitRun(env.Run("bash", "true")); other.Status.Phase != corev1alpha1.RunSucceeded || other.Status.AssignedPod == pod.Name {
		t.Errorf("a Run after that, with %s evicted: %+v", pod.Name, other.Status)
	}
	gate.Open(long.Status.AssignedPod)
	if env.WaitRun(long); long.Status.Phase != corev1alpha1.RunSucceeded || long.Status.AssignedPod != pod.Name || long.Status.Attempt != 1 {
		t.Errorf("the Run on the evicted Pod: %+v", long.Status)
	}
	env.WaitGone(pod)
}

// With two replicas and budgets, a drain takes one of each component at a time, and nobody notices.
func TestHighlyAvailableComponentsAreDrainedOneByOne(t *testing.T) {
	env := e2e.New(t)
	env.Finally("", "--namespace="+e2e.SystemNamespace, "delete", "poddisruptionbudget", "--all")
	env.Finally(env.Installation(), "apply", "-f", "-")
	env.ApplyInstallation(env.Installation("high-availability"))
	ready := func(component string) func() string {
		return func() string {
			pods := env.SystemPods(component)
			if len(pods) == 2 && e2e.IsReady(&pods[0]) && e2e.IsReady(&pods[1]) {
				return ""
			}
			return fmt.Sprintf("%d Pods", len(pods))
		}
	}
	env.Eventually("two managers are ready", ready(e2e.Manager))
	env.Eventually("two schedulers are ready", ready(e2e.Scheduler))
	env.Runtime("bash")
	env.Workspace("shared", "bash")
	for _, component := range []string{e2e.Manager, e2e.Scheduler} {
		pods := env.SystemPods(component)
		env.Eventually("one Pod of the "+component+" is evicted", func() string {
			if err := env.Evict(&pods[0]); err != nil {
				return err.Error()
			}
			return ""
		})
		if err := env.Evict(&pods[1]); !apierrors.IsTooManyRequests(err) {
			t.Errorf("evicting the second %s at once: %v", component, err)
		}
		for range 10 {
			if run := env.WaitRun(env.Run("bash", "true", e2e.InWorkspace("shared"))); run.Status.Phase != corev1alpha1.RunSucceeded {
				t.Errorf("a Run meanwhile: %+v", run.Status)
			}
		}
		env.Eventually("two of the "+component+" are ready again", ready(component))
	}
}

// All executions of a Pod die with its runtime server. They are told as lost, and tried again where that is asked for.
func TestARunIsLostWithItsRuntimeServer(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash")
	lost := env.Run("bash", "exec sleep 300")
	retried := env.Run("bash", "[ $KRUNTIME_ATTEMPT = 2 ] || exec sleep 300", func(r *corev1alpha1.Run) {
		r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 2, RetryOn: []corev1alpha1.RunReason{corev1alpha1.RunReasonServerLost}}
	})
	env.WaitPhase(lost, corev1alpha1.RunRunning)
	env.WaitPhase(retried, corev1alpha1.RunRunning)
	env.Kill(env.Pod(lost), corev1alpha1.ContainerRuntime, "runtime-server")
	if env.WaitRun(lost); lost.Status.Phase != corev1alpha1.RunFailed || lost.Status.Reason != corev1alpha1.RunReasonServerLost {
		t.Errorf("the Run ended %+v; want Failed, ServerLost", lost.Status)
	}
	if env.WaitRun(retried); retried.Status.Phase != corev1alpha1.RunSucceeded || retried.Status.Attempt != 2 {
		t.Errorf("the Run that may be tried again ended %+v", retried.Status)
	}
}

// Nothing of a Run needs the kubelet once its Pod is ready.
func TestRunsGoOnWithoutTheKubelet(t *testing.T) {
	env := e2e.New(t)
	cluster := env.Cluster()
	env.Runtime("bash")
	gate := env.NewGate("long")
	long := env.WaitPhase(env.Run("bash", gate.Wait), corev1alpha1.RunRunning)
	again := sync.OnceValue(func() error { return cluster.Again(context.WithoutCancel(t.Context()), "kubelet") })
	t.Cleanup(func() { // also when the test ends before
		if err := again(); err != nil {
			t.Errorf("starting the kubelet: %v", err)
		}
	})
	if err := cluster.Stop(t.Context(), "kubelet"); err != nil {
		t.Fatal(err)
	}
	meanwhile := env.WaitRun(env.Run("bash", "true"))
	if err := again(); err != nil {
		t.Fatal(err)
	}
	if meanwhile.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("a Run without the kubelet: %+v", meanwhile.Status)
	}
	gate.Open(long.Status.AssignedPod)
	if env.WaitRun(long); long.Status.Phase != corev1alpha1.RunSucceeded || long.Status.Attempt != 1 {
		t.Errorf("the Run that executed all the while: %+v", long.Status)
	}
}
