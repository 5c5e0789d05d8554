package workflowruns

import (
	"context"
	"maps"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// maxTracked bounds the WorkflowRuns of calls that are watched at the same time. What is beyond shows without its jobs.
const maxTracked = 64

// FamilySight is one observation of a WorkflowRun and its calls.
type FamilySight struct {
	// Sight is what was seen of the WorkflowRun itself.
	Sight
	// Family is all that is known. Nobody changes it any more.
	Family Family
}

// TrackFamily sends what becomes of run and of the WorkflowRuns of its calls, as Track does with run alone. Whatever keeps a
// call from being seen only leaves it out.
func TrackFamily(ctx context.Context, c client.WithWatch, clk clock.Clock, run *workflowsv1alpha1.WorkflowRun) <-chan FamilySight {
	t := &familyTracker{
		client: c, clock: clk, family: Family{Run: run, Children: map[string]*workflowsv1alpha1.WorkflowRun{}},
		tracked: map[string]bool{}, news: make(chan childNews), sights: make(chan FamilySight),
	}
	go func() {
		defer close(t.sights)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		t.loop(ctx, Track(ctx, c, clk, run))
	}()
	return t.sights
}

type familyTracker struct {
	client client.WithWatch
	clock  clock.Clock
	family Family
	// tracked are the names of the children that are being watched, or were until they had ended.
	tracked map[string]bool
	active  int
	news    chan childNews
	sights  chan FamilySight
}

// childNews is what a watch of a call saw.
type childNews struct {
	name string
	// child is nil where the call could not be read.
	child *workflowsv1alpha1.WorkflowRun
	// over tells that no more will come.
	over bool
}

// loop sends a sight for each thing that happens, until nothing more can.
func (t *familyTracker) loop(ctx context.Context, sights <-chan Sight) {
	last := Sight{Object: t.family.Run}
	for {
		select {
		case <-ctx.Done():
			return
		case sight, open := <-sights:
			if !open {
				return
			}
			last = Sight{Object: sight.Object, Deleted: sight.Deleted}
			t.family.Run = sight.Object
			if Phase(sight.Object).IsTerminal() { // what the watches of its calls have not told yet
				if whole, err := Load(ctx, t.client, sight.Object); err == nil {
					t.family = whole
				}
			}
			t.trackCalls(ctx, sight.Object)
			if !t.send(ctx, sight) {
				return
			}
		case news := <-t.news:
			if news.over {
				t.active--
			}
			if news.child == nil {
				delete(t.tracked, news.name) // the next sight of its parent is another try
				continue
			}
			t.family.Children[news.child.Name] = news.child
			t.trackCalls(ctx, news.child)
			if !t.send(ctx, last) {
				return
			}
		}
	}
}

// trackCalls begins to watch the calls of a WorkflowRun that are not watched yet.
func (t *familyTracker) trackCalls(ctx context.Context, parent *workflowsv1alpha1.WorkflowRun) {
	for _, job := range calls(parent) {
		name := parent.Status.Jobs[job].WorkflowRunName
		if known := t.family.Child(parent, job); t.tracked[name] || t.active >= maxTracked || known != nil && Phase(known).IsTerminal() {
			continue
		}
		t.tracked[name] = true
		t.active++
		go t.trackChild(ctx, client.ObjectKey{Namespace: parent.Namespace, Name: name})
	}
}

// trackChild tells what becomes of one call until it has ended.
func (t *familyTracker) trackChild(ctx context.Context, key client.ObjectKey) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	child, err := Get(ctx, t.client, key.Namespace, key.Name)
	if err != nil {
		t.tell(ctx, childNews{name: key.Name, over: true})
		return
	}
	for sight := range Track(ctx, t.client, t.clock, child) {
		over := sight.Deleted || sight.Err != nil || Phase(sight.Object).IsTerminal()
		if !t.tell(ctx, childNews{name: key.Name, child: sight.Object, over: over}) || over {
			return
		}
	}
}

func (t *familyTracker) tell(ctx context.Context, news childNews) bool {
	select {
	case t.news <- news:
		return true
	case <-ctx.Done():
		return false
	}
}

// send sends a sight with what is known now.
func (t *familyTracker) send(ctx context.Context, sight Sight) bool {
	family := Family{Run: t.family.Run, Children: maps.Clone(t.family.Children)}
	select {
	case t.sights <- FamilySight{Sight: sight, Family: family}:
		return true
	case <-ctx.Done():
		return false
	}
}
