//go:build e2eolm

package olm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

const team = "olm-team"

// TestBundle installs the bundle and then
//
//   - executes a Run, two that share a workspace, and a WorkflowRun;
//   - lets nobody use a workspace who may not;
//   - tries to forge a result with the token of another Pod of the same Runtime;
//   - deletes a policy;
//   - takes the certificate of the webhooks away, so that OLM makes a new one;
//   - removes the bundle, after which nothing but the kinds is left.
func TestBundle(t *testing.T) {
	h := newHarness(t)
	h.run(t, "olm-catalog", "crds")
	h.startOLM(t)
	before := h.everything(t)
	h.run(t, "olm-catalog", "install", namespace, bundle)
	h.waitForInstallation(t)
	h.prepareTeam(t)
	steps := []struct {
		name string
		test func(*testing.T)
	}{
		{"Runs are executed", h.testExecution},
		{"workspaces are guarded", h.testWorkspaceUse},
		{"results are not forged", h.testForgery},
		{"policies are restored", h.testRestoring},
		{"certificates are renewed", h.testCertificate},
	}
	for _, step := range steps {
		t.Run(step.name, step.test)
	}
	h.removeTeam(t)
	h.run(t, "olm-catalog", "uninstall", namespace)
	h.expectNothing(t, before)
}

// prepareTeam makes a Runtime of two Pods, and waits for them.
func (h *harness) prepareTeam(t *testing.T) {
	t.Helper()
	runtime := &corev1alpha1.Runtime{ObjectMeta: meta(team, "sh")}
	replicas := int32(2)
	runtime.Spec.Replicas = &replicas
	runtime.Spec.Template.Spec.Containers = []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: e2e.Setting("BASH_IMAGE")}}
	workspace := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: meta(team, "ci"), Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh"}}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: meta("", team)}, runtime, workspace} {
		h.create(t, object)
	}
	eventually(t, "two ready Pods", func(ctx context.Context) (bool, error) {
		err := h.admin.Get(ctx, client.ObjectKeyFromObject(runtime), runtime)
		return runtime.Status.ReadyReplicas == 2, err
	})
}

func (h *harness) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := h.admin.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

func runOf(name, workspace, script string) *corev1alpha1.Run {
	run := &corev1alpha1.Run{ObjectMeta: meta(team, name), Spec: corev1alpha1.RunSpec{Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: script}}}
	if workspace != "" {
		run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: workspace}
	}
	return run
}

// finish waits for the end of a Run.
func (h *harness) finish(t *testing.T, run *corev1alpha1.Run) {
	t.Helper()
	eventually(t, "the end of Run "+run.Name, func(ctx context.Context) (bool, error) {
		err := h.admin.Get(ctx, client.ObjectKeyFromObject(run), run)
		return run.Status.CompletionTime != nil, err
	})
}

func (h *harness) testExecution(t *testing.T) {
	for _, run := range []*corev1alpha1.Run{
		runOf("plain", "", `echo "answer=42" >>"$KRUNTIME_OUTPUTS"`),
		runOf("write", "ci", "echo kept >file"),
		runOf("read", "ci", `echo "answer=$(cat file)" >>"$KRUNTIME_OUTPUTS"`),
	} {
		h.create(t, run)
		h.finish(t, run)
		want := map[string]corev1alpha1.OutputValue{"plain": "42", "read": "kept"}[run.Name]
		if run.Status.Phase != corev1alpha1.RunSucceeded || run.Status.Outputs["answer"] != want {
			t.Errorf("Run %s ended with %+v, want answer %q", run.Name, run.Status, want)
		}
	}
	workflow := &workflowsv1alpha1.WorkflowRun{ObjectMeta: meta(team, "flow"), Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: map[string]workflowsv1alpha1.Job{
		"build": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "make", Run: "echo made >file"}, {Name: "check", Run: "grep made file"}}}}}}
	h.create(t, workflow)
	eventually(t, "the end of the WorkflowRun", func(ctx context.Context) (bool, error) {
		err := h.admin.Get(ctx, client.ObjectKeyFromObject(workflow), workflow)
		return workflow.Status.Phase == workflowsv1alpha1.WorkflowSucceeded, err
	})
}

