package workflows

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// everyJob gives every job a workspace.
func everyJob() *JobWorkspaces {
	return &JobWorkspaces{Spec: workspacesv1alpha1.PersistentWorkspaceSpec{
		Mode: workspacesv1alpha1.WorkspaceRuntimePodLocal, CleanupPolicy: workspacesv1alpha1.CleanupRetain,
	}}
}

// furnished is ci with a workspace for every job, after its initialisation.
func furnished(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, ci())
	w.jobWorkspaces = everyJob()
	w.reconcile(false)
	return w
}

// inWorkspaces tells the workspace of every child.
func (w *world) inWorkspaces() map[string]string {
	in := map[string]string{}
	for id, child := range w.children {
		in[id.job+"/"+id.step] = ""
		if ref := child.Spec.Workspace; ref != nil {
			in[id.job+"/"+id.step] = ref.Name
		}
	}
	return in
}

func TestInitialisationMakesOneWorkspacePerJob(t *testing.T) {
	w := furnished(t)
	if diff := cmp.Diff([]string{"flow-build", "flow-deploy", "flow-docs"}, sortedKeys(w.workspaces)); diff != "" {
		t.Fatalf("workspaces (-want +got):\n%s", diff)
	}
	want := &workspacesv1alpha1.PersistentWorkspace{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns",
			Labels: map[string]string{
				"app.kubernetes.io/managed-by": "kruntimes", "workflows.kruntimes.io/job": "build",
				"workflows.kruntimes.io/workflow-run": "flow", "workflows.kruntimes.io/workflow-run-uid": string(w.run.UID),
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "workflows.kruntimes.io/v1alpha1", Kind: "WorkflowRun", Name: "flow",
				UID: w.run.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}},
			Finalizers: []string{"workspaces.kruntimes.io/cleanup"},
		},
		Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh", Mode: "RuntimePodLocal", CleanupPolicy: "Retain"},
	}
	target := newWorkspace(observation{run: w.run, jobWorkspaces: everyJob()}, "build")
	if diff := cmp.Diff(want, target.workspace); diff != "" {
		t.Errorf("the workspace of job build (-want +got):\n%s", diff)
	}
}

func TestEveryRunOfAJobIsExecutedInItsWorkspace(t *testing.T) {
	w := furnished(t)
	w.quiet()
	w.end("build", "compile", corev1alpha1.RunSucceeded, outputs{"file": "x"})
	w.quiet()
	w.end("build", "pack", corev1alpha1.RunSucceeded, outputs{"tag": "1"})
	w.reconcile(false)
	if diff := cmp.Diff([]string{"flow-build", "flow-deploy", "flow-docs"}, sortedKeys(w.workspaces)); diff != "" {
		t.Errorf("before the end of the job is stored (-want +got):\n%s", diff)
	}
	w.quiet()
	if diff := cmp.Diff([]string{"flow-deploy", "flow-docs"}, sortedKeys(w.workspaces)); diff != "" {
		t.Errorf("when job build has ended (-want +got):\n%s", diff)
	}
	w.end("deploy", "roll-out", corev1alpha1.RunFailed, nil)
	w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
	w.quiet()
	if left := sortedKeys(w.workspaces); len(left) > 0 {
		t.Errorf("at the end %v are left", left)
	}
	want := map[string]string{"build/compile": "flow-build", "build/pack": "flow-build", "deploy/roll-out": "flow-deploy", "docs/render": "flow-docs"}
	if diff := cmp.Diff(want, w.inWorkspaces()); diff != "" {
		t.Errorf("Runs by workspace (-want +got):\n%s", diff)
	}
}

