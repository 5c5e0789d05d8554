package install

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/groups"
	"kruntimes.io/kruntimes/test/leftovers"
)

// named is the metadata of an object in the namespace of the tests.
func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
}

func newRuntime(name string) *corev1alpha1.Runtime {
	r := &corev1alpha1.Runtime{ObjectMeta: named(name), Spec: corev1alpha1.RuntimeSpec{Replicas: ptr.To[int32](1)}}
	r.Spec.Template.Spec.Containers = []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: "debian:12-slim"}}
	return r
}

func newRun(name, script string) *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: named(name), Spec: corev1alpha1.RunSpec{Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: script}}}
}

func newWorkspace(name string) *workspacesv1alpha1.PersistentWorkspace {
	return &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: named(name), Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh"}}
}

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

// read reads an object again.
func read(t *testing.T, c client.Client, object client.Object) error {
	t.Helper()
	return c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
}

// TestUndeployTakesEverything lets a WorkflowRun, a Run in a workspace and a workspace without a Pod be there.
func TestUndeployTakesEverything(t *testing.T) {
	dev, admin := start(t, devcluster.Options{})
	create(t, admin, newRuntime("sh"), newWorkspace("bound"))
	unbound := newWorkspace("unbound")
	unbound.Spec.Runtime = "none"
	inside := newRun("inside", "sleep 600")
	inside.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: "bound"}
	job := workflowsv1alpha1.Job{RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "one", Run: "true"}, {Name: "two", Run: "sleep 600"}}}
	create(t, admin, unbound, inside, &workflowsv1alpha1.WorkflowRun{ObjectMeta: named("w"), Spec: workflowsv1alpha1.WorkflowRunSpec{
		Jobs: map[string]workflowsv1alpha1.Job{"job": job}}})
	for _, name := range []string{"inside", "w-job-two"} {
		eventually(t, name+" to execute", func() (bool, error) {
			run := newRun(name, "")
			err := read(t, admin, run)
			return run.Status.Phase == corev1alpha1.RunRunning, err
		})
	}
	for _, when := range []string{"the first time", "the second time"} {
		if said, err := undeploy(t, dev, groups.All()); err != nil {
			t.Fatalf("%s: %v\n%s", when, err, said)
		}
		eventually(t, "everything to go "+when, func() (bool, error) {
			left, err := leftovers.In(t.Context(), admin)
			if len(left) > 0 {
				t.Logf("left: %q", left)
			}
			return len(left) == 0, err
		})
	}
}

// TestUndeployDoesNotWaitForEver has a workspace whose finalizer nobody takes off.
func TestUndeployDoesNotWaitForEver(t *testing.T) {
	dev, admin := start(t, devcluster.Options{WithoutProduct: true})
	held := newWorkspace("held")
	held.Finalizers = []string{workspacesv1alpha1.Finalizer}
	create(t, admin, held)
	said, err := undeploy(t, dev, groups.All(), "TIMEOUT=2")
	if err == nil {
		t.Fatalf("it succeeded:\n%s", said)
	}
	for _, want := range []string{
		"undeploy: after 2 s these persistentworkspaces.workspaces.kruntimes.io are still there:\ndefault/held\n",
		"undeploy: does the manager run, and do the Pods of their Runtimes? With FORCE=true their finalizers are taken off\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it said\n%s\nwant\n%s", said, want)
		}
	}
	if err := read(t, admin, held); err != nil {
		t.Errorf("without FORCE it took away what was held: %v", err)
	}
	// The workspace has gone when the second patch comes, as it may in between.
	twice := kubectlThat(t, `if [[ $1 == patch ]]; then "$real" "$@"; fi`)
	if said, err := undeploy(t, dev, groups.All(), "TIMEOUT=30", "FORCE=true", twice); err != nil {
		t.Fatalf("with FORCE: %v\n%s", err, said)
	}
	if err := read(t, admin, held); !meta.IsNoMatchError(err) && client.IgnoreNotFound(err) != nil {
		t.Errorf("with FORCE the workspace is there: %v", err)
	}
}

// kubectlThat is the variable that lets undeploy run these lines of bash before kubectl; they may fail in its place.
func kubectlThat(t *testing.T, lines string) string {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubectl")
	script := fmt.Sprintf("#!/usr/bin/env bash\nset -euo pipefail\nreal=%q\n%s\nexec \"$real\" \"$@\"\n", executable, lines)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return "KUBECTL=" + path
}

// TestUndeployTakesNothingAwayThatItCannotSee loses the API server after the first deletion, and then a whole kind.
func TestUndeployTakesNothingAwayThatItCannotSee(t *testing.T) {
	dev, admin := start(t, devcluster.Options{WithoutProduct: true})
	held := newWorkspace("held")
	held.Finalizers = []string{workspacesv1alpha1.Finalizer}
	create(t, admin, held)
	marker := filepath.Join(t.TempDir(), "deleted")
	lost := kubectlThat(t, fmt.Sprintf(`if [[ $1 == delete ]]; then : >%[1]q; fi
if [[ $1 == get && -e %[1]q ]]; then echo "error: the connection was lost" >&2; exit 1; fi`, marker))
	said, err := undeploy(t, dev, groups.All(), "TIMEOUT=30", lost)
	if err == nil {
		t.Fatalf("it succeeded:\n%s", said)
	}
	if want := "error: the connection was lost\nundeploy: nobody can say which persistentworkspaces.workspaces.kruntimes.io are left"; !strings.Contains(said, want) {
		t.Errorf("it said\n%s\nwant\n%s", said, want)
	}
	if err := read(t, admin, held); err != nil || held.DeletionTimestamp == nil {
		t.Errorf("the workspace, deleted at %v: %v", held.DeletionTimestamp, err)
	}
	if err := read(t, admin, newRuntime("none")); meta.IsNoMatchError(err) || !apierrors.IsNotFound(err) {
		t.Errorf("the kinds have gone: %v", err)
	}

	held.Finalizers = nil
	if err := admin.Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	unknown := kubectlThat(t, `if [[ $1 == get && $2 == actions.* ]]; then exec "$real" get nothing.workflows.kruntimes.io; fi`)
	if said, err := undeploy(t, dev, groups.All(), "TIMEOUT=30", unknown); err != nil {
		t.Errorf("with a kind that is not known: %v\n%s", err, said)
	}
}
