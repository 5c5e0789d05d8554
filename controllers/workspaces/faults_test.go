package workspaces

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// game plays with one workspace: Pods and Runs come and go, runtimed cleans up, and users change their minds. A referee
// holds every write of the controller against what the API server has at that moment.
type game struct {
	*lagging
	// ends are when Runs ended to use the workspace. One that came and went before the cache heard of it is not among them:
	// nobody can know of it.
	ends map[string]time.Time
	// boundAt is when it was bound.
	boundAt time.Time
	phases  []workspacesv1alpha1.WorkspacePhase
	// kept counts how often a workspace that was used rested Bound.
	kept int
	// looks counts the times in a row that the controller looked at an unwatched Pod.
	looks int
}

func newGame(t *testing.T, r *rand.Rand, isReliable bool) *game {
	t.Helper()
	g := &game{lagging: newLagging(t, r), ends: map[string]time.Time{}}
	g.isReliable, g.stored = isReliable, g.referee
	w := pending().workspace.DeepCopy()
	w.CreationTimestamp, w.UID = metav1.NewTime(now), g.uid()
	if r.IntN(2) == 0 {
		w.Finalizers = []string{workspacesv1alpha1.Finalizer}
	}
	if r.IntN(2) == 0 {
		seconds := int32(r.IntN(20))
		w.Spec.CleanupPolicy, w.Spec.TTLSecondsAfterUnused = workspacesv1alpha1.CleanupDeleteAfterTTL, &seconds
	}
	g.create(&g.workspaces, w)
	return g
}

// create makes an object as somebody else than the controller does.
func (g *game) create(f *follower, o client.Object) {
	g.t.Helper()
	if err := g.Client.Create(g.t.Context(), o); err != nil {
		g.t.Fatal(err)
	}
	f.pending = append(f.pending, o.DeepCopyObject().(client.Object))
}

