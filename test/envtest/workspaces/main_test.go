// Package workspaces tests PersistentWorkspaces, their policies and their controller against a real API server.
package workspaces

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	shared = cluster.MustStart()
	defer shared.Stop()
	m.Run()
}

func newWorkspace(namespace, name string, change ...func(*workspacesv1alpha1.PersistentWorkspace)) *workspacesv1alpha1.PersistentWorkspace {
	w := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh"}}
	for _, f := range change {
		f(w)
	}
	return w
}

// ttl has a workspace deleted when nobody has used it for some seconds.
func ttl(seconds int32) func(*workspacesv1alpha1.PersistentWorkspace) {
	return func(w *workspacesv1alpha1.PersistentWorkspace) {
		w.Spec.CleanupPolicy, w.Spec.TTLSecondsAfterUnused = workspacesv1alpha1.CleanupDeleteAfterTTL, &seconds
	}
}

func newRuntime(namespace, name string) *corev1alpha1.Runtime {
	r := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	r.Spec.Template.Spec.Containers = []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: "sh"}}
	return r
}

// newRun makes a Run that refers to a workspace.
func newRun(namespace, name, workspace string) *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1alpha1.RunSpec{
		Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "true"}, Workspace: &corev1alpha1.WorkspaceReference{Name: workspace}}}
}

func mergePatch(text string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(text))
}

// expectError checks that err holds want, or that there is no error where want is empty.
func expectError(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: got error %v, want none", what, err)
	case want != "" && err == nil:
		t.Errorf("%s: accepted, want an error with %q", what, want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("%s: got error %v, want one with %q", what, err, want)
	}
}

func get(t *testing.T, namespace, name string) *workspacesv1alpha1.PersistentWorkspace {
	t.Helper()
	w := &workspacesv1alpha1.PersistentWorkspace{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, w); err != nil {
		t.Fatal(err)
	}
	return w
}

// standing is where a workspace stands, without times and messages.
type standing struct {
	Phase                      workspacesv1alpha1.WorkspacePhase
	Bound, Available           string
	Runtime, Pod, PodUID, Path string
}

func standingOf(w *workspacesv1alpha1.PersistentWorkspace) standing {
	s := standing{Phase: w.Status.Phase, Runtime: w.Status.Runtime, Pod: w.Status.BoundPod, PodUID: w.Status.BoundPodUID, Path: w.Status.Path}
	for _, c := range w.Status.Conditions {
		switch text := string(c.Status) + " " + c.Reason; c.Type {
		case workspacesv1alpha1.WorkspaceConditionBound:
			s.Bound = text
		case workspacesv1alpha1.WorkspaceConditionAvailable:
			s.Available = text
		}
	}
	return s
}

// await waits until a workspace satisfies a condition and returns it.
func await(t *testing.T, namespace, name, what string, ok func(*workspacesv1alpha1.PersistentWorkspace) bool) *workspacesv1alpha1.PersistentWorkspace {
	t.Helper()
	var w *workspacesv1alpha1.PersistentWorkspace
	t.Cleanup(func() {
		if t.Failed() && w != nil {
			t.Logf("workspace %s: %+v, finalizers %v", name, standingOf(w), w.Finalizers)
		}
	})
	cluster.Eventually(t, fmt.Sprintf("workspace %s: %s", name, what), func(ctx context.Context) (bool, error) {
		w = &workspacesv1alpha1.PersistentWorkspace{}
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, w)
		return err == nil && ok(w), err
	})
	return w
}

// awaitStanding waits until a workspace stands where it is wanted.
func awaitStanding(t *testing.T, namespace, name string, want standing) *workspacesv1alpha1.PersistentWorkspace {
	t.Helper()
	last := ""
	t.Cleanup(func() {
		if t.Failed() && last != "" {
			t.Logf("standing (-want +got):\n%s", last)
		}
	})
	return await(t, namespace, name, "to stand "+string(want.Phase), func(w *workspacesv1alpha1.PersistentWorkspace) bool {
		last = cmp.Diff(want, standingOf(w))
		return last == ""
	})
}

func awaitPhase(t *testing.T, namespace, name string, phase workspacesv1alpha1.WorkspacePhase) *workspacesv1alpha1.PersistentWorkspace {
	t.Helper()
	return await(t, namespace, name, "phase "+string(phase), func(w *workspacesv1alpha1.PersistentWorkspace) bool { return w.Status.Phase == phase })
}

func awaitGone(t *testing.T, object client.Object) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("%T %s to be gone", object, object.GetName()), func(ctx context.Context) (bool, error) {
		err := shared.Admin().Get(ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// awaitAllowed waits until the right to change workspaces has taken effect.
func awaitAllowed(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	cluster.Eventually(t, "the rights to take effect", func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "patch",
				Group: workspacesv1alpha1.GroupVersion.Group, Resource: workspacesv1alpha1.Resource}}}
		err := c.Create(ctx, review)
		return review.Status.Allowed, err
	})
}
