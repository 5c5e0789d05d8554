package cluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// prober is the user who tries what the policies forbid, and the name of all objects that this takes.
const prober = "policy-prober"

// waitForPolicies tries what the policies forbid, without storing anything, until each of them has said no.
func (c *Cluster) waitForPolicies(ctx context.Context) error {
	run, workflowRun, workspace, runtime := probeRun(), probeWorkflowRun(), probeWorkspace(), probeRuntime()
	role := &rbacv1.Role{ObjectMeta: probeMeta(""), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{corev1alpha1.GroupVersion.Group}, Resources: []string{"runs", "runs/status", "runtimes/status"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{workflowsv1alpha1.GroupVersion.Group}, Resources: []string{"workflowruns"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{workspacesv1alpha1.GroupVersion.Group}, Verbs: []string{"patch"},
			Resources: []string{workspacesv1alpha1.Resource, workspacesv1alpha1.Resource + "/status"}},
	}}
	binding := &rbacv1.RoleBinding{ObjectMeta: probeMeta(""), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: prober},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: prober}}}
	objects := []client.Object{run, workflowRun, workspace, runtime, role, binding}
	for _, object := range objects {
		create := func(ctx context.Context) (bool, error) { return true, c.admin.Create(ctx, object) }
		if err := poll(ctx, create); err != nil {
			return fmt.Errorf("preparing to probe the policies: %w", err)
		}
	}
	if err := c.admin.Status().Patch(ctx, workspace, mergePatch(
		`{"status":{"phase":"Bound","boundPod":"x","boundPodUID":"x","path":"/x"}}`)); err != nil {
		return fmt.Errorf("binding the workspace for the probes: %w", err)
	}
	cfg := c.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: prober}
	user, err := client.New(cfg, client.Options{Scheme: Scheme()})
	if err != nil {
		return fmt.Errorf("making the prober's client: %w", err)
	}
	attempts := forbidden(user, run, workflowRun, workspace)
	attempts["runtime-status"] = func(ctx context.Context) error {
		return user.Status().Patch(ctx, runtime.DeepCopy(), mergePatch(`{"status":{"replicas":1}}`),
			&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
	}
	for policy, attempt := range attempts {
		err := poll(ctx, func(ctx context.Context) (bool, error) {
			err := attempt(ctx)
			if isPolicy(err) {
				return true, nil
			}
			return false, err
		})
		if err != nil {
			return fmt.Errorf("waiting for admission policy %s to decide: %w", policy, err)
		}
	}
	if err := c.admin.Patch(ctx, workspace, mergePatch(`{"metadata":{"finalizers":null}}`)); err != nil {
		return fmt.Errorf("cleaning up after probing the policies: %w", err)
	}
	for _, object := range objects {
		if err := c.admin.Delete(ctx, object); err != nil {
			return fmt.Errorf("cleaning up after probing the policies: %w", err)
		}
	}
	return nil
}

// forbidden returns, by policy, a request that it refuses.
func forbidden(user client.Client, run *corev1alpha1.Run, workflowRun *workflowsv1alpha1.WorkflowRun,
	workspace *workspacesv1alpha1.PersistentWorkspace,
) map[string]func(context.Context) error {
	const job = workflowsv1alpha1.LabelJob
	dryStatus := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
	return map[string]func(context.Context) error{
		"run-identity": func(ctx context.Context) error {
			forged := probeRun()
			forged.ObjectMeta = probeMeta("-2")
			forged.Labels = map[string]string{job: "x"}
			return user.Create(ctx, forged, client.DryRunAll)
		},
		"run-status": func(ctx context.Context) error {
			return user.Status().Patch(ctx, run.DeepCopy(), mergePatch(`{"status":{"message":"x"}}`), dryStatus)
		},
		"workspace-status": func(ctx context.Context) error {
			return user.Status().Patch(ctx, workspace.DeepCopy(), mergePatch(`{"status":{"phase":"Released"}}`), dryStatus)
		},
		"workspace-cleanup": func(ctx context.Context) error {
			return user.Patch(ctx, workspace.DeepCopy(), mergePatch(`{"metadata":{"finalizers":null}}`), client.DryRunAll)
		},
		"workflow-run-identity": func(ctx context.Context) error {
			forged := probeWorkflowRun()
			forged.ObjectMeta = probeMeta("-2")
			forged.Labels = map[string]string{job: "x"}
			return user.Create(ctx, forged, client.DryRunAll)
		},
		"workflow-run-outputs": func(ctx context.Context) error {
			return user.Patch(ctx, workflowRun.DeepCopy(), mergePatch(
				`{"metadata":{"annotations":{"`+workflowsv1alpha1.AnnotationOutputPrefix+`x":"x"}}}`), client.DryRunAll)
		},
	}
}

func probeMeta(suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: prober + suffix, Namespace: metav1.NamespaceDefault}
}

func probeRun() *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: probeMeta(""), Spec: corev1alpha1.RunSpec{
		Runtime: prober, Mode: corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Args: []string{"true"}}}}}
}

func probeRuntime() *corev1alpha1.Runtime {
	runtime := &corev1alpha1.Runtime{ObjectMeta: probeMeta("")}
	runtime.Spec.Template.Spec.Containers = []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: prober}}
	return runtime
}

func probeWorkflowRun() *workflowsv1alpha1.WorkflowRun {
	return &workflowsv1alpha1.WorkflowRun{ObjectMeta: probeMeta(""), Spec: workflowsv1alpha1.WorkflowRunSpec{
		Jobs: map[string]workflowsv1alpha1.Job{"x": {RunsOn: prober, Steps: []workflowsv1alpha1.Step{{Name: "x", Run: "true"}}}}}}
}

func probeWorkspace() *workspacesv1alpha1.PersistentWorkspace {
	meta := probeMeta("")
	meta.Finalizers = []string{workspacesv1alpha1.Finalizer}
	return &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: meta, Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: prober}}
}

func mergePatch(text string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(text))
}

// isPolicy tells whether an admission policy, and not RBAC, refused a request.
func isPolicy(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}