func (g *game) update(f *follower, o client.Object, isStatus bool) {
	g.t.Helper()
	err := error(nil)
	if isStatus {
		err = g.Client.Status().Update(g.t.Context(), o)
	} else {
		err = g.Client.Update(g.t.Context(), o)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	if err := g.Client.Get(g.t.Context(), client.ObjectKeyFromObject(o), o); apierrors.IsNotFound(err) {
		f.pending = append(f.pending, gone{o.DeepCopyObject().(client.Object)})
		return
	}
	if !g.isWatched(o) {
		o = gone{o}
	}
	f.pending = append(f.pending, o.DeepCopyObject().(client.Object))
}

func (g *game) remove(f *follower, o client.Object) {
	g.t.Helper()
	if err := g.Client.Delete(g.t.Context(), o); err != nil {
		g.t.Fatal(err)
	}
	if err := g.Client.Get(g.t.Context(), client.ObjectKeyFromObject(o), o); err == nil {
		f.pending = append(f.pending, o.DeepCopyObject().(client.Object))
		return
	}
	f.pending = append(f.pending, gone{o.DeepCopyObject().(client.Object)})
}

func (g *game) livePods() (pods []*corev1.Pod) {
	for _, o := range g.list(&corev1.PodList{}) {
		pods = append(pods, o.(*corev1.Pod))
	}
	return pods
}

func (g *game) liveRuns() (runs []*corev1alpha1.Run) {
	for _, o := range g.list(&corev1alpha1.RunList{}) {
		runs = append(runs, o.(*corev1alpha1.Run))
	}
	return runs
}

func (g *game) holder(w *workspacesv1alpha1.PersistentWorkspace) *corev1.Pod {
	for _, pod := range g.livePods() {
		if holds(pod, w) {
			return pod
		}
	}
	return nil
}

func (g *game) isInUse() bool {
	return slices.ContainsFunc(g.liveRuns(), func(run *corev1alpha1.Run) bool { return !run.Status.Phase.IsTerminal() })
}

// used is when the workspace was last used.
func (g *game) used() time.Time {
	var last time.Time
	for _, end := range g.ends {
		last = latest(last, end)
	}
	return last
}

// referee looks at a write of the controller.
func (g *game) referee(before, after *workspacesv1alpha1.PersistentWorkspace) {
	g.t.Helper()
	if before == nil {
		g.t.Fatal("wrote to a workspace that is gone")
	}
	if isHeld(before) && !isHeld(after) {
		g.refereeLettingGo(before)
	}
	if others := slices.Contains(before.Finalizers, othersFinalizer); others && (after == nil || !slices.Contains(after.Finalizers, othersFinalizer)) {
		g.t.Fatal("took somebody else's finalizer off")
	}
	switch {
	case after == nil:
	case before.Status.Phase != after.Status.Phase:
		g.refereeBinding(before, after)
		g.refereePhase(before.Status.Phase, after)
	case before.DeletionTimestamp == nil && after.DeletionTimestamp != nil:
		g.refereeExpiry(after, "deleted")
	default:
		g.refereeBinding(before, after)
	}
}

// isHeld tells whether w, which is nil when it is gone, has the finalizer.
func isHeld(w *workspacesv1alpha1.PersistentWorkspace) bool {
	return w != nil && slices.Contains(w.Finalizers, workspacesv1alpha1.Finalizer)
}

// refereeLettingGo checks that a workspace which loses its finalizer has no directory.
func (g *game) refereeLettingGo(w *workspacesv1alpha1.PersistentWorkspace) {
	g.t.Helper()
	if w.Status.BoundPod != "" && (w.Status.Phase != workspacesv1alpha1.WorkspaceLost || g.holder(w) != nil) {
		g.t.Fatalf("took the finalizer off a workspace that is %s and has a Pod: %t", w.Status.Phase, g.holder(w) != nil)
	}
}

// refereeBinding checks what never changes or goes back.
func (g *game) refereeBinding(before, after *workspacesv1alpha1.PersistentWorkspace) {
	g.t.Helper()
	was, is := before.Status, after.Status
	if was.BoundPod != "" && (was.BoundPodUID != is.BoundPodUID || was.Path != is.Path) {
		g.t.Fatalf("bound again: from %s to %s", was.BoundPodUID, is.BoundPodUID)
	}
	if last := was.LastUsedTime; last != nil && (is.LastUsedTime == nil || is.LastUsedTime.Time.Before(last.Time)) {
		g.t.Fatalf("lastUsedTime went from %v to %v", last, is.LastUsedTime)
	}
}

// refereePhase checks a change of the phase.
func (g *game) refereePhase(from workspacesv1alpha1.WorkspacePhase, w *workspacesv1alpha1.PersistentWorkspace) {
	g.t.Helper()
	g.phases = append(g.phases, w.Status.Phase)
	pod := g.holder(w)
	switch change := string(from + " to " + w.Status.Phase); change {
	case "Pending to Bound":
		if pod == nil || !g.isCandidate(pod) || !isHeld(w) {
			g.t.Fatalf("bound to a Pod that is no candidate: %+v, finalizers %v", pod, w.Finalizers)
		}
		g.boundAt = g.clock.Now()
	case "Bound to Lost", "Released to Lost":
		if pod != nil {
			g.t.Fatal("lost, though its Pod is there")
		}
	case "Bound to Released":
		if w.DeletionTimestamp == nil {
			g.refereeExpiry(w, "released")
		}
	default:
		g.t.Fatalf("went from %s", change)
	}
}

// refereeExpiry checks that a workspace which ends by itself is not in use, and has been unused for its time to live.
func (g *game) refereeExpiry(w *workspacesv1alpha1.PersistentWorkspace, what string) {
	g.t.Helper()
	if w.Status.Phase == "Released" && what == "deleted" {
		return // decided when it was released
	}
	if g.isInUse() {
		g.t.Fatalf("%s while a Run uses it", what)
	}
	if ttl := w.Spec.TTLSecondsAfterUnused; ttl == nil || w.Spec.CleanupPolicy != workspacesv1alpha1.CleanupDeleteAfterTTL {
		g.t.Fatalf("%s though it was to be kept", what)
	} else if unused := g.clock.Now().Sub(latest(g.used(), g.boundAt.Truncate(time.Second))); g.isReliable && unused < time.Duration(*ttl)*time.Second {
		g.t.Fatalf("%s after %s, within its time to live of %d s", what, unused, *ttl)
	}
}

// step lets one thing happen, chosen at random among what can.
func (g *game) step(isWild bool) (happened bool) {
	var moves []func()
	for _, f := range g.followers() {
		if len(f.pending) > 0 {
			moves = append(moves, func() { g.deliver(f) }, func() { g.deliver(f) })
		}
	}
	if g.queue.Len() > 0 {
		moves = append(moves, g.reconcile, g.reconcile)
	}
	moves = append(moves, g.endings()...)
	if isWild {
		moves = append(moves, g.playPods, g.playNodes, g.playRuns, g.playRuns, g.playUsers, func() { g.pass(time.Duration(g.r.IntN(3000)) * time.Millisecond) })
	}
	if len(moves) == 0 {
		return false
	}
	if !g.isReliable && g.r.IntN(80) == 0 {
		g.restart()
		return true
	}
	moves[g.r.IntN(len(moves))]()
	return true
}

// endings are what others do about a workspace that is being deleted: runtimed, once it is Released and no Run uses it, and
// whoever else holds it.
func (g *game) endings() (moves []func()) {
	w := g.workspace()
	if w == nil || w.DeletionTimestamp == nil {
		return nil
	}
	take := func(finalizer string) {
		w.Finalizers = without(w.Finalizers, finalizer)
		g.update(&g.workspaces, w, false)
	}
	if w.Status.Phase == workspacesv1alpha1.WorkspaceReleased && isHeld(w) && g.holder(w) != nil && !g.isInUse() {
		moves = append(moves, func() { take(workspacesv1alpha1.Finalizer) })
	}
	if slices.Contains(w.Finalizers, othersFinalizer) {
		moves = append(moves, func() { take(othersFinalizer) })
	}
	return moves
}

func (g *game) playPods() {
	pods := g.livePods()
	if len(pods) < 2 && g.r.IntN(2) == 0 {
		name := []string{"a", "b"}[g.r.IntN(2)]
		if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Name == name }) {
			pod := readyPod(name)
			pod.UID, pod.Spec.NodeName = g.uid(), "node-"+name
			g.create(&g.pods, pod)
		}
		return
	}
	if len(pods) == 0 {
		return
	}
	switch pod := pods[g.r.IntN(len(pods))]; g.r.IntN(20) {
	case 0:
		g.remove(&g.pods, pod)
	case 1:
		pod.Status.Phase = corev1.PodFailed
		g.update(&g.pods, pod, true)
	case 2: // Somebody takes the labels away: to the watch, the Pod is gone.
		pod.Labels = nil
		g.update(&g.pods, pod, false)
	case 3, 4, 5, 6, 7:
		notReady(pod)
		g.update(&g.pods, pod, true)
	default:
		if !hasEnded(pod) {
			pod.Status.Conditions[0].Status = corev1.ConditionTrue
			g.update(&g.pods, pod, true)
		}
	}
}

