package workflows

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// step lets one thing happen, chosen at random among what can: an event arrives, the reconciler looks, a Run ends or is
// deleted by hand, the manager is restarted. It returns false when nothing can happen any more.
func (l *lagging) step(g game) bool {
	var moves []func()
	if len(l.runs.pending) > 0 {
		moves = append(moves, func() { l.deliver(&l.runs, childChanges()) })
	}
	if len(l.owners.pending) > 0 {
		moves = append(moves, func() { l.deliver(&l.owners, ownChanges()) })
	}
	if len(l.calls.pending) > 0 {
		moves = append(moves, func() { l.deliver(&l.calls, callChanges()) })
	}
	if len(l.workspaces.pending) > 0 {
		moves = append(moves, func() { l.deliver(&l.workspaces, workspaceChanges()) })
	}
	if l.due {
		moves = append(moves, l.reconcile)
	}
	for _, w := range l.liveWorkspaces() {
		if w.DeletionTimestamp != nil {
			moves = append(moves, func() { l.sweep(w) })
		}
	}
	for _, child := range l.liveRuns() {
		if !child.Status.Phase.IsTerminal() {
			moves = append(moves, func() { l.play(g, child) })
		}
	}
	for _, child := range l.liveCalls() {
		if !child.Status.Phase.IsTerminal() {
			moves = append(moves, func() { l.playCall(g, child) })
		}
	}
	if len(moves) == 0 {
		return l.wait()
	}
	if l.r.IntN(60) == 0 {
		l.restart()
		return true
	}
	moves[l.r.IntN(len(moves))]()
	return true
}

// play ends a Run as the game says, or deletes it by hand. Nobody can tell a child that was deleted before it was
// recorded from one that was never made, so that is not played.
func (l *lagging) play(g game, child *corev1alpha1.Run) {
	l.t.Helper()
	id := identityOf(child)
	phase := g.outcomes[id]
	l.clock.SetTime(l.clock.Now().Add(time.Millisecond))
	if phase == "" && !child.Spec.CancelRequested {
		if recorded(&l.live().Status)[id] == "" {
			return
		}
		if err := l.Client.Delete(l.t.Context(), child); err != nil {
			l.t.Fatal(err)
		}
		child.DeletionTimestamp = &metav1.Time{Time: l.clock.Now()}
		l.runs.pending = append(l.runs.pending, child)
		return
	}
	if child.Spec.CancelRequested {
		phase = corev1alpha1.RunCancelled
	}
	child.Status.Phase, child.Status.CompletionTime = phase, micro(l.clock.Now())
	if err := l.Client.Status().Update(l.t.Context(), child); err != nil {
		l.t.Fatal(err)
	}
	l.runs.pending = append(l.runs.pending, child.DeepCopy())
}

// playCall does the same for the child of a call.
func (l *lagging) playCall(g game, child *workflowsv1alpha1.WorkflowRun) {
	l.t.Helper()
	id := identityOf(child)
	phase := g.outcomes[id]
	l.clock.SetTime(l.clock.Now().Add(time.Millisecond))
	if phase == "" && !child.Spec.CancelRequested {
		if recorded(&l.live().Status)[id] == "" {
			return
		}
		if err := l.Client.Delete(l.t.Context(), child); err != nil {
			l.t.Fatal(err)
		}
		child.DeletionTimestamp = &metav1.Time{Time: l.clock.Now()}
		l.calls.pending = append(l.calls.pending, child)
		return
	}
	if child.Spec.CancelRequested {
		phase = corev1alpha1.RunCancelled
	}
	child.Status.Phase, child.Status.CompletionTime = workflowPhase(phase), micro(l.clock.Now())
	if err := l.Client.Status().Update(l.t.Context(), child); err != nil {
		l.t.Fatal(err)
	}
	l.calls.pending = append(l.calls.pending, trimmed(l.t, child))
}

// change changes the WorkflowRun as a user does.
func (l *lagging) change(f func(*workflowsv1alpha1.WorkflowRun)) {
	l.t.Helper()
	run := l.live()
	f(run)
	run.Generation++
	if err := l.Client.Update(l.t.Context(), run); err != nil {
		l.t.Fatal(err)
	}
	l.owners.pending = append(l.owners.pending, l.live())
}

// playOn lets things happen until the WorkflowRun has ended and nothing is left to happen.
func (l *lagging) playOn(g game, user func(round int)) {
	l.t.Helper()
	for round := range 20_000 {
		user(round)
		run := l.live()
		if run.Status.Phase.IsTerminal() && !l.due && l.arrived() && l.quiet() {
			return
		}
		if !l.step(g) {
			l.t.Fatalf("nothing will ever happen again, but the WorkflowRun is %s: %+v", run.Status.Phase, run.Status.Jobs)
		}
	}
	l.t.Fatal("no end after 20,000 rounds")
}

// arrived tells whether the caches have caught up.
func (l *lagging) arrived() bool {
	return len(l.runs.pending)+len(l.owners.pending)+len(l.calls.pending)+len(l.workspaces.pending) == 0
}

