//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

// inShared is a Run in the workspace "shared".
func inShared(env *e2e.Env) *corev1alpha1.Run {
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, GenerateName: "shared-"}}
	run.Spec.Runtime, run.Spec.Source = "bash", &corev1alpha1.RunSource{Inline: "true"}
	run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: "shared"}
	return run
}

// circular is a WorkflowRun that the schema takes, and nobody can execute.
func circular(env *e2e.Env, name string) *workflowsv1alpha1.WorkflowRun {
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}}
	steps := []workflowsv1alpha1.Step{{Name: "step", Run: "true"}}
	run.Spec.Jobs = map[string]workflowsv1alpha1.Job{
		"egg":     {RunsOn: "bash", Steps: steps, Needs: []string{"chicken"}},
		"chicken": {RunsOn: "bash", Steps: steps, Needs: []string{"egg"}},
	}
	return run
}

// waitAdmission waits until Runs with a workspace are admitted, or are not.
func waitAdmission(t *testing.T, env *e2e.Env, want bool) (refusal error) {
	t.Helper()
	env.Eventually(fmt.Sprintf("Runs with a workspace are admitted: %t", want), func() string {
		refusal = env.Client.Create(t.Context(), inShared(env), client.DryRunAll)
		if (refusal == nil) == want {
			return ""
		}
		return fmt.Sprint(refusal)
	})
	return refusal
}

// twoJobs is a WorkflowRun that anybody can execute.
const twoJobs = `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: valid}
spec:
  jobs:
    first: {runs-on: bash, steps: [{name: write, run: "touch file"}, {name: read, run: "test -e file"}]}
    second: {runs-on: bash, needs: [first], steps: [{name: step, run: "true"}]}
`

// Without a manager nothing can be asked: Runs with a workspace are refused, all else is taken in, and executed or told
// what is wrong with it when a manager is there again.
func TestOnlyRunsWithAWorkspaceNeedTheWebhook(t *testing.T) {
	env := e2e.New(t)
	env.Runtime("bash")
	env.Workspace("shared", "bash")
	system := "--namespace=" + e2e.SystemNamespace
	env.Finally("", system, "scale", "deployment/kruntimes-manager", "--replicas=1")
	env.Kubectl(system, "scale", "deployment/kruntimes-manager", "--replicas=0")
	refusal := waitAdmission(t, env, false)
	if !apierrors.IsInternalError(refusal) || !strings.Contains(refusal.Error(), "kruntimes-webhook") {
		t.Errorf("the refusal does not tell what is missing: %v", refusal)
	}
	if run := env.WaitRun(env.Run("bash", "true")); run.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("a Run without a workspace: %+v", run.Status)
	}
	env.Manifests(twoJobs)
	invalid := circular(env, "invalid")
	env.Create(invalid)

	env.Kubectl(system, "scale", "deployment/kruntimes-manager", "--replicas=1")
	_ = waitAdmission(t, env, true)
	env.WaitSucceeded("valid")
	if run := env.WaitRun(env.Run("bash", "true", e2e.InWorkspace("shared"))); run.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("a Run with a workspace afterwards: %+v", run.Status)
	}
	invalid = env.WaitWorkflowRun("invalid")
	accepted := meta.FindStatusCondition(invalid.Status.Conditions, workflowsv1alpha1.WorkflowRunConditionAccepted)
	if accepted == nil || accepted.Status != metav1.ConditionFalse {
		t.Fatalf("the invalid WorkflowRun: %+v", invalid.Status)
	}
	// A manager that takes more than two seconds, as for its first answer, is not waited for.
	env.Eventually("the webhook says what the controller does", func() string {
		early := env.Client.Create(t.Context(), circular(env, "again"), client.DryRunAll)
		if early == nil || !strings.HasSuffix(early.Error(), accepted.Message) {
			return fmt.Sprintf("the webhook says %v; the controller %q", early, accepted.Message)
		}
		return ""
	})
}

// A manager that the API server cannot reach makes the steps of jobs wait, because they have a workspace. None fails.
func TestWorkflowRunsWaitForAWebhookOutOfReach(t *testing.T) {
	env := e2e.New(t)
	env.Runtime("bash")
	env.Workspace("shared", "bash")
	selector := func(component string) []string {
		return []string{"--namespace=" + e2e.SystemNamespace, "patch", "service", "kruntimes-webhook", "--type=merge",
			"--patch", `{"spec":{"selector":{"app.kubernetes.io/component":"` + component + `"}}}`}
	}
	env.Finally("", selector(e2e.Manager)...)
	env.Kubectl(selector("nobody")...)
	_ = waitAdmission(t, env, false)
	env.Manifests(twoJobs)
	env.WaitWorkflowRunUntil("valid", "says why it waits", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return strings.Contains(run.Status.Jobs["first"].Message, "kruntimes-webhook")
	})
	env.Kubectl(selector(e2e.Manager)...)
	env.WaitSucceeded("valid")
	eachSucceeded(t, env, 3, 1)
}

// stream creates Runs in the workspace "shared" until it is stopped, and keeps what is said to those that are refused.
type stream struct {
	stop     func()
	mu       sync.Mutex
	created  int
	refusals []error
}

func startStream(t *testing.T, env *e2e.Env, interval time.Duration) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s, done := &stream{}, make(chan struct{})
	s.stop = func() { cancel(); <-done }
	t.Cleanup(s.stop)
	go func() {
		defer close(done)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for ctx.Err() == nil {
			err := env.Client.Create(ctx, inShared(env))
			s.mu.Lock()
			if s.created++; err != nil && ctx.Err() == nil {
				s.refusals = append(s.refusals, err)
			}
			s.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return s
}

// cert-manager renews a certificate whose Secret is gone. The authority stays, so the API server trusts the old one and the
// new one all the while.
func TestTheCertificateIsRenewedWithoutARefusal(t *testing.T) {
	env := e2e.New(t)
	env.Runtime("bash")
	env.Workspace("shared", "bash")
	served := env.ServedCertificate()
	before, err := served()
	if err != nil {
		t.Fatal(err)
	}
	manager := env.SystemPods(e2e.Manager)[0]
	runs := startStream(t, env, 300*time.Millisecond)
	old := env.WebhookSecret()
	if err := env.Client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	env.Eventually("there is a new certificate", func() string {
		if secret := env.WebhookSecret(); secret.UID != old.UID && len(secret.Data["tls.crt"]) > 0 {
			return ""
		}
		return "the Secret is not there"
	})
	// A change of the Pod has the kubelet look at its volumes now, and not within a minute and a half.
	env.Kubectl("--namespace="+e2e.SystemNamespace, "annotate", "pod", manager.Name, "--overwrite", "e2e/renewed="+string(old.UID))
	env.Within(2*e2e.Deadline, "the manager serves it", func() string {
		now, err := served()
		if err != nil {
			return err.Error()
		}
		if now.SerialNumber.Cmp(before.SerialNumber) != 0 {
			return ""
		}
		return "the old one is served"
	})
	_ = waitAdmission(t, env, true)
	runs.stop()
	for _, refusal := range runs.refusals {
		t.Errorf("a Run was refused: %v", refusal)
	}
	t.Logf("%d Runs with a workspace were created meanwhile", runs.created)
	if pods := env.SystemPods(e2e.Manager); len(pods) != 1 || pods[0].UID != manager.UID || pods[0].Status.ContainerStatuses[0].RestartCount != manager.Status.ContainerStatuses[0].RestartCount {
		t.Errorf("the manager was restarted")
	}
	waitRuns(t, env)
}
