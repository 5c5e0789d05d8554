package workspaces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

var errLost = errors.New("the connection was lost")

var key = types.NamespacedName{Namespace: "ns", Name: "ws"}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// lagging is an API server and a manager's cache that follows it late. The real reconciler runs on it, and only when an
// event, an error or a timer asks for it.
type lagging struct {
	client.Client // the API server
	t             *testing.T
	r             *rand.Rand
	clock         *testingclock.FakePassiveClock
	reconciler    *PersistentWorkspaceReconciler

	// The caches, and what has not arrived there yet. Each kind has a watch of its own.
	pods, nodes, runs, workspaces, runtimes follower
	// queue has what the reconciler was asked to look at; timer is when it wants to look without being asked.
	queue queue
	timer time.Time
	// isReliable tells that no watch breaks and no manager is restarted: then no use of the workspace is missed.
	isReliable bool
	// made counts the objects that were made, for their UIDs.
	made int
	// stored is called with what was stored of the workspace by the controller, before and after.
	stored func(before, after *workspacesv1alpha1.PersistentWorkspace)
}

// follower is a cache of one kind with its watch, and who hears of its events.
type follower struct {
	seen    map[string]client.Object
	pending []client.Object // one of type gone was deleted
	hears   func(*lagging) (predicate.Predicate, handler.EventHandler)
}

// gone marks an object in a watch as deleted.
type gone struct{ client.Object }

// DeepCopyObject returns a copy that is marked as well.
func (g gone) DeepCopyObject() runtime.Object { return gone{g.Object.DeepCopyObject().(client.Object)} }

func newLagging(t *testing.T, r *rand.Rand) *lagging {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, corev1alpha1.AddToScheme, workspacesv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	l := &lagging{
		t: t, r: r, clock: testingclock.NewFakePassiveClock(now),
		Client: fake.NewClientBuilder().WithScheme(scheme).
			WithStatusSubresource(&workspacesv1alpha1.PersistentWorkspace{}, &corev1alpha1.Run{}, &corev1.Pod{}).Build(),
	}
	mapped := func(p predicate.Predicate, m func(*PersistentWorkspaceReconciler) handler.MapFunc) func(*lagging) (predicate.Predicate, handler.EventHandler) {
		return func(l *lagging) (predicate.Predicate, handler.EventHandler) {
			return p, handler.EnqueueRequestsFromMapFunc(m(l.reconciler))
		}
	}
	l.pods.hears = mapped(podChanges(), func(r *PersistentWorkspaceReconciler) handler.MapFunc { return r.workspacesOfPod })
	l.nodes.hears = mapped(arrivals(), func(r *PersistentWorkspaceReconciler) handler.MapFunc { return r.workspacesOfNode })
	l.runtimes.hears = mapped(existence(), func(r *PersistentWorkspaceReconciler) handler.MapFunc { return r.workspacesOfRuntime })
	l.runs.hears = func(l *lagging) (predicate.Predicate, handler.EventHandler) {
		return predicate.Funcs{}, l.reconciler.runEnds()
	}
	l.workspaces.hears = func(*lagging) (predicate.Predicate, handler.EventHandler) {
		return predicate.Funcs{}, &handler.EnqueueRequestForObject{}
	}
	l.restart()
	return l
}

func (l *lagging) followers() []*follower {
	return []*follower{&l.pods, &l.nodes, &l.runs, &l.workspaces, &l.runtimes}
}

// restart has a fresh manager fill its caches.
func (l *lagging) restart() {
	l.t.Helper()
	for f, list := range map[*follower]client.ObjectList{&l.pods: &corev1.PodList{}, &l.nodes: &corev1.NodeList{}, &l.runs: &corev1alpha1.RunList{},
		&l.workspaces: &workspacesv1alpha1.PersistentWorkspaceList{}, &l.runtimes: &corev1alpha1.RuntimeList{}} {
		f.seen, f.pending = map[string]client.Object{}, nil
		for _, o := range l.list(list) {
			if l.isWatched(o) {
				f.seen[o.GetName()] = o
			}
		}
	}
	l.reconciler = &PersistentWorkspaceReconciler{Client: l, Live: live{l}, Clock: l.clock, uses: newUses()}
	if l.queue != nil {
		l.queue.ShutDown()
	}
	l.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	l.queue.Add(reconcile.Request{NamespacedName: key})
	l.timer = time.Time{}
}

