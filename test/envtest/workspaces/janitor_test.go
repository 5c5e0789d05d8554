package workspaces

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// janitor stands in for runtimed of one Pod, with the Pod's own token: it takes the finalizer off workspaces that are
// Released, once no active Run of its Pod refers to them.
type janitor struct {
	client client.Client
	pod    *corev1.Pod

	mu      sync.Mutex
	cleaned []string
}

func startJanitor(t *testing.T, pod *corev1.Pod) *janitor {
	t.Helper()
	j := &janitor{client: cluster.Client(t, shared.Pod(t, pod)), pod: pod}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				err := j.round(ctx)
				switch {
				case ctx.Err() != nil, apierrors.IsUnauthorized(err): // The token ends with the Pod.
					return
				case err != nil:
					t.Errorf("cleaning up on Pod %s: %v", pod.Name, err)
					return
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return j
}

func (j *janitor) round(ctx context.Context) error {
	var bound workspacesv1alpha1.PersistentWorkspaceList
	if err := j.client.List(ctx, &bound, client.InNamespace(j.pod.Namespace),
		client.MatchingFields{workspacesv1alpha1.FieldBoundPod: j.pod.Name}); err != nil {
		return err
	}
	for i := range bound.Items {
		w := &bound.Items[i]
		isDue := w.Status.Phase == workspacesv1alpha1.WorkspaceReleased && w.DeletionTimestamp != nil &&
			w.Status.BoundPodUID == string(j.pod.UID) && slices.Contains(w.Finalizers, workspacesv1alpha1.Finalizer)
		if !isDue {
			continue
		}
		inUse, err := j.uses(ctx, w)
		if err != nil {
			return err
		}
		if inUse {
			continue
		}
		switch err := letGo(ctx, j.client, w); {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // What was listed is not the newest.
			continue
		case err != nil:
			return err
		}
		j.mu.Lock()
		j.cleaned = append(j.cleaned, w.Name)
		j.mu.Unlock()
	}
	return nil
}

// uses tells whether an active Run of the Pod refers to a workspace.
func (j *janitor) uses(ctx context.Context, w *workspacesv1alpha1.PersistentWorkspace) (bool, error) {
	var runs corev1alpha1.RunList
	err := j.client.List(ctx, &runs, client.InNamespace(w.Namespace), client.MatchingFields{corev1alpha1.FieldWorkspace: w.Name})
	return slices.ContainsFunc(runs.Items, func(run corev1alpha1.Run) bool {
		return run.IsAssignedTo(j.pod.Name, string(j.pod.UID))
	}), err
}

// expect waits until exactly these workspaces were cleaned up, each once. The janitor notes it a moment after they are gone.
func (j *janitor) expect(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	cluster.Eventually(t, "runtimed to have cleaned up", func(context.Context) (bool, error) {
		got = j.names()
		return len(got) >= len(want), nil
	})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cleaned up by runtimed (-want +got):\n%s", diff)
	}
}

// names returns the workspaces that were cleaned up.
func (j *janitor) names() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.cleaned)
}

// letGo takes the cleanup finalizer off exactly the workspace that was read.
func letGo(ctx context.Context, c client.Client, w *workspacesv1alpha1.PersistentWorkspace) error {
	left := slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == workspacesv1alpha1.Finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": w.ResourceVersion, "finalizers": left}})
	if err != nil {
		return err
	}
	target := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	return c.Patch(ctx, target, mergePatch(string(patch)))
}
