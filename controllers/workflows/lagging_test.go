package workflows

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

var errLost = errors.New("the connection was lost")

// lagging is an API server and a manager's cache that follows it late. The real reconciler runs on it, and only when an
// event, an error or a timer asks for it.
type lagging struct {
	client.Client // the API server
	t             *testing.T
	r             *rand.Rand
	clock         *testingclock.FakePassiveClock
	reconciler    *WorkflowRunReconciler

	// runs, owners, calls and workspaces are the caches, and what has not arrived there yet. Each kind has a watch of its own.
	runs, owners, calls, workspaces follower
	// config is the manager's configuration; nil: no workspaces.
	config *JobWorkspaces
	// due tells that the reconciler was asked to look; timer when it wants to look without being asked.
	due   bool
	timer time.Time
	// created counts the Runs that were made for each step, furnished the workspaces for each job.
	created   map[identity]int
	furnished map[string]int
	uids      int
	// writing lets one write at a time through: an action makes several at once.
	writing sync.Mutex
}

// follower is a cache of one kind with its watch.
type follower struct {
	seen    map[string]client.Object
	pending []client.Object // a deleted object has a deletion timestamp
}

const flow = "flow"

var flowKey = types.NamespacedName{Namespace: "ns", Name: flow}

func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1alpha1.AddToScheme, workflowsv1alpha1.AddToScheme,
		workspacesv1alpha1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func newLagging(t *testing.T, r *rand.Rand, g game, config *JobWorkspaces) *lagging {
	t.Helper()
	objects := []client.Object{newWorld(t, g.jobs).run, &workflowsv1alpha1.Workflow{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: callee},
		Spec:       workflowsv1alpha1.WorkflowSpec{Jobs: map[string]workflowsv1alpha1.Job{"j": {RunsOn: "sh", Steps: steps("s")}}},
	}}
	for name, spec := range g.actions {
		objects = append(objects, &workflowsv1alpha1.Action{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: *spec})
	}
	l := &lagging{
		t: t, r: r, clock: testingclock.NewFakePassiveClock(start), config: config,
		created: map[identity]int{}, furnished: map[string]int{},
		Client: fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(objects...).
			WithStatusSubresource(&workflowsv1alpha1.WorkflowRun{}, &corev1alpha1.Run{}, &workspacesv1alpha1.PersistentWorkspace{}).Build(),
	}
	l.restart()
	return l
}

// restart has a fresh manager fill its caches.
func (l *lagging) restart() {
	l.t.Helper()
	for _, f := range []*follower{&l.runs, &l.owners, &l.calls, &l.workspaces} {
		*f = follower{seen: map[string]client.Object{}}
	}
	for _, child := range l.liveRuns() {
		l.runs.seen[child.Name] = child
	}
	for _, w := range l.liveWorkspaces() {
		l.workspaces.seen[w.Name] = w
	}
	for _, call := range l.liveCalls() {
		l.calls.seen[call.Name] = trimmed(l.t, call)
	}
	l.owners.seen[flow] = l.live()
	l.reconciler = &WorkflowRunReconciler{Client: l, Live: l.Client, Clock: l.clock, Workspaces: l.config, memory: newMemory()}
	l.due, l.timer = true, time.Time{}
}

func (l *lagging) live() *workflowsv1alpha1.WorkflowRun {
	l.t.Helper()
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := l.Client.Get(l.t.Context(), flowKey, run); err != nil {
		l.t.Fatal(err)
	}
	return run
}