// testWorkspaceUse asks as somebody who may create Runs in the namespace, and no more.
func (h *harness) testWorkspaceUse(t *testing.T) {
	h.create(t, &rbacv1.RoleBinding{ObjectMeta: meta(team, "ann"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kruntimes-edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ann"}}})
	config := rest.CopyConfig(h.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "ann"}
	ann := h.client(t, config)
	eventually(t, "the rights of ann", func(ctx context.Context) (bool, error) {
		err := ann.Create(ctx, runOf("hers", "", "true"), client.DryRunAll)
		return err == nil, err
	})
	err := ann.Create(t.Context(), runOf("hers", "ci", "true"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `the verb "use" on persistentworkspaces/use is missing`) {
		t.Errorf("a Run in a workspace that ann may not use: got error %v", err)
	}
}

// testForgery says of a Run that is executed by one Pod that it has succeeded, by the token of the other Pod.
func (h *harness) testForgery(t *testing.T) {
	run := runOf("long", "", "sleep 600")
	h.create(t, run)
	eventually(t, "the Run to be executed", func(ctx context.Context) (bool, error) {
		err := h.admin.Get(ctx, client.ObjectKeyFromObject(run), run)
		return run.Status.Phase == corev1alpha1.RunRunning, err
	})
	var pods corev1.PodList
	if err := h.admin.List(t.Context(), &pods, client.InNamespace(team), client.MatchingLabels{corev1alpha1.LabelRuntime: "sh"}); err != nil {
		t.Fatal(err)
	}
	tried := map[bool]string{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		isAssigned := pod.Name == run.Status.AssignedPod
		asPod, err := e2e.PodClient(t.Context(), h.admin, h.config, pod)
		if err != nil {
			t.Fatal(err)
		}
		err = asPod.Status().Patch(t.Context(), run.DeepCopy(),
			client.RawPatch("application/merge-patch+json", []byte(`{"status":{"message":"by `+pod.Name+`"}}`)))
		tried[isAssigned] = fmt.Sprint(err)
		if !isAssigned && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the status of a Run is written only by the Pod it is assigned to")) {
			t.Errorf("the other Pod's attempt to write the status: got error %v", err)
		}
		if isAssigned && err != nil {
			t.Errorf("the Run's own Pod could not write its status: %v", err)
		}
	}
	if len(tried) != 2 {
		t.Errorf("tried were %v, want the Run's own Pod and another one", tried)
	}
	before := client.MergeFrom(run.DeepCopy())
	run.Spec.CancelRequested = true
	if err := h.admin.Patch(t.Context(), run, before); err != nil {
		t.Fatal(err)
	}
	h.finish(t, run)
	if run.Status.Phase != corev1alpha1.RunCancelled {
		t.Errorf("the Run ended with %+v", run.Status)
	}
}

func (h *harness) testRestoring(t *testing.T) {
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta("", "kruntimes-run-status")}
	if err := h.admin.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
		t.Fatal(err)
	}
	uid := binding.UID
	if err := h.admin.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy to be restored", func(ctx context.Context) (bool, error) {
		err := h.admin.Get(ctx, client.ObjectKeyFromObject(binding), binding)
		return binding.UID != uid, err
	})
}

// testCertificate takes the certificate away. OLM makes one by a new authority, and rolls the manager.
func (h *harness) testCertificate(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: meta(namespace, "kruntimes-manager-service-cert")}
	if err := h.admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	uid := secret.UID
	if err := h.admin.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another certificate", func(ctx context.Context) (bool, error) {
		err := h.admin.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		return secret.UID != uid, err
	})
	h.waitForInstallation(t)
	run := runOf("renewed", "ci", "cat file")
	eventually(t, "the API server to ask the manager again", func(ctx context.Context) (bool, error) {
		run = runOf("renewed", "ci", "cat file")
		err := h.admin.Create(ctx, run)
		return err == nil, err
	})
	h.finish(t, run)
	if run.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("the Run ended with %+v", run.Status)
	}
}

// removeTeam deletes what the manager has to finalize: nobody does afterwards.
func (h *harness) removeTeam(t *testing.T) {
	t.Helper()
	if err := h.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: meta("", team)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace of the team to go", func(ctx context.Context) (bool, error) {
		err := h.admin.Get(ctx, client.ObjectKey{Name: team}, &corev1.Namespace{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// expectNothing compares the cluster with what it was, but for the namespace, which OLM did not make.
func (h *harness) expectNothing(t *testing.T, before []string) {
	t.Helper()
	before = append(slices.Clone(before), "Namespace//"+namespace, "ConfigMap/"+namespace+"/kube-root-ca.crt", "ServiceAccount/"+namespace+"/default")
	diff := ""
	defer func() {
		if t.Failed() {
			t.Logf("what is left (-want +got):\n%s", diff)
		}
	}()
	// An OLM that is still looking at the end of the bundle when its OperatorGroup goes makes roles of that once more.
	late := client.MatchingLabels{"olm.owner.kind": "OperatorGroup", "olm.owner.namespace": namespace}
	eventually(t, "nothing to be left", func(ctx context.Context) (bool, error) {
		if diff = cmp.Diff([]string{}, leftovers(before, h.everything(t))); diff == "" {
			return true, nil
		}
		return false, h.admin.DeleteAllOf(ctx, &rbacv1.ClusterRole{}, late)
	})
}