func TestWhichJobsGetAWorkspace(t *testing.T) {
	several := everyJob()
	several.OnlySeveralRuns = true
	call := workflowsv1alpha1.Job{Uses: "other"}
	one := workflowsv1alpha1.Job{RunsOn: "sh", Steps: steps("a")}
	two := workflowsv1alpha1.Job{RunsOn: "sh", Steps: steps("a", "b")}
	action := workflowsv1alpha1.Job{RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "a", Uses: "action"}}}
	cases := map[string]struct {
		config *JobWorkspaces
		job    workflowsv1alpha1.Job
		want   bool
	}{
		"no job without the group":                          {nil, two, false},
		"a job of one step":                                 {everyJob(), one, true},
		"a call makes none":                                 {everyJob(), call, false},
		"limited to several Runs: a job of one step":        {several, one, false},
		"limited to several Runs: a job of two":             {several, two, true},
		"limited to several Runs: a step that is an Action": {several, action, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.config.wants(&tc.job); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestD10 is decision D10: what becomes of a job whose workspace is lost.
func TestD10(t *testing.T) {
	const lost = "WorkspaceLost: the workspace of the job was lost, because its Pod is gone: the files of its steps are gone"
	cases := map[string]struct {
		play        func(w *world)
		want        map[string]string
		wantMessage string
		wantIn      map[string]string
	}{
		"lost before the first Run exists: replaced by a new one": {
			play: func(w *world) {
				w.lose("flow-docs")
				w.quiet()
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want:   map[string]string{"": "Running", "build": "Running", "deploy": "Waiting", "docs": "Succeeded"},
			wantIn: map[string]string{"build/compile": "flow-build", "docs/render": "flow-docs-3afc4e89"},
		},
		"lost again and again before the first Run exists": {
			play: func(w *world) {
				w.lose("flow-docs")
				w.reconcile(false)
				w.lose("flow-docs-3afc4e89")
				w.quiet()
			},
			want:   map[string]string{"": "Running", "build": "Running", "deploy": "Waiting", "docs": "Running"},
			wantIn: map[string]string{"build/compile": "flow-build", "docs/render": "flow-docs-6917977c"},
		},
		"lost while the job waits for another: replaced when its turn comes": {
			play: func(w *world) {
				w.lose("flow-deploy")
				w.quiet()
				if got := sortedKeys(w.workspaces); len(got) != 3 {
					w.t.Errorf("while the job waits there are %v", got)
				}
				w.end("build", "compile", corev1alpha1.RunSucceeded, outputs{"file": "x"})
				w.quiet()
				w.end("build", "pack", corev1alpha1.RunSucceeded, outputs{"tag": "1"})
				w.quiet()
			},
			want: map[string]string{"": "Running", "build": "Succeeded", "deploy": "Running", "docs": "Running"},
			wantIn: map[string]string{"build/compile": "flow-build", "build/pack": "flow-build", "docs/render": "flow-docs",
				"deploy/roll-out": "flow-deploy-7e305611"},
		},
		"lost in mid-job: the active Run is cancelled and the job fails": {
			play: func(w *world) {
				w.quiet()
				w.lose("flow-build")
				w.quiet()
				if child := w.children[identity{job: "build", step: "compile"}]; !child.Spec.CancelRequested {
					w.t.Error("the active Run was not cancelled")
				}
				if got := w.run.Status.Jobs["build"].Message; got != lost {
					w.t.Errorf("until it has ended the job says %q", got)
				}
				w.end("build", "compile", corev1alpha1.RunCancelled, nil)
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want:        map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
			wantMessage: "job build failed: " + lost + "; step compile: Cancelled",
			wantIn:      map[string]string{"build/compile": "flow-build", "docs/render": "flow-docs"},
		},
		"lost between two steps: the job fails": {
			play: func(w *world) {
				w.quiet()
				w.lose("flow-build")
				w.end("build", "compile", corev1alpha1.RunSucceeded, outputs{"file": "x"})
				w.quiet()
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want:        map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
			wantMessage: "job build failed: step pack cannot be executed: " + lost,
			wantIn:      map[string]string{"build/compile": "flow-build", "docs/render": "flow-docs"},
		},
		"deleted by hand in mid-job: the same, in its own words": {
			play: func(w *world) {
				w.quiet()
				delete(w.workspaces, "flow-build")
				w.quiet()
				w.end("build", "compile", corev1alpha1.RunCancelled, nil)
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want: map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
			wantMessage: "job build failed: WorkspaceLost: the workspace of the job was deleted while the job ran: " +
				"the files of its steps are gone; step compile: Cancelled",
			wantIn: map[string]string{"build/compile": "flow-build", "docs/render": "flow-docs"},
		},
		"taken from the WorkflowRun in mid-job: the same, and no Run is refused": {
			play: func(w *world) {
				w.quiet()
				w.workspaces["flow-build"].OwnerReferences = nil
				w.end("build", "compile", corev1alpha1.RunSucceeded, outputs{"file": "x"})
				w.quiet()
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want: map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
			wantMessage: "job build failed: step pack cannot be executed: WorkspaceLost: the workspace of the job was taken from the " +
				"WorkflowRun while the job ran: the files of its steps are gone",
			wantIn: map[string]string{"build/compile": "flow-build", "docs/render": "flow-docs"},
		},
		"the Pod's end is seen before that of the workspace": {
			play: func(w *world) {
				w.quiet()
				w.end("build", "compile", corev1alpha1.RunFailed, nil)
				w.children[identity{job: "build", step: "compile"}].Status.Reason = corev1alpha1.RunReasonRuntimePodLost
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want:        map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
			wantMessage: "job build failed: " + lost + "; step compile: RuntimePodLost, exit code 3",
			wantIn:      map[string]string{"build/compile": "flow-build", "docs/render": "flow-docs"},
		},
		"a step that fails by itself is not blamed on the loss": {
			play: func(w *world) {
				w.quiet()
				w.lose("flow-build")
				w.end("build", "compile", corev1alpha1.RunFailed, nil)
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			},
			want:        map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"},
			wantMessage: "job build failed: step compile: ScriptFailed, exit code 3",
			wantIn:      map[string]string{"build/compile": "flow-build", "docs/render": "flow-docs"},
		},
		"lost after the last step has ended: ignored": {
			play: func(w *world) {
				w.quiet()
				w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
				w.lose("flow-docs")
			},
			want:   map[string]string{"": "Running", "build": "Running", "deploy": "Waiting", "docs": "Succeeded"},
			wantIn: map[string]string{"build/compile": "flow-build", "docs/render": "flow-docs"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := furnished(t)
			tc.play(w)
			w.quiet()
			if diff := cmp.Diff(tc.want, w.phases()); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
			if got := w.run.Status.Message; got != tc.wantMessage {
				t.Errorf("got message %q, want %q", got, tc.wantMessage)
			}
			if diff := cmp.Diff(tc.wantIn, w.inWorkspaces()); diff != "" {
				t.Errorf("Runs by workspace (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWorkspaceThatSomebodyHasChangedIsReplaced(t *testing.T) {
	for name, change := range map[string]func(*workspacesv1alpha1.PersistentWorkspace){
		"it has no owner any more":       func(x *workspacesv1alpha1.PersistentWorkspace) { x.OwnerReferences = nil },
		"it is being deleted":            func(x *workspacesv1alpha1.PersistentWorkspace) { x.DeletionTimestamp = &metav1.Time{Time: start} },
		"its time to live has passed":    func(x *workspacesv1alpha1.PersistentWorkspace) { x.Status.Phase = workspacesv1alpha1.WorkspaceReleased },
		"it belongs to another Runtime":  func(x *workspacesv1alpha1.PersistentWorkspace) { x.Spec.Runtime = "other" },
		"its Pod is gone before its use": func(x *workspacesv1alpha1.PersistentWorkspace) { x.Status.Phase = workspacesv1alpha1.WorkspaceLost },
	} {
		t.Run(name, func(t *testing.T) {
			w := furnished(t)
			change(w.workspaces["flow-docs"])
			w.workspaces["flow-docs"].UID = "changed"
			w.quiet()
			if got := w.inWorkspaces()["docs/render"]; got == "flow-docs" || !strings.HasPrefix(got, "flow-docs-") {
				t.Errorf("the first Run is in workspace %q", got)
			}
		})
	}
}

func TestARefusedWorkspaceFailsItsJobOnly(t *testing.T) {
	w := newWorld(t, ci())
	w.jobWorkspaces = everyJob()
	w.refusedWorkspaces["build"] = "denied by policy"
	w.quiet()
	w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
	w.quiet()
	if diff := cmp.Diff(map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped", "docs": "Succeeded"}, w.phases()); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	want := "job build failed: WorkspaceRefused: the workspace of the job cannot be created: denied by policy"
	if got := w.run.Status.Message; got != want {
		t.Errorf("got message %q, want %q", got, want)
	}
	if len(w.workspaces) > 0 {
		t.Errorf("%v are left", sortedKeys(w.workspaces))
	}
}

func TestAHeldWorkspaceHoldsNothingElseBack(t *testing.T) {
	w := newWorld(t, ci())
	w.jobWorkspaces = everyJob()
	id := identity{job: "build"}
	w.held[id] = hold{until: w.now.Add(firstHold), reason: "exceeded quota"}
	w.quiet()
	if got := w.run.Status.Jobs["build"].Message; got != "its workspace cannot be created yet: exceeded quota" {
		t.Errorf("got message %q", got)
	}
	if got := w.phases()["docs"]; got != "Running" {
		t.Errorf("job docs is %s", got)
	}
	if d := calculate(w.observe()); d.recheck != firstHold {
		t.Errorf("looks again after %v, want %v", d.recheck, firstHold)
	}
	w.now = w.now.Add(firstHold)
	w.quiet()
	if js := w.run.Status.Jobs["build"]; js.Phase != workflowsv1alpha1.JobRunning || js.Message != "" {
		t.Errorf("got job %+v", js)
	}
}

// TestAJobGoesOnAsItBegan changes the configuration under a running WorkflowRun, as a restart of the manager does.
func TestAJobGoesOnAsItBegan(t *testing.T) {
	w := newWorld(t, ci())
	w.quiet()
	w.jobWorkspaces = everyJob()
	w.end("build", "compile", corev1alpha1.RunSucceeded, outputs{"file": "x"})
	w.quiet()
	w.end("build", "pack", corev1alpha1.RunSucceeded, outputs{"tag": "1"})
	w.quiet()
	w.jobWorkspaces = &JobWorkspaces{OnlySeveralRuns: true}
	w.end("deploy", "roll-out", corev1alpha1.RunSucceeded, nil)
	w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
	w.quiet()
	want := map[string]string{"build/compile": "", "build/pack": "", "deploy/roll-out": "flow-deploy", "docs/render": ""}
	if diff := cmp.Diff(want, w.inWorkspaces()); diff != "" {
		t.Errorf("Runs by workspace (-want +got):\n%s", diff)
	}
	if got := w.phases()[""]; got != "Succeeded" {
		t.Errorf("the WorkflowRun is %s: %s", got, w.run.Status.Message)
	}
}

func TestAJobSaysThatItWaitsForItsWorkspace(t *testing.T) {
	const word = "waiting for local workspace capacity"
	cases := map[string]struct {
		reason, wantJob, wantStep string
	}{
		"the workspace has no Pod yet": {corev1alpha1.ReasonWorkspacePending, word, word},
		"its Pod is not ready":         {corev1alpha1.ReasonWorkspacePodUnavailable, word, word},
		"its Pod is busy":              {corev1alpha1.ReasonInsufficientCapacity, word, ""},
		"something else":               {corev1alpha1.ReasonRuntimeNotFound, "", "waits: RuntimeNotFound: of Pod sh-7f5"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := furnished(t)
			w.quiet()
			id := identity{job: "docs", step: "render"}
			child := w.children[id].DeepCopy()
			child.Status.Conditions = []metav1.Condition{{Type: "Scheduled", Status: "False", Reason: tc.reason, Message: "of Pod sh-7f5"}}
			w.children[id] = child
			w.quiet()
			js := w.run.Status.Jobs["docs"]
			if js.Message != tc.wantJob || js.Steps[0].Message != tc.wantStep {
				t.Errorf("the job says %q and its step %q, want %q and %q", js.Message, js.Steps[0].Message, tc.wantJob, tc.wantStep)
			}
			w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
			w.quiet()
			if js := w.run.Status.Jobs["docs"]; js.Message != "" || js.Steps[0].Message != "" {
				t.Errorf("at the end the job says %q and its step %q", js.Message, js.Steps[0].Message)
			}
		})
	}
}

func TestACancelLeavesNoWorkspace(t *testing.T) {
	w := furnished(t)
	w.quiet()
	w.run.Spec.CancelRequested = true
	w.end("docs", "render", corev1alpha1.RunSucceeded, nil)
	w.quiet()
	w.lose("flow-build")
	w.end("build", "compile", corev1alpha1.RunCancelled, nil)
	w.quiet()
	if got, want := w.run.Status.Jobs["build"].Message, "step compile: Cancelled"; got != want || len(w.workspaces) > 0 {
		t.Errorf("job build says %q, want %q; %v are left", got, want, sortedKeys(w.workspaces))
	}
}

// TestRandomWorkflowRunsInWorkspaces plays random WorkflowRuns with crashes. Workspaces change no end, every job has one, and
// none is left.
func TestRandomWorkflowRunsInWorkspaces(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		g := newGame(r)
		w := newWorld(t, g.jobs)
		w.actions = g.actions
		w.jobWorkspaces = everyJob()
		g.play(r, w, -1)
		w.quiet()
		if diff := cmp.Diff(g.oracle(), w.phases()); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		inline := 0
		for _, job := range g.jobs {
			if job.Uses == "" {
				inline++
			}
		}
		if len(w.workspaces) > 0 || w.uids != inline {
			t.Fatalf("seed %d: %d workspaces were made for %d jobs, %v are left", seed, w.uids, inline, sortedKeys(w.workspaces))
		}
		expectOneWorkspacePerJob(t, seed, w)
	}
}

// TestRandomLosses loses workspaces at random moments: the WorkflowRun ends all the same, no job changes its workspace, and
// none is left.
func TestRandomLosses(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 6))
		g := newGame(r)
		w := newWorld(t, g.jobs)
		w.actions = g.actions
		w.jobWorkspaces = everyJob()
		lost := map[string]bool{}
		for !w.run.Status.Phase.IsTerminal() {
			for range 1 + r.IntN(6) {
				g.move(r, w)
			}
			names := sortedKeys(w.workspaces)
			if len(names) == 0 || r.IntN(3) > 0 {
				continue
			}
			name := names[r.IntN(len(names))]
			lost[jobOf(w.workspaces[name])] = true
			w.lose(name)
		}
		w.quiet()
		expectOneWorkspacePerJob(t, seed, w)
		if len(w.workspaces) > 0 {
			t.Fatalf("seed %d: %v are left", seed, sortedKeys(w.workspaces))
		}
		for job, js := range w.run.Status.Jobs {
			isBlamed := strings.Contains(js.Message, workflowsv1alpha1.WordWorkspaceLost)
			if isBlamed && !lost[job] || js.Phase == workflowsv1alpha1.JobRunning {
				t.Fatalf("seed %d: job %s is %s: %s", seed, job, js.Phase, js.Message)
			}
		}
	}
}

func expectOneWorkspacePerJob(t *testing.T, seed uint64, w *world) {
	t.Helper()
	jobs := map[string]string{}
	for id, child := range w.children {
		ref := child.Spec.Workspace
		if ref == nil || jobs[id.job] != "" && jobs[id.job] != ref.Name {
			t.Fatalf("seed %d: the Run of %v is in workspace %+v, another of its job in %q", seed, id, ref, jobs[id.job])
		}
		jobs[id.job] = ref.Name
	}
}