// isWatched tells whether the cache holds an object: of Pods, it holds those with our labels.
func (l *lagging) isWatched(o client.Object) bool {
	pod, isPod := o.(*corev1.Pod)
	return !isPod || corev1alpha1.PodIsOfRuntime(pod)
}

// list reads from the API server, in order.
func (l *lagging) list(into client.ObjectList) []client.Object {
	l.t.Helper()
	var options []client.ListOption
	if _, isOfCluster := into.(*corev1.NodeList); !isOfCluster {
		options = append(options, client.InNamespace("ns"))
	}
	if err := l.Client.List(l.t.Context(), into, options...); err != nil {
		l.t.Fatal(err)
	}
	var out []client.Object
	switch list := into.(type) {
	case *corev1.NodeList:
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	case *corev1.PodList:
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	case *corev1alpha1.RunList:
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	case *corev1alpha1.RuntimeList:
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	case *workspacesv1alpha1.PersistentWorkspaceList:
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	}
	return out
}

// live is what the reconciler reads from the API server, which selects Runs by their workspace and hands out one at a time.
type live struct{ l *lagging }

func (v live) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return v.l.Client.Get(ctx, key, into, options...)
}

func (v live) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	list, ok := into.(*corev1alpha1.RunList)
	if want := corev1alpha1.FieldWorkspace + "=ws"; !ok || o.FieldSelector.String() != want {
		v.l.t.Fatalf("listed %T by %s", into, o.FieldSelector)
	}
	var page corev1alpha1.RunList
	if err := v.l.Client.List(ctx, &page, client.InNamespace(o.Namespace)); err != nil {
		return err
	}
	page.Items = slices.DeleteFunc(page.Items, func(run corev1alpha1.Run) bool { return run.Spec.Workspace.Name != "ws" || run.Name <= o.Continue })
	if len(page.Items) > 1 {
		page.Items, page.Continue = page.Items[:1], page.Items[0].Name
	}
	answer, err := json.Marshal(page)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, list)
}

// Get reads from the cache, as the reconciler's client does.
func (l *lagging) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *workspacesv1alpha1.PersistentWorkspace:
		if seen, ok := l.workspaces.seen[key.Name].(*workspacesv1alpha1.PersistentWorkspace); ok {
			seen.DeepCopyInto(into)
			return nil
		}
	case *corev1.Pod:
		if seen, ok := l.pods.seen[key.Name].(*corev1.Pod); ok {
			seen.DeepCopyInto(into)
			return nil
		}
	case *metav1.PartialObjectMetadata:
		if seen, ok := l.nodes.seen[key.Name]; ok && into.Kind == "Node" {
			into.Name = seen.GetName()
			return nil
		}
	case *corev1alpha1.Runtime:
		if seen, ok := l.runtimes.seen[key.Name].(*corev1alpha1.Runtime); ok {
			seen.DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
}

// List reads from the cache, by one of the indexes.
func (l *lagging) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	index := o.FieldSelector.Requirements()[0]
	selected := func(f *follower, values client.IndexerFunc) []client.Object {
		var out []client.Object
		for _, name := range slices.Sorted(maps.Keys(f.seen)) {
			if slices.Contains(values(f.seen[name]), index.Value) {
				out = append(out, f.seen[name].DeepCopyObject().(client.Object))
			}
		}
		return out
	}
	switch list := into.(type) {
	case *corev1.PodList:
		values := map[string]client.IndexerFunc{indexRuntimePod: runtimeOf, indexPodNode: nodeOf}[index.Field]
		for _, pod := range selected(&l.pods, values) {
			list.Items = append(list.Items, *pod.(*corev1.Pod))
		}
	case *corev1alpha1.RunList:
		for _, run := range selected(&l.runs, useOf) {
			list.Items = append(list.Items, *run.(*corev1alpha1.Run))
		}
	case *workspacesv1alpha1.PersistentWorkspaceList:
		values := map[string]client.IndexerFunc{indexPod: boundPodOf, indexWaiting: awaitedRuntimeOf}[index.Field]
		for _, w := range selected(&l.workspaces, values) {
			list.Items = append(list.Items, *w.(*workspacesv1alpha1.PersistentWorkspace))
		}
	default:
		l.t.Fatalf("listed %T", into)
	}
	return nil
}