// playNodes lets Nodes come, and now and then go. Their Pods stay as they were.
func (g *game) playNodes() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: []string{"node-a", "node-b"}[g.r.IntN(2)]}}
	switch isThere := g.isThere(node); {
	case !isThere:
		node.UID = g.uid()
		g.create(&g.nodes, node)
	case g.r.IntN(4) == 0:
		g.remove(&g.nodes, node)
	}
}

func (g *game) isThere(o client.Object) bool {
	g.t.Helper()
	err := g.Client.Get(g.t.Context(), client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil {
		g.t.Fatal(err)
	}
	return err == nil
}

// isCandidate tells whether a Pod is one that has its Node.
func (g *game) isCandidate(pod *corev1.Pod) bool {
	g.t.Helper()
	return isCandidate(pod) && g.isThere(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}})
}

func (g *game) playRuns() {
	runs := g.liveRuns()
	if len(runs) < 2 {
		run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "run-" + string(g.uid()), UID: g.uid()},
			Spec: corev1alpha1.RunSpec{Workspace: &corev1alpha1.WorkspaceReference{Name: "ws"}}}
		g.create(&g.runs, run)
		return
	}
	switch run := runs[g.r.IntN(len(runs))]; {
	case !run.Status.Phase.IsTerminal() && g.r.IntN(4) > 0:
		g.finish(run)
	default:
		if _, isKnown := g.runs.seen[run.Name]; !isKnown {
			delete(g.ends, run.Name)
		} else if !run.Status.Phase.IsTerminal() {
			g.ends[run.Name] = g.clock.Now()
		}
		g.remove(&g.runs, run)
	}
}

func (g *game) finish(run *corev1alpha1.Run) {
	run.Status.Phase, run.Status.CompletionTime = corev1alpha1.RunSucceeded, &metav1.MicroTime{Time: g.clock.Now()}
	g.ends[run.Name] = g.clock.Now()
	g.update(&g.runs, run, true)
}

func (g *game) playUsers() {
	if runtimes := g.list(&corev1alpha1.RuntimeList{}); len(runtimes) == 0 {
		g.create(&g.runtimes, &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sh", UID: g.uid()}})
	} else if g.r.IntN(20) == 0 {
		g.remove(&g.runtimes, runtimes[0])
	}
	w := g.workspace()
	if w == nil || w.DeletionTimestamp != nil {
		return
	}
	switch g.r.IntN(40) {
	case 0:
		g.remove(&g.workspaces, w)
	case 1, 2, 3:
		seconds := int32(g.r.IntN(20))
		w.Spec.CleanupPolicy, w.Spec.TTLSecondsAfterUnused = workspacesv1alpha1.CleanupDeleteAfterTTL, &seconds
		g.update(&g.workspaces, w, false)
	case 4:
		w.Spec.CleanupPolicy = workspacesv1alpha1.CleanupRetain
		g.update(&g.workspaces, w, false)
	case 5, 6:
		if !slices.Contains(w.Finalizers, othersFinalizer) {
			w.Finalizers = append(w.Finalizers, othersFinalizer)
			g.update(&g.workspaces, w, false)
		}
	case 7:
		if w.Status.BoundPod == "" { // The policy allows it while there is no directory.
			w.Finalizers = without(w.Finalizers, workspacesv1alpha1.Finalizer)
			g.update(&g.workspaces, w, false)
		}
	}
}

// othersFinalizer is somebody else's, who takes it off when the workspace is deleted.
const othersFinalizer = "example.com/other"

func without(finalizers []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == one })
}

