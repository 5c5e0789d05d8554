//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

// restrict creates a quota, waits until it is heeded, and returns how to raise it.
func restrict(t *testing.T, env *e2e.Env, what corev1.ResourceName, hard string) (raise func(hard string)) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}}
	quota.Spec.Hard = corev1.ResourceList{what: resource.MustParse(hard)}
	env.Create(quota)
	env.Eventually("the quota is heeded", func() string {
		if env.Refresh(quota); len(quota.Status.Hard) == 1 {
			return ""
		}
		return fmt.Sprintf("%+v", quota.Status)
	})
	return func(hard string) {
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"hard":{%q:%q}}}`, what, hard))
		if err := env.Client.Patch(t.Context(), quota, patch); err != nil {
			t.Fatal(err)
		}
	}
}

// A quota that is used up makes steps wait, with the quota's own words. None fails, and none is lost.
func TestAWorkflowRunWaitsForAQuotaOfRuns(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash")
	raise := restrict(t, env, "count/runs.kruntimes.io", "1")
	env.Manifests(twoJobs)
	env.WaitWorkflowRunUntil("valid", "says why it waits", func(run *workflowsv1alpha1.WorkflowRun) bool {
		first := run.Status.Jobs["first"]
		return first.Phase == workflowsv1alpha1.JobRunning && strings.Contains(first.Message, "exceeded quota: quota")
	})
	raise("10")
	env.WaitSucceeded("valid")
	eachSucceeded(t, env, 3, 1)
}

// Where a quota holds Pods back, the Runtime says so, its Runs wait, and both go on when it is raised.
func TestARuntimeWaitsForAQuotaOfPods(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	raise := restrict(t, env, corev1.ResourcePods, "0")
	runtime := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Name: "bash"}}
	runtime.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: corev1alpha1.ContainerRuntime, Image: e2e.Setting("BASH_IMAGE"), ImagePullPolicy: corev1.PullIfNotPresent,
	}}
	env.Create(runtime)
	env.Manifests(twoJobs)
	env.Eventually("the Runtime says why it has no Pods", func() string {
		env.Refresh(runtime)
		for _, condition := range runtime.Status.Conditions {
			if condition.Reason == corev1alpha1.ReasonPodsRefused && strings.Contains(condition.Message, "exceeded quota: quota") {
				return ""
			}
		}
		return fmt.Sprintf("%+v", runtime.Status.Conditions)
	})
	if run := env.WorkflowRun("valid"); run.Status.Phase.IsTerminal() {
		t.Errorf("the WorkflowRun did not wait: %s: %s", run.Status.Phase, run.Status.Message)
	}
	raise("2")
	env.WaitRuntime(runtime)
	env.WaitSucceeded("valid")
}