// write carries out what the controller writes, unless it is not carried out, or its answer is lost.
func (l *lagging) write(f func() error) error {
	fate := l.r.IntN(12)
	if fate == 0 {
		return errLost
	}
	before := l.workspace()
	if err := f(); err != nil {
		return err
	}
	after := l.workspace()
	l.tell(after, before)
	l.stored(before, after)
	if fate == 1 {
		return errLost
	}
	return nil
}

// tell lets the watch of workspaces know of a change.
func (l *lagging) tell(after, before *workspacesv1alpha1.PersistentWorkspace) {
	switch {
	case after != nil:
		l.workspaces.pending = append(l.workspaces.pending, after.DeepCopy())
	case before != nil:
		l.workspaces.pending = append(l.workspaces.pending, gone{before.DeepCopy()})
	}
}

// workspace reads the workspace from the API server; nil when it is gone.
func (l *lagging) workspace() *workspacesv1alpha1.PersistentWorkspace {
	l.t.Helper()
	w := &workspacesv1alpha1.PersistentWorkspace{}
	switch err := l.Client.Get(l.t.Context(), key, w); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		l.t.Fatal(err)
	}
	return w
}

// Patch is used for finalizers.
func (l *lagging) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	return l.write(func() error { return l.Client.Patch(ctx, o, patch, options...) })
}

// Delete is used for workspaces that nobody uses.
func (l *lagging) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	return l.write(func() error { return l.Client.Delete(ctx, o, options...) })
}

// Status writes the status of the workspace.
func (l *lagging) Status() client.SubResourceWriter { return laggingStatus{l.Client.Status(), l} }

type laggingStatus struct {
	client.SubResourceWriter
	l *lagging
}

func (s laggingStatus) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return s.l.write(func() error { return s.SubResourceWriter.Patch(ctx, o, patch, options...) })
}

// deliver lets the next event of a watch arrive. Now and then the watch breaks: then only the last form of each object
// arrives, and of one that came and went, nothing.
func (l *lagging) deliver(f *follower) {
	events := f.pending[:1]
	if !l.isReliable && l.r.IntN(5) == 0 {
		events = f.pending
	}
	f.pending = f.pending[len(events):]
	last := map[string]client.Object{}
	for _, o := range events {
		last[o.GetName()] = o
	}
	wanted, hears := f.hears(l)
	ctx := l.t.Context()
	for _, name := range slices.Sorted(maps.Keys(last)) {
		after, before := last[name], f.seen[name]
		_, isGone := after.(gone)
		switch {
		case isGone && before == nil:
		case isGone:
			delete(f.seen, name)
			if e := (event.DeleteEvent{Object: before}); wanted.Delete(e) {
				hears.Delete(ctx, e, l.queue)
			}
		case before == nil:
			f.seen[name] = after
			if e := (event.CreateEvent{Object: after}); wanted.Create(e) {
				hears.Create(ctx, e, l.queue)
			}
		default:
			f.seen[name] = after
			if e := (event.UpdateEvent{ObjectOld: before, ObjectNew: after}); wanted.Update(e) {
				hears.Update(ctx, e, l.queue)
			}
		}
	}
}

// reconcile has the reconciler look once.
func (l *lagging) reconcile() {
	request, _ := l.queue.Get()
	l.queue.Done(request)
	l.timer = time.Time{}
	result, err := l.reconciler.Reconcile(logr.NewContext(l.t.Context(), logr.Discard()), request)
	switch {
	case err != nil && !errors.Is(err, errLost):
		l.t.Fatal(err)
	case err != nil:
		l.queue.Add(request)
	case result.RequeueAfter > 0:
		l.timer = l.clock.Now().Add(result.RequeueAfter)
	}
}

// pass moves the clock on. When nothing else can happen, it moves to the timer.
func (l *lagging) pass(d time.Duration) {
	l.clock.SetTime(l.clock.Now().Add(d))
	if !l.timer.IsZero() && !l.clock.Now().Before(l.timer) {
		l.timer = time.Time{}
		l.queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// uid is one that no object had before.
func (l *lagging) uid() types.UID {
	l.made++
	return types.UID(fmt.Sprintf("uid-%d", l.made))
}

var _ client.Client = (*lagging)(nil)
