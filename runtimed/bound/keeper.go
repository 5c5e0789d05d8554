package bound

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/workspace"
)

// Waits between two attempts to remove a workspace that somebody is in, or that cannot be removed yet.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

const (
	// firstKindRetry and kindInterval are how soon, and in the end how often, the API server is asked again whether it knows
	// workspaces by now.
	firstKindRetry = time.Second
	kindInterval   = 30 * time.Second
)

// Options are what a Keeper works with. All are required.
type Options struct {
	// Pod and PodUID name the Pod.
	Pod, PodUID string
	// Client reaches the workspaces, Active the Runs of the Pod that are not finished, from the API server's store.
	Client *Client
	Active func(ctx context.Context) ([]*corev1alpha1.Run, error)
	// Volume holds the directories, Occupancy says who is in one.
	Volume    *workspace.Volume
	Occupancy *workspace.Occupancy
	// Clock measures the waits.
	Clock clock.Clock
	// Log receives what goes wrong.
	Log logr.Logger
}

// Keeper watches the PersistentWorkspaces that are bound to the Pod, and removes those that are on their way out: first
// the directory, once no Run that is not finished refers to it, then the finalizer. It may be killed at any moment: its
// successor begins anew.
type Keeper struct {
	Options

	mu    sync.Mutex
	bound map[string]*workspacesv1alpha1.PersistentWorkspace // those of this very Pod
	// changed is closed, and replaced, when bound has changed.
	changed chan struct{}
	// isListed tells that bound holds what there is.
	isListed bool
	// busy are the workspaces that are being removed.
	busy map[string]bool
	work sync.WaitGroup
	ctx  context.Context
}

// NewKeeper returns a Keeper that knows of no workspace yet.
func NewKeeper(opts Options) *Keeper {
	return &Keeper{
		Options: opts, bound: map[string]*workspacesv1alpha1.PersistentWorkspace{},
		changed: make(chan struct{}), busy: map[string]bool{},
	}
}

// Run works until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	k.ctx = ctx
	if !k.awaitKind(ctx) {
		return
	}
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 30 * time.Second}
	reflector := cache.NewReflectorWithOptions(
		&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				return k.Client.list(ctx, k.Pod, opts)
			},
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				return k.Client.watch(ctx, k.Pod, opts)
			},
		},
		&workspacesv1alpha1.PersistentWorkspace{}, (*sink)(k),
		cache.ReflectorOptions{Name: "workspaces", Logger: &k.Log, Backoff: &backoff},
	)
	reflector.RunWithContext(ctx)
	k.work.Wait()
}

// awaitKind waits until the API server knows PersistentWorkspaces: where their group is not enabled it does not, nor has runtimed
// a right to them, and it may learn of them later. It returns false when ctx ended before.
func (k *Keeper) awaitKind(ctx context.Context) bool {
	for pause := firstKindRetry; ; pause = min(2*pause, kindInterval) {
		_, err := k.Client.list(ctx, k.Pod, metav1.ListOptions{Limit: 1})
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return ctx.Err() == nil // whatever else is wrong, the watch deals with
		}
		k.mu.Lock()
		k.isListed = true
		k.announce()
		k.mu.Unlock()
		select {
		case <-k.Clock.After(wait.Jitter(pause, 1)):
		case <-ctx.Done():
			return false
		}
	}
}

// Bound returns how many workspaces Runs may still use on this Pod, and a channel that is closed when that may be another
// number. As long as nobody knows, there is one.
func (k *Keeper) Bound() (int, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.isListed {
		return 1, k.changed
	}
	n := 0
	for _, w := range k.bound {
		if w.IsBoundTo(k.Pod, k.PodUID) {
			n++
		}
	}
	return n, k.changed
}

// see takes in a workspace. The caller holds the lock.
func (k *Keeper) see(w *workspacesv1alpha1.PersistentWorkspace) {
	if w.Status.BoundPodUID != k.PodUID {
		return // of an earlier Pod of the name
	}
	k.bound[w.Name] = w
	if isLeaving(w) && !k.busy[w.Name] {
		k.startToEnd(w)
	}
}

