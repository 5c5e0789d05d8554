// Package install applies whole overlays to a real API server, as "kubectl apply" does, and runs the components with the arguments
// and the identities that the Deployments give them.
package install

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/groups"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// site is an API server with an installation that grows.
type site struct {
	*cluster.Cluster
	namespace string
	pod       *corev1.Pod
}

// TestGroupsAreAddedOneAfterTheOther applies the overlay of each set of groups over that of the one before, and executes what
// it brings. What was there before stays.
func TestGroupsAreAddedOneAfterTheOther(t *testing.T) {
	s := &site{Cluster: cluster.MustStartBare(nil)}
	defer s.Stop()
	steps := []struct {
		groups  []string
		kinds   []string
		prepare func()
		use     func(*testing.T)
	}{
		{[]string{groups.Core}, []string{"Run", "Runtime"}, func() {}, s.useCore},
		{[]string{groups.Core, groups.Workspaces}, []string{"Certificate", "Issuer", "PersistentWorkspace", "Run", "Runtime"},
			func() { s.StandInForCertManager(t) }, s.useWorkspaces},
		{groups.All(), []string{"Action", "Certificate", "Issuer", "PersistentWorkspace", "Run", "Runtime", "Workflow", "WorkflowRun"},
			func() {}, s.useWorkflows},
	}
	for _, step := range steps {
		t.Run(strings.Join(step.groups, " and "), func(t *testing.T) {
			step.prepare()
			manifests, err := config.Render(config.Overlay(step.groups))
			if err != nil {
				t.Fatal(err)
			}
			s.applyTwice(t, manifests)
			if diff := cmp.Diff(step.kinds, s.kinds(t)); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
			s.checkPods(t, manifests)
			s.run(t, manifests)
			step.use(t)
		})
	}
}

// applyTwice applies manifests; the second time nothing may change.
func (s *site) applyTwice(t *testing.T, manifests []byte) {
	t.Helper()
	s.KubectlApply(t, manifests)
	lines := strings.Split(strings.TrimSpace(s.KubectlApply(t, manifests)), "\n")
	if want := bytes.Count(manifests, []byte("\n---\n")) + 1; len(lines) != want {
		t.Errorf("kubectl named %d objects, want %d", len(lines), want)
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, " unchanged") {
			t.Errorf("the second time kubectl said %q", line)
		}
	}
}

// kinds returns what was added to those of Kubernetes.
func (s *site) kinds(t *testing.T) []string {
	t.Helper()
	var definitions unstructured.UnstructuredList
	definitions.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	if err := s.Admin().List(t.Context(), &definitions); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, d := range definitions.Items {
		kind, _, _ := unstructured.NestedString(d.Object, "spec", "names", "kind")
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// checkPods has the API server judge the Pods of the Deployments: their namespace enforces the restricted standard.
func (s *site) checkPods(t *testing.T, manifests []byte) {
	t.Helper()
	judged := 0
	for _, d := range deployments(t, manifests) {
		pod := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
		pod.Namespace, pod.GenerateName = d.Namespace, d.Name+"-"
		if err := s.Admin().Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("a Pod of %s: %v", d.Name, err)
		}
		pod.Spec.SecurityContext.RunAsNonRoot = nil
		if err := s.Admin().Create(t.Context(), pod, client.DryRunAll); err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
			t.Errorf("a Pod of %s that may run as root: %v", d.Name, err)
		}
		judged++
	}
	if judged != 2 {
		t.Errorf("%d Deployments, want 2", judged)
	}
}

func deployments(t *testing.T, manifests []byte) map[string]*appsv1.Deployment {
	t.Helper()
	objects, err := cluster.Decode(manifests)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*appsv1.Deployment{}
	for _, u := range objects {
		if u.GetKind() == "Deployment" {
			d := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, d, true); err != nil {
				t.Fatal(err)
			}
			found[d.Name] = d
		}
	}
	return found
}