func (l *lagging) liveRuns() []*corev1alpha1.Run {
	l.t.Helper()
	var list corev1alpha1.RunList
	if err := l.Client.List(l.t.Context(), &list, client.InNamespace("ns")); err != nil {
		l.t.Fatal(err)
	}
	out := make([]*corev1alpha1.Run, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out
}

func (l *lagging) liveWorkspaces() []*workspacesv1alpha1.PersistentWorkspace {
	l.t.Helper()
	var list workspacesv1alpha1.PersistentWorkspaceList
	if err := l.Client.List(l.t.Context(), &list, client.InNamespace("ns")); err != nil {
		l.t.Fatal(err)
	}
	out := make([]*workspacesv1alpha1.PersistentWorkspace, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out
}

// liveCalls are the child WorkflowRuns.
func (l *lagging) liveCalls() []*workflowsv1alpha1.WorkflowRun {
	l.t.Helper()
	list := &workflowsv1alpha1.WorkflowRunList{}
	if err := l.Client.List(l.t.Context(), list, client.HasLabels{workflowsv1alpha1.LabelWorkflowRunUID}); err != nil {
		l.t.Fatal(err)
	}
	out := make([]*workflowsv1alpha1.WorkflowRun, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out
}

// trimmed is a WorkflowRun as the cache holds it.
func trimmed(t *testing.T, run *workflowsv1alpha1.WorkflowRun) client.Object {
	t.Helper()
	out, err := trimWorkflowRun(run.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	return out.(client.Object)
}

// Get reads from the cache, as the reconciler's client does.
func (l *lagging) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	run, ok := into.(*workflowsv1alpha1.WorkflowRun)
	if !ok {
		return l.Client.Get(ctx, key, into)
	}
	seen, ok := l.owners.seen[key.Name].(*workflowsv1alpha1.WorkflowRun)
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "workflowruns"}, key.Name)
	}
	seen.DeepCopyInto(run)
	return nil
}

// List reads from the cache what belongs to an owner.
func (l *lagging) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	switch list := into.(type) {
	case *corev1alpha1.RunList:
		for _, name := range sortedKeys(l.runs.seen) {
			list.Items = append(list.Items, *l.runs.seen[name].(*corev1alpha1.Run))
		}
	case *workflowsv1alpha1.WorkflowRunList:
		for _, name := range sortedKeys(l.calls.seen) {
			list.Items = append(list.Items, *l.calls.seen[name].(*workflowsv1alpha1.WorkflowRun))
		}
	case *workspacesv1alpha1.PersistentWorkspaceList:
		for _, name := range sortedKeys(l.workspaces.seen) {
			list.Items = append(list.Items, *l.workspaces.seen[name].(*workspacesv1alpha1.PersistentWorkspace))
		}
	default:
		return l.Client.List(ctx, into, options...)
	}
	return nil
}

// fault decides what becomes of a write: it may not be carried out, or its answer may be lost.
func (l *lagging) fault(write func() error) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	switch l.r.IntN(12) {
	case 0:
		return errLost
	case 1:
		if err := write(); err != nil {
			return err
		}
		return errLost
	default:
		return write()
	}
}

// Create makes a child, a workspace or a snapshot. A Run whose workspace is not there is refused, as the webhook does.
func (l *lagging) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	return l.fault(func() error {
		l.uids++
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", l.uids)))
		if run, ok := o.(*corev1alpha1.Run); ok {
			run.Status.Phase = corev1alpha1.RunPending
			if ref := run.Spec.Workspace; ref != nil {
				key := client.ObjectKey{Namespace: run.Namespace, Name: ref.Name}
				if err := l.Client.Get(ctx, key, &workspacesv1alpha1.PersistentWorkspace{}); err != nil {
					return apierrors.NewInvalid(schema.GroupKind{Kind: "Run"}, run.Name, nil)
				}
			}
		}
		if err := l.Client.Create(ctx, o, options...); err != nil {
			return err
		}
		switch o := o.(type) {
		case *corev1alpha1.Run:
			l.created[identityOf(o)]++
			l.runs.pending = append(l.runs.pending, o.DeepCopy())
		case *workflowsv1alpha1.WorkflowRun:
			l.created[identityOf(o)]++
			l.calls.pending = append(l.calls.pending, o.DeepCopy())
		case *workspacesv1alpha1.PersistentWorkspace:
			l.furnished[jobOf(o)]++
			l.workspaces.pending = append(l.workspaces.pending, o.DeepCopy())
		}
		return nil
	})
}

// Delete is used for workspaces. Their finalizer keeps them until sweep takes it off.
func (l *lagging) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	return l.fault(func() error {
		if err := l.Client.Delete(ctx, o, options...); err != nil {
			return err
		}
		w := &workspacesv1alpha1.PersistentWorkspace{}
		if err := l.Client.Get(ctx, client.ObjectKeyFromObject(o), w); err != nil {
			return err
		}
		l.workspaces.pending = append(l.workspaces.pending, w)
		return nil
	})
}