// startToEnd starts to remove a workspace. The caller holds the lock.
func (k *Keeper) startToEnd(w *workspacesv1alpha1.PersistentWorkspace) {
	k.busy[w.Name] = true
	k.work.Go(func() { k.end(w.Name, w.UID) })
}

// gone forgets a workspace. The caller holds the lock.
func (k *Keeper) gone(w *workspacesv1alpha1.PersistentWorkspace) {
	if known := k.bound[w.Name]; known != nil && known.UID == w.UID {
		delete(k.bound, w.Name)
	}
}

// announce tells those who wait for a change. The caller holds the lock.
func (k *Keeper) announce() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// isLeaving tells whether the directory of w is to be removed: the controller says that no Run may use it any more, and
// nothing but the finalizer keeps the object.
func isLeaving(w *workspacesv1alpha1.PersistentWorkspace) bool {
	if w.DeletionTimestamp == nil || w.Status.Phase != workspacesv1alpha1.WorkspaceReleased {
		return false
	}
	for _, f := range w.Finalizers {
		if f == workspacesv1alpha1.Finalizer {
			return true
		}
	}
	return false
}

// end removes a workspace, for as long as it takes. Another one of its name that has to be removed by then is next.
func (k *Keeper) end(name string, uid types.UID) {
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.busy, name)
		if next := k.bound[name]; next != nil && next.UID != uid && isLeaving(next) && k.ctx.Err() == nil {
			k.startToEnd(next)
		}
	}()
	backoff := wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 0.2, Steps: 8, Cap: lastRetry}
	for isRepeated := false; ; {
		done, err := k.tryToEnd(name)
		switch {
		case done:
			return
		case apierrors.IsConflict(err):
			// Somebody wrote to it since it was read, the controller as a rule: it is read anew, at once for the first time.
			k.Log.V(1).Info("Looked at the workspace again", "workspace", name, "cause", err.Error())
			if isRepeated = !isRepeated; isRepeated {
				continue
			}
		case err != nil && k.ctx.Err() == nil:
			k.Log.Error(err, "Could not remove the workspace yet", "workspace", name)
		}
		select {
		case <-k.Clock.After(backoff.Step()):
		case <-k.ctx.Done():
			return
		}
	}
}

// tryToEnd removes the workspace if nobody uses it. It returns true when there is nothing left to be done.
func (k *Keeper) tryToEnd(name string) (bool, error) {
	if !k.Occupancy.Close(name) {
		return false, nil
	}
	defer k.Occupancy.Open(name)
	w, err := k.Client.Get(k.ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	case w.Status.BoundPod != k.Pod || w.Status.BoundPodUID != k.PodUID || !isLeaving(w):
		return true, nil // another one of its name
	}
	active, err := k.Active(k.ctx)
	if err != nil {
		return false, err
	}
	for _, run := range active {
		if run.Spec.Workspace != nil && run.Spec.Workspace.Name == name {
			return false, nil
		}
	}
	obstacle, err := k.Volume.Remove(name)
	if err != nil {
		return false, err
	}
	err = k.Client.Finish(k.ctx, w)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err // a conflict leads to another look
	}
	if obstacle != nil {
		k.Log.Info("Found no directory at the path of the workspace, whose files may be left elsewhere",
			"workspace", name, "cause", obstacle.Error())
	}
	k.Log.Info("Removed workspace", "workspace", name, "uid", w.UID)
	return true, nil
}

// sink is the store that the reflector writes to.
type sink Keeper

var _ cache.ReflectorStore = (*sink)(nil)

func (s *sink) Add(obj any) error { return s.Update(obj) }

func (s *sink) Update(obj any) error {
	k := (*Keeper)(s)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.see(obj.(*workspacesv1alpha1.PersistentWorkspace))
	k.announce()
	return nil
}

func (s *sink) Delete(obj any) error {
	k := (*Keeper)(s)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone(obj.(*workspacesv1alpha1.PersistentWorkspace))
	k.announce()
	return nil
}

func (s *sink) Replace(objs []any, _ string) error {
	k := (*Keeper)(s)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isListed = true
	clear(k.bound)
	for _, obj := range objs {
		k.see(obj.(*workspacesv1alpha1.PersistentWorkspace))
	}
	k.announce()
	return nil
}

func (s *sink) Resync() error { return nil }
