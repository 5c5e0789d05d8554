package e2e

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// Workspace creates a PersistentWorkspace of a Runtime, changed by these functions, and waits until it has its Pod.
func (e *Env) Workspace(name, runtime string, changes ...func(*workspacesv1alpha1.PersistentWorkspaceSpec)) *workspacesv1alpha1.PersistentWorkspace {
	e.t.Helper()
	w := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.Spec.Runtime = runtime
	for _, change := range changes {
		change(&w.Spec)
	}
	e.Create(w)
	return e.WaitWorkspace(w, workspacesv1alpha1.WorkspaceBound)
}

// WaitWorkspace waits until a workspace is in this phase, and reads it.
func (e *Env) WaitWorkspace(w *workspacesv1alpha1.PersistentWorkspace, phase workspacesv1alpha1.WorkspacePhase) *workspacesv1alpha1.PersistentWorkspace {
	e.t.Helper()
	e.Eventually(fmt.Sprintf("workspace %s is %s", w.Name, phase), func() string {
		e.Refresh(w)
		if w.Status.Phase == phase {
			return ""
		}
		return fmt.Sprintf("%+v", w.Status)
	})
	return w
}

// WaitGone waits until an object is not there any more.
func (e *Env) WaitGone(object client.Object) {
	e.t.Helper()
	e.Eventually(fmt.Sprintf("%T %s is gone", object, object.GetName()), func() string {
		err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("finalizers %v, %v", object.GetFinalizers(), err)
	})
}

// InWorkspace has a Run executed in a workspace.
func InWorkspace(workspace string) func(*corev1alpha1.Run) {
	return func(r *corev1alpha1.Run) { r.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: workspace} }
}