// change changes a workspace as its controller does, or as a user does.
func (l *lagging) changeWorkspace(w *workspacesv1alpha1.PersistentWorkspace, write func(*workspacesv1alpha1.PersistentWorkspace) error) {
	l.t.Helper()
	if err := write(w); err != nil {
		l.t.Fatal(err)
	}
	after := &workspacesv1alpha1.PersistentWorkspace{}
	switch err := l.Client.Get(l.t.Context(), client.ObjectKeyFromObject(w), after); {
	case err == nil:
		l.workspaces.pending = append(l.workspaces.pending, after)
	case apierrors.IsNotFound(err):
		l.workspaces.pending = append(l.workspaces.pending, &gone{w})
	default:
		l.t.Fatal(err)
	}
}

// sweep lets a workspace go that is being deleted.
func (l *lagging) sweep(w *workspacesv1alpha1.PersistentWorkspace) {
	l.t.Helper()
	l.changeWorkspace(w, func(w *workspacesv1alpha1.PersistentWorkspace) error {
		w.Finalizers = nil
		return l.Client.Update(l.t.Context(), w)
	})
}

// lose makes a workspace lost.
func (l *lagging) lose(w *workspacesv1alpha1.PersistentWorkspace) {
	l.t.Helper()
	l.changeWorkspace(w, func(w *workspacesv1alpha1.PersistentWorkspace) error {
		w.Status.Phase = workspacesv1alpha1.WorkspaceLost
		return l.Client.Status().Update(l.t.Context(), w)
	})
}

// gone says that an object is gone, where its deletion timestamp alone does not.
type gone struct{ client.Object }

// Patch is used for cancelling children.
func (l *lagging) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	return l.fault(func() error {
		if err := l.Client.Patch(ctx, o, patch, options...); err != nil {
			return err
		}
		switch o := o.(type) {
		case *corev1alpha1.Run:
			l.runs.pending = append(l.runs.pending, o.DeepCopy())
		case *workflowsv1alpha1.WorkflowRun:
			l.calls.pending = append(l.calls.pending, o.DeepCopy())
		default:
			l.t.Fatalf("patched a %T", o)
		}
		return nil
	})
}

// Status writes the status of the WorkflowRun.
func (l *lagging) Status() client.SubResourceWriter { return laggingStatus{l.Client.Status(), l} }

type laggingStatus struct {
	client.SubResourceWriter
	l *lagging
}

func (s laggingStatus) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return s.l.fault(func() error {
		if err := s.SubResourceWriter.Patch(ctx, o, patch, options...); err != nil {
			return err
		}
		s.l.owners.pending = append(s.l.owners.pending, o.DeepCopyObject().(client.Object))
		return nil
	})
}

// deliver lets the next event of a watch arrive. Now and then the watch breaks: then only the last form of each object
// arrives, and of one that came and went, nothing.
func (l *lagging) deliver(f *follower, news predicate.Predicate) {
	events := f.pending[:1]
	if l.r.IntN(5) == 0 {
		events = f.pending
	}
	f.pending = f.pending[len(events):]
	last := map[string]client.Object{}
	for _, o := range events {
		last[o.GetName()] = o
	}
	for _, name := range sortedKeys(last) {
		after, before := last[name], f.seen[name]
		_, isGone := after.(*gone)
		switch isGone = isGone || !after.GetDeletionTimestamp().IsZero() && len(after.GetFinalizers()) == 0; {
		case isGone && before == nil:
		case isGone:
			delete(f.seen, name)
			l.due = l.due || news.Delete(event.DeleteEvent{Object: before})
		case before == nil:
			f.seen[name] = after
			l.due = l.due || news.Create(event.CreateEvent{Object: after})
		default:
			f.seen[name] = after
			l.due = l.due || news.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
		}
	}
}

// reconcile has the reconciler look once.
func (l *lagging) reconcile() {
	l.due, l.timer = false, time.Time{}
	result, err := l.reconciler.Reconcile(l.t.Context(), reconcile.Request{NamespacedName: flowKey})
	switch {
	case err != nil:
		l.due = true
	case result.RequeueAfter > 0:
		l.timer = l.clock.Now().Add(result.RequeueAfter)
	}
}

// wait moves the clock on to the timer. Without one, nothing would ever happen again.
func (l *lagging) wait() bool {
	if l.timer.IsZero() {
		return false
	}
	l.clock.SetTime(l.timer)
	l.due = true
	return true
}