// reach makes the API server ask the manager at address, as far as the installation has it ask.
func (s *site) reach(t *testing.T, address string) {
	t.Helper()
	var configurations admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := s.Admin().List(t.Context(), &configurations); err != nil {
		t.Fatal(err)
	}
	for i := range configurations.Items {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&configurations.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: object}
		u.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(config.KindWebhooks))
		s.ReachAt(t, u, address)
		if err := s.Admin().Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // The next overlay is applied over one that leads to the Service.
			if err := s.Admin().Delete(context.WithoutCancel(t.Context()), u); err != nil {
				t.Errorf("deleting %s: %v", u.GetName(), err)
			}
		})
	}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func (s *site) newRun(name, workspace string) *corev1alpha1.Run {
	run := &corev1alpha1.Run{ObjectMeta: meta(s.namespace, name),
		Spec: corev1alpha1.RunSpec{Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "true"}}}
	if workspace != "" {
		run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: workspace}
	}
	return run
}

// execute waits until a Run is assigned, and ends it as its Pod would.
func (s *site) execute(t *testing.T, name string) {
	t.Helper()
	run := s.newRun(name, "")
	cluster.Eventually(t, "Run "+name+" to be assigned", func(ctx context.Context) (bool, error) {
		err := s.Admin().Get(ctx, client.ObjectKeyFromObject(run), run)
		return run.Status.AssignedPodUID == string(s.pod.UID), err
	})
	pod := cluster.Client(t, s.Pod(t, s.pod))
	end := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Succeeded"}}`))
	if err := pod.Status().Patch(t.Context(), run, end); err != nil {
		t.Fatalf("ending Run %s: %v", name, err)
	}
}

func (s *site) useCore(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	s.Create(t, namespace) // It stays: the groups that come later find what is in there.
	s.namespace = namespace.Name
	s.pod = s.RuntimePod(t, s.namespace, "sh", "sh-0")
	sh := &corev1alpha1.Runtime{ObjectMeta: meta(s.namespace, "sh")}
	sh.Spec.Template.Spec.Containers = []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: "debian:12-slim"}}
	s.Create(t, sh)
	s.Create(t, s.newRun("first", ""))
	s.execute(t, "first")
	cluster.Eventually(t, "Runs with a workspace to be refused", func(ctx context.Context) (bool, error) {
		err := s.Admin().Create(ctx, s.newRun("refused", "w"), client.DryRunAll)
		return refusedWith(err, "spec.workspace cannot be used: the workspaces group is not enabled")
	})
}

func (s *site) useWorkspaces(t *testing.T) {
	s.kept(t, "first")
	w := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: meta(s.namespace, "w"), Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh"}}
	s.Create(t, w)
	// It takes the API server a moment to see that the policy is out of force.
	cluster.Eventually(t, "a Run in the workspace", func(ctx context.Context) (bool, error) {
		err := s.Admin().Create(ctx, s.newRun("second", "w"))
		return err == nil, err
	})
	s.execute(t, "second")
}

func (s *site) useWorkflows(t *testing.T) {
	s.kept(t, "first", "second")
	w := &workflowsv1alpha1.WorkflowRun{ObjectMeta: meta(s.namespace, "third"), Spec: workflowsv1alpha1.WorkflowRunSpec{
		Jobs: map[string]workflowsv1alpha1.Job{"job": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "step", Run: "true"}}}}}}
	s.Create(t, w)
	s.execute(t, "third-job-step")
	cluster.Eventually(t, "the WorkflowRun to succeed", func(ctx context.Context) (bool, error) {
		err := s.Admin().Get(ctx, client.ObjectKeyFromObject(w), w)
		return w.Status.Phase == workflowsv1alpha1.WorkflowSucceeded, err
	})
}

// kept looks whether Runs of the installation before are as they were.
func (s *site) kept(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		run := s.newRun(name, "")
		if err := s.Admin().Get(t.Context(), client.ObjectKeyFromObject(run), run); err != nil || run.Status.Phase != corev1alpha1.RunSucceeded {
			t.Errorf("Run %s is %s now: %v", name, run.Status.Phase, err)
		}
	}
}

// refusedWith is for conditions that wait for a refusal; any other answer is told when it does not come.
func refusedWith(err error, want string) (bool, error) {
	if err != nil && strings.Contains(err.Error(), want) {
		return true, nil
	}
	return false, err
}