// settle ends all Runs and lets everything happen that is left to happen, timers included. A Pod whose end would not be heard
// of is looked at for ever, so that three of these looks without a write are the end.
func (g *game) settle() {
	g.t.Helper()
	for range 20_000 {
		for _, run := range g.liveRuns() {
			if !run.Status.Phase.IsTerminal() {
				g.finish(run)
			}
		}
		if g.step(false) {
			continue
		}
		wait := g.timer.Sub(g.clock.Now())
		if wait < podRecheck {
			g.looks = 0
		} else {
			g.looks++
		}
		if g.timer.IsZero() || g.looks > 3 {
			g.looks = 0
			return
		}
		g.pass(wait)
	}
	g.t.Fatal("no rest after 20,000 steps")
}

// TestFaultsBreakNoRule plays on caches that lag, watches that break, writes that fail or whose answer is lost, and managers
// that are restarted. Whatever happens, the referee has nothing to say, and the workspace comes to where it should be.
func TestFaultsBreakNoRule(t *testing.T) {
	seen, kept := map[workspacesv1alpha1.WorkspacePhase]int{}, 0
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := newGame(t, r, seed%2 == 0)
		for range 150 {
			g.step(true)
		}
		g.settle()
		g.expectRest(seed)
		for range 6 { // What happens to Pods and Nodes alone is heard of, too.
			g.playPods()
			g.playNodes()
			g.settle()
			g.expectRest(seed)
		}
		if w := g.workspace(); w != nil && w.DeletionTimestamp == nil {
			g.remove(&g.workspaces, w)
		}
		g.settle()
		if w := g.workspace(); w != nil {
			t.Fatalf("seed %d: deleted, and still there: %+v, finalizers %v", seed, w.Status, w.Finalizers)
		}
		for _, phase := range g.phases {
			seen[phase]++
		}
		kept += g.kept
	}
	if kept < 10 {
		t.Errorf("a workspace that was used rested Bound only %d times", kept)
	}
	for _, phase := range []workspacesv1alpha1.WorkspacePhase{"Bound", "Lost", "Released"} {
		if seen[phase] < 10 {
			t.Errorf("the games came to %s only %d times", phase, seen[phase])
		}
	}
}

// expectRest looks at a workspace of which nothing is left to happen.
func (g *game) expectRest(seed uint64) {
	g.t.Helper()
	w := g.workspace()
	if w == nil {
		return
	}
	switch phase := w.Status.Phase; {
	case phase == "Pending" && g.isReady():
		g.t.Fatalf("seed %d: waits, though a Pod is ready", seed)
	case phase == "Released":
		g.t.Fatalf("seed %d: Released, and not gone", seed)
	case phase == "Bound":
		g.expectKept(seed, w)
	}
}

// isReady tells whether the Runtime is there and has a ready Pod.
func (g *game) isReady() bool {
	return len(g.list(&corev1alpha1.RuntimeList{})) > 0 &&
		slices.ContainsFunc(g.livePods(), func(pod *corev1.Pod) bool { return g.isCandidate(pod) && g.isWatched(pod) })
}

// expectKept looks at a Bound workspace of which nothing is left to happen.
func (g *game) expectKept(seed uint64, w *workspacesv1alpha1.PersistentWorkspace) {
	g.t.Helper()
	last, used := w.Status.LastUsedTime, g.used()
	if g.isReliable && used.After(g.boundAt) {
		g.kept++
	}
	switch {
	case g.holder(w) == nil:
		g.t.Fatalf("seed %d: Bound, though its Pod is gone", seed)
	case w.Spec.CleanupPolicy == workspacesv1alpha1.CleanupDeleteAfterTTL:
		g.t.Fatalf("seed %d: unused for ever, and kept", seed)
	case g.isReliable && used.After(g.boundAt) && (last == nil || last.Time.Before(used)):
		g.t.Fatalf("seed %d: last used at %v, but %v is written", seed, used, last)
	}
}