// quiet tells whether no Run is active, and no workspace left.
func (l *lagging) quiet() bool {
	if len(l.liveWorkspaces()) > 0 {
		return false
	}
	for _, child := range l.liveRuns() {
		if !child.Status.Phase.IsTerminal() {
			return false
		}
	}
	for _, child := range l.liveCalls() {
		if !child.Status.Phase.IsTerminal() {
			return false
		}
	}
	return true
}

func (l *lagging) phases() map[string]string {
	w := world{run: l.live()}
	return w.phases()
}

func (l *lagging) expectNoneTwice(seed uint64) {
	l.t.Helper()
	for id, count := range l.created {
		if count != 1 {
			l.t.Fatalf("seed %d: the Run of %v was created %d times", seed, id, count)
		}
	}
	for job, count := range l.furnished {
		if count != 1 {
			l.t.Fatalf("seed %d: the workspace of job %s was created %d times", seed, job, count)
		}
	}
}

// TestFaultsChangeNoEnd plays random WorkflowRuns on caches that lag, watches that break, writes that fail or whose answer
// is lost, and managers that are restarted: they end as the oracle says, no Run and no workspace is created twice, and no
// workspace is left.
func TestFaultsChangeNoEnd(t *testing.T) {
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 3))
		g := newGame(r)
		l := newLagging(t, r, g, configFor(seed))
		l.playOn(g, func(round int) {
			if r.IntN(50) == 0 && round < 500 { // A harmless change, which makes the controller's next patch conflict.
				l.change(func(run *workflowsv1alpha1.WorkflowRun) {
					ttl := int32(100_000 + round)
					run.Spec.TTLSecondsAfterFinished = &ttl
				})
			}
		})
		if diff := cmp.Diff(g.oracle(), l.phases()); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		l.expectNoneTwice(seed)
	}
}

// configFor has every other WorkflowRun in workspaces.
func configFor(seed uint64) *JobWorkspaces {
	if seed%2 == 0 {
		return nil
	}
	return everyJob()
}

// TestFaultsAndLosses has workspaces lost at random moments besides: the WorkflowRun ends, the Runs of a job are all in one
// workspace, none is created twice, and no workspace is left.
func TestFaultsAndLosses(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		g := newGame(r)
		l := newLagging(t, r, g, everyJob())
		l.playOn(g, func(round int) {
			if r.IntN(30) > 0 || round > 1000 {
				return
			}
			if all := l.liveWorkspaces(); len(all) > 0 {
				if w := all[r.IntN(len(all))]; w.Status.Phase != workspacesv1alpha1.WorkspaceLost {
					l.lose(w)
				}
			}
		})
		in := map[string]string{}
		for _, child := range l.liveRuns() {
			ref, job := child.Spec.Workspace, identityOf(child).job
			if ref == nil || in[job] != "" && in[job] != ref.Name {
				t.Fatalf("seed %d: Run %s is in workspace %+v, another of its job in %q", seed, child.Name, ref, in[job])
			}
			in[job] = ref.Name
		}
		for id, count := range l.created {
			if count != 1 {
				t.Fatalf("seed %d: the Run of %v was created %d times", seed, id, count)
			}
		}
	}
}

// TestFaultsLeaveNothingBehindACancel does the same while the WorkflowRun is cancelled at a random moment.
func TestFaultsLeaveNothingBehindACancel(t *testing.T) {
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 4))
		g := newGame(r)
		l := newLagging(t, r, g, configFor(seed))
		cancelAt, cancelled := r.IntN(80), false
		endedBeforehand := false
		atEnd := -1
		l.playOn(g, func(round int) {
			isOver := l.live().Status.Phase.IsTerminal()
			if round == cancelAt {
				cancelled, endedBeforehand = true, isOver
				l.change(func(run *workflowsv1alpha1.WorkflowRun) { run.Spec.CancelRequested = true })
			}
			if isOver && atEnd < 0 {
				atEnd = len(l.created)
				for _, child := range l.liveRuns() {
					if !child.Status.Phase.IsTerminal() && !child.Spec.CancelRequested {
						t.Fatalf("seed %d: the WorkflowRun ended %s while Run %s was active", seed, l.live().Status.Phase, child.Name)
					}
				}
			}
		})
		got := l.live().Status.Phase
		if cancelled && !endedBeforehand && got != workflowsv1alpha1.WorkflowCancelled && !settledBefore(l) {
			t.Fatalf("seed %d: cancelled, but %s", seed, got)
		}
		if len(l.created) != atEnd && atEnd >= 0 {
			t.Fatalf("seed %d: Runs were created after the end", seed)
		}
		l.expectNoneTwice(seed)
	}
}

// settledBefore tells whether the controller ended the WorkflowRun from what it knew before the cancel reached it: its
// patch went through, so nobody had changed the object by then.
func settledBefore(l *lagging) bool {
	run := l.live()
	return run.Status.ObservedGeneration < run.Generation
}

var _ client.Client = (*lagging)(nil)
