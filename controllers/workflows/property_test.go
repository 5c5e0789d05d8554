package workflows

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// game is a random WorkflowRun and what will happen to each of its steps.
type game struct {
	jobs     map[string]workflowsv1alpha1.Job
	outcomes map[identity]corev1alpha1.RunPhase // "" stands for a child that is deleted by hand.
	// actions are those that steps call.
	actions map[string]*workflowsv1alpha1.ActionSpec
}

// callee is the Workflow that jobs of a game call.
const callee = "callee"

func newGame(r *rand.Rand) game {
	g := game{jobs: map[string]workflowsv1alpha1.Job{}, outcomes: map[identity]corev1alpha1.RunPhase{}, actions: map[string]*workflowsv1alpha1.ActionSpec{}}
	for i := 1; i <= 3; i++ {
		names := []string{"a", "b", "c"}[:i]
		g.actions[fmt.Sprintf("action-%d", i)] = &workflowsv1alpha1.ActionSpec{Steps: steps(names...)}
	}
	count := 1 + r.IntN(8)
	for i := range count {
		job := workflowsv1alpha1.Job{RunsOn: "sh"}
		for j := range i {
			if r.IntN(3) == 0 {
				job.Needs = append(job.Needs, fmt.Sprintf("j%d", j))
			}
		}
		name := fmt.Sprintf("j%d", i)
		if r.IntN(4) == 0 {
			job.RunsOn, job.Uses = "", callee
			g.outcomes[identity{job: name}] = outcome(r)
			g.jobs[name] = job
			continue
		}
		for s := range 1 + r.IntN(4) {
			step := workflowsv1alpha1.Step{Name: fmt.Sprintf("s%d", s), Run: "true"}
			if r.IntN(4) == 0 {
				step.Run, step.Uses = "", fmt.Sprintf("action-%d", 1+r.IntN(3))
			}
			job.Steps = append(job.Steps, step)
		}
		for _, id := range g.leaves(name, job) {
			g.outcomes[id] = outcome(r)
		}
		g.jobs[name] = job
	}
	return g
}

// leaves are all children that a job may have.
func (g game) leaves(name string, job workflowsv1alpha1.Job) []identity {
	if job.Uses != "" {
		return []identity{{job: name}}
	}
	var ids []identity
	for _, step := range job.Steps {
		if step.Uses == "" {
			ids = append(ids, identity{job: name, step: step.Name})
			continue
		}
		for _, s := range g.actions[step.Uses].Steps {
			ids = append(ids, identity{job: name, step: step.Name, actionStep: s.Name})
		}
	}
	return ids
}

func outcome(r *rand.Rand) corev1alpha1.RunPhase {
	switch r.IntN(16) {
	case 0:
		return corev1alpha1.RunFailed
	case 1:
		return corev1alpha1.RunTimeout
	case 2:
		return corev1alpha1.RunCancelled
	case 3:
		return ""
	default:
		return corev1alpha1.RunSucceeded
	}
}

// oracle says how an uncancelled game ends, from the rules alone: a job succeeds when all its steps do, is skipped when a
// job that it needs did not succeed, and fails otherwise.
func (g game) oracle() map[string]string {
	end := map[string]string{}
	var judge func(name string) string
	judge = func(name string) string {
		if known, ok := end[name]; ok {
			return known
		}
		result := "Succeeded"
		for _, id := range g.leaves(name, g.jobs[name]) {
			if g.outcomes[id] != corev1alpha1.RunSucceeded {
				result = "Failed"
			}
		}
		for _, need := range g.jobs[name].Needs {
			if judge(need) != "Succeeded" {
				result = "Skipped"
			}
		}
		end[name] = result
		return result
	}
	whole := "Succeeded"
	for name := range g.jobs {
		if judge(name) == "Failed" {
			whole = "Failed"
		}
	}
	end[""] = whole
	return end
}

// play lets the controller and the world act in random order, with crashes between an action and its record. It tells
// whether the WorkflowRun was cancelled before its end.
func (g game) play(r *rand.Rand, w *world, cancelAt int) (cancelled bool) {
	for round := range 2000 {
		if w.run.Status.Phase.IsTerminal() {
			return cancelled
		}
		if round == cancelAt {
			cancelled = true
			w.run = w.run.DeepCopy()
			w.run.Spec.CancelRequested = true
		}
		g.move(r, w)
	}
	w.t.Fatalf("no end after 2000 rounds: %v", w.phases())
	return cancelled
}

// move ends a Run as the game says, or deletes it by hand, or lets the controller act, which may crash before it has stored
// the result. Nobody can tell a child that was deleted before it was recorded from one that was never made, so that is not
// played.
func (g game) move(r *rand.Rand, w *world) {
	active := w.active()
	if len(active) == 0 || r.IntN(2) > 0 {
		w.reconcile(r.IntN(4) == 0)
		return
	}
	id := active[r.IntN(len(active))]
	phase := g.outcomes[id]
	isRecorded := recorded(&w.run.Status)[id] != ""
	switch {
	case phase == "" && !isRecorded:
	case phase == "":
		w.deleted[id] = true
	case id.isCall() && w.calls[id.job].Spec.CancelRequested:
		w.endCall(id.job, workflowsv1alpha1.WorkflowCancelled, nil)
	case id.isCall():
		w.endCall(id.job, workflowPhase(phase), nil)
	case w.children[id].Spec.CancelRequested:
		w.endLeaf(id, corev1alpha1.RunCancelled, nil)
	default:
		w.endLeaf(id, phase, nil)
	}
}

// workflowPhase is how a child WorkflowRun ends where a Run would end in this phase.
func workflowPhase(phase corev1alpha1.RunPhase) workflowsv1alpha1.WorkflowPhase {
	switch phase {
	case corev1alpha1.RunSucceeded:
		return workflowsv1alpha1.WorkflowSucceeded
	case corev1alpha1.RunCancelled:
		return workflowsv1alpha1.WorkflowCancelled
	default:
		return workflowsv1alpha1.WorkflowFailed
	}
}

func TestRandomWorkflowRunsEndAsTheOracleSays(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := newGame(r)
		w := newWorld(t, g.jobs)
		w.actions = g.actions
		g.play(r, w, -1)
		if diff := cmp.Diff(g.oracle(), w.phases()); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		for id, count := range w.created {
			if count != 1 {
				t.Fatalf("seed %d: the Run of %v was created %d times", seed, id, count)
			}
		}
	}
}

func TestRandomCancelsLeaveNothingActive(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 2))
		g := newGame(r)
		w := newWorld(t, g.jobs)
		w.actions = g.actions
		cancelled := g.play(r, w, r.IntN(40))
		if got := w.run.Status.Phase == workflowsv1alpha1.WorkflowCancelled; got != cancelled {
			t.Fatalf("seed %d: cancelled %t, but %v", seed, cancelled, w.phases())
		}
		if active := w.active(); len(active) > 0 {
			t.Fatalf("seed %d: %v are still active", seed, active)
		}
		for name, js := range w.run.Status.Jobs {
			if js.Phase == workflowsv1alpha1.JobRunning {
				t.Fatalf("seed %d: job %s is still Running", seed, name)
			}
		}
		created := len(w.created)
		w.quiet()
		if len(w.created) != created {
			t.Fatalf("seed %d: a Run was created after the end", seed)
		}
	}
}
