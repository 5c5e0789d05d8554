package workflows

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// ref is an artifact as runtimed reports it; made tells the ones of a name apart.
func ref(name, made string) corev1alpha1.ArtifactRef {
	return corev1alpha1.ArtifactRef{
		Name: name, Driver: corev1alpha1.ArtifactDriverFilesystem, Type: corev1alpha1.ArtifactFile, SizeBytes: 7,
		Digest: "sha256:" + strings.Repeat("0", 64),
		Location: corev1alpha1.ArtifactLocation{Filesystem: &corev1alpha1.FilesystemLocation{
			Path: "runs/" + made + "/artifacts/" + name}},
	}
}

func refs(made string, names ...string) []corev1alpha1.ArtifactRef {
	var all []corev1alpha1.ArtifactRef
	for _, name := range names {
		all = append(all, ref(name, made))
	}
	return all
}

// leave has the Run of a step end, and leave artifacts.
func (w *world) leave(job, step string, phase corev1alpha1.RunPhase, made ...corev1alpha1.ArtifactRef) {
	w.t.Helper()
	w.end(job, step, phase, nil)
	w.children[identity{job: job, step: step}].Status.Artifacts = made
	w.quiet()
}

// handover is a job build of three steps, and a job deploy of two that gets artifacts of it.
func handover(first, second []workflowsv1alpha1.StepArtifact) map[string]workflowsv1alpha1.Job {
	return map[string]workflowsv1alpha1.Job{
		"build": {RunsOn: "sh", Steps: steps("compile", "test", "pack")},
		"deploy": {RunsOn: "sh", Needs: []string{"build"}, Steps: []workflowsv1alpha1.Step{
			{Name: "fetch", Run: "true", Artifacts: first}, {Name: "verify", Run: "true", Artifacts: second}}},
	}
}

func from(name, path string) []workflowsv1alpha1.StepArtifact {
	return []workflowsv1alpha1.StepArtifact{{From: "jobs.build.artifacts." + name, Path: path}}
}

func TestAStepGetsWhatANeededJobLeft(t *testing.T) {
	w := newWorld(t, handover(from("dist.tgz", "dist.tgz"), []workflowsv1alpha1.StepArtifact{
		{From: "jobs.build.artifacts.${{ 'log ü' }}", Path: "in/${{ 'log' }}"}, {From: "jobs.build.artifacts.dist.tgz", Path: "again"},
	}))
	w.quiet()
	w.leave("build", "compile", corev1alpha1.RunSucceeded, refs("1", "dist.tgz", "log ü")...)
	if got := len(w.run.Status.Jobs["build"].Artifacts); got != 2 {
		t.Errorf("after the first step, the job has %d artifacts, want 2", got)
	}
	w.leave("build", "test", corev1alpha1.RunSucceeded)
	w.leave("build", "pack", corev1alpha1.RunSucceeded, refs("3", "dist.tgz")...)
	want := map[string]corev1alpha1.ArtifactRef{"dist.tgz": ref("dist.tgz", "3"), "log ü": ref("log ü", "1")}
	if diff := cmp.Diff(want, w.run.Status.Jobs["build"].Artifacts); diff != "" {
		t.Errorf("the artifacts of the job (-want +got):\n%s", diff)
	}
	delete(w.children, identity{job: "build", step: "pack"}) // Whoever deletes it takes nothing from the status.
	w.leave("deploy", "fetch", corev1alpha1.RunSucceeded)
	for step, want := range map[string][]corev1alpha1.ArtifactInput{
		"fetch":  {{Artifact: ref("dist.tgz", "3"), Path: "dist.tgz"}},
		"verify": {{Artifact: ref("log ü", "1"), Path: "in/log"}, {Artifact: ref("dist.tgz", "3"), Path: "again"}},
	} {
		if diff := cmp.Diff(want, w.children[identity{job: "deploy", step: step}].Spec.ArtifactInputs); diff != "" {
			t.Errorf("the inputs of step %s (-want +got):\n%s", step, diff)
		}
	}
}

func TestAMissingArtifactFailsItsJobBeforeAnyRun(t *testing.T) {
	many := refs("1", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	cases := map[string]struct {
		first, second []workflowsv1alpha1.StepArtifact
		made          []corev1alpha1.ArtifactRef
		want          string
	}{
		"the job left none": {
			first: from("dist.tgz", "x"),
			want:  `step fetch: ArtifactMissing: job build left no artifact "dist.tgz": it left none`,
		},
		"the second step's is missing": {
			first: from("dist.tgz", "x"), second: from("dist.tar", "x"), made: refs("1", "dist.tgz", "log\n"),
			want: `step verify: ArtifactMissing: job build left no artifact "dist.tar": it left "dist.tgz", "log\n"`,
		},
		"several are missing": {
			first: append(from("x", "x"), from("y", "y")...), second: from("z", "x"), made: refs("1", "a"),
			want: `step fetch: ArtifactMissing: job build left no artifact "x": it left "a"; job build left no artifact "y": it left "a"; ` +
				`step verify: ArtifactMissing: job build left no artifact "z": it left "a"`,
		},
		"one of many": {
			first: from("x", "x"), made: many,
			want: `step fetch: ArtifactMissing: job build left no artifact "x": it left "a", "b", "c", "d", "e", "f", "g", "h" and 2 more`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			jobs := handover(tc.first, tc.second)
			jobs["report"] = workflowsv1alpha1.Job{RunsOn: "sh", Needs: []string{"deploy"}, Steps: steps("s")}
			w := newWorld(t, jobs)
			w.jobWorkspaces = &JobWorkspaces{}
			w.quiet()
			w.leave("build", "compile", corev1alpha1.RunSucceeded, tc.made...)
			w.leave("build", "test", corev1alpha1.RunSucceeded)
			w.leave("build", "pack", corev1alpha1.RunSucceeded)
			want := map[string]string{"": "Failed", "build": "Succeeded", "deploy": "Failed", "report": "Skipped"}
			if diff := cmp.Diff(want, w.phases()); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
			if got := w.run.Status.Jobs["deploy"].Message; got != tc.want {
				t.Errorf("got message\n%s\nwant\n%s", got, tc.want)
			}
			if len(w.children) != 3 {
				t.Errorf("there are %d Runs, want those of job build", len(w.children))
			}
		})
	}
}

func TestOnlySuccessfulRunsLeaveArtifacts(t *testing.T) {
	w := newWorld(t, handover(from("a", "a"), nil))
	w.quiet()
	w.leave("build", "compile", corev1alpha1.RunSucceeded, refs("1", "a")...)
	w.leave("build", "test", corev1alpha1.RunFailed, refs("2", "a", "b")...)
	if diff := cmp.Diff(map[string]string{"": "Failed", "build": "Failed", "deploy": "Skipped"}, w.phases()); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]corev1alpha1.ArtifactRef{"a": ref("a", "1")}, w.run.Status.Jobs["build"].Artifacts); diff != "" {
		t.Errorf("the artifacts of the failed job (-want +got):\n%s", diff)
	}
}

// numbered makes names of artifacts, of a length.
func numbered(count, length int) []string {
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("%03d%s", i, strings.Repeat("n", length-3)))
	}
	return names
}

func TestBoundsOfArtifacts(t *testing.T) {
	const perJob, inAll = workflowsv1alpha1.MaxArtifactNamesPerJob, workflowsv1alpha1.MaxArtifactNames
	tooManyPerJob := "TooManyArtifacts: the steps of a job may leave artifacts under 64 names: pack several files into a directory"
	cases := map[string]struct {
		// before is how many jobs left as many artifacts as a job may.
		before      int
		first, last []corev1alpha1.ArtifactRef
		want        string
	}{
		"as many as a job may have":         {0, refs("1", numbered(perJob-1, 9)...), refs("2", "x"), ""},
		"one more than a job may have":      {0, refs("1", numbered(perJob, 9)...), refs("2", "x"), "step s2: " + tooManyPerJob},
		"all of them replaced":              {0, refs("1", numbered(perJob, 9)...), refs("2", numbered(perJob, 9)...), ""},
		"as many as a WorkflowRun may have": {inAll/perJob - 1, refs("1", numbered(perJob, 9)...), nil, ""},
		"one more than a WorkflowRun may have": {inAll / perJob, nil, refs("1", "x"),
			"step s2: TooManyArtifacts: the jobs of a WorkflowRun may leave 256 artifacts: pack several files into a directory"},
		"replaced when there is no more room": {inAll/perJob - 1, refs("1", numbered(perJob, 9)...), refs("2", numbered(perJob, 9)...), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			jobs := map[string]workflowsv1alpha1.Job{"last": {RunsOn: "sh", Steps: steps("s1", "s2")}}
			for i := range tc.before {
				jobs[fmt.Sprintf("before%d", i)] = workflowsv1alpha1.Job{RunsOn: "sh", Steps: steps("s")}
			}
			w := newWorld(t, jobs)
			w.quiet()
			for i := range tc.before {
				w.leave(fmt.Sprintf("before%d", i), "s", corev1alpha1.RunSucceeded, refs("1", numbered(perJob, 9)...)...)
			}
			w.leave("last", "s1", corev1alpha1.RunSucceeded, tc.first...)
			w.leave("last", "s2", corev1alpha1.RunSucceeded, tc.last...)
			js := w.run.Status.Jobs["last"]
			if js.Message != tc.want || (js.Phase == workflowsv1alpha1.JobSucceeded) != (tc.want == "") {
				t.Errorf("got %s, message %q, want message %q", js.Phase, js.Message, tc.want)
			}
			if len(js.Artifacts) > perJob {
				t.Errorf("the job has %d artifacts, more than %d", len(js.Artifacts), perJob)
			}
		})
	}
}

// TestArtifactsCountInTheSizeOfAStatus fills a status with outputs that take six bytes each in JSON, and then with artifacts
// of long names.
func TestArtifactsCountInTheSizeOfAStatus(t *testing.T) {
	w := newWorld(t, map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh", Steps: steps("s1", "s2", "s3")}})
	w.quiet()
	fill := outputs{}
	for i := range 15 {
		fill["k"+string(rune('a'+i))] = corev1alpha1.OutputValue(strings.Repeat("\x01", 4000))
	}
	w.end("a", "s1", corev1alpha1.RunSucceeded, fill)
	w.quiet()
	w.end("a", "s2", corev1alpha1.RunSucceeded, fill)
	w.quiet()
	w.leave("a", "s3", corev1alpha1.RunSucceeded, refs(strings.Repeat("<", 36), numbered(64, 255)...)...)
	js := w.run.Status.Jobs["a"]
	if js.Phase != workflowsv1alpha1.JobFailed || !strings.HasPrefix(js.Message, "step s3: StatusTooLarge: ") {
		t.Errorf("got job %s: %q", js.Phase, js.Message)
	}
	encoded, err := json.Marshal(w.run.Status)
	if err != nil || len(encoded) > workflowsv1alpha1.MaxStatusBytes {
		t.Errorf("the status has %d bytes, more than %d (%v)", len(encoded), workflowsv1alpha1.MaxStatusBytes, err)
	}
}

// handoverGame is a game in which steps leave artifacts, and ask for those of needed jobs, which may not be there.
type handoverGame struct {
	game
	leaves map[identity][]string
	// asks holds, by job, what its steps ask for, each as job and name.
	asks map[string][][2]string
}

func newHandoverGame(r *rand.Rand) handoverGame {
	g := handoverGame{game: newGame(r), leaves: map[identity][]string{}, asks: map[string][][2]string{}}
	names := []string{"a", "b", "c"}
	for _, id := range sortedIdentities(g.outcomes) {
		for _, name := range names {
			if r.IntN(3) > 0 {
				g.leaves[id] = append(g.leaves[id], name)
			}
		}
	}
	for _, name := range sortedKeys(g.jobs) {
		job := g.jobs[name]
		for i := range job.Steps {
			if len(job.Needs) == 0 || job.Steps[i].Uses != "" || r.IntN(2) == 0 {
				continue
			}
			need, artifact := job.Needs[r.IntN(len(job.Needs))], names[r.IntN(len(names))]
			job.Steps[i].Artifacts = []workflowsv1alpha1.StepArtifact{{From: "jobs." + need + ".artifacts." + artifact, Path: "in"}}
			g.asks[name] = append(g.asks[name], [2]string{need, artifact})
		}
	}
	return g
}

// oracle says, from the rules alone, how each job ends and which artifacts it has then.
func (g handoverGame) oracle() (phases map[string]string, kept map[string]map[string]corev1alpha1.ArtifactRef) {
	phases, kept = map[string]string{"": "Succeeded"}, map[string]map[string]corev1alpha1.ArtifactRef{}
	for _, name := range sortedKeys(g.jobs) { // A job needs only jobs before it.
		kept[name] = map[string]corev1alpha1.ArtifactRef{}
		phases[name] = g.judge(name, phases, kept)
		if phases[name] == "Failed" {
			phases[""] = "Failed"
		}
	}
	return phases, kept
}

func (g handoverGame) judge(name string, phases map[string]string, kept map[string]map[string]corev1alpha1.ArtifactRef) string {
	for _, need := range g.jobs[name].Needs {
		if phases[need] != "Succeeded" {
			return "Skipped"
		}
	}
	for _, ask := range g.asks[name] {
		if _, ok := kept[ask[0]][ask[1]]; !ok {
			return "Failed"
		}
	}
	for _, id := range g.game.leaves(name, g.jobs[name]) {
		if g.outcomes[id] != corev1alpha1.RunSucceeded {
			return "Failed"
		}
		for _, artifact := range g.leaves[id] {
			kept[name][artifact] = ref(artifact, pathOf(id))
		}
	}
	return "Succeeded"
}

// TestRandomHandovers has controllers crash between an action and its record, and compares the end with the rules.
func TestRandomHandovers(t *testing.T) {
	missing := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		g := newHandoverGame(r)
		w := newWorld(t, g.jobs)
		w.actions, w.leaves = g.actions, g.leaves
		g.play(r, w, -1)
		phases, kept := g.oracle()
		if diff := cmp.Diff(phases, w.phases()); diff != "" {
			t.Fatalf("seed %d: phases (-want +got):\n%s", seed, diff)
		}
		got := map[string]map[string]corev1alpha1.ArtifactRef{}
		for name, js := range w.run.Status.Jobs {
			got[name] = maps.Clone(js.Artifacts)
			if strings.Contains(js.Message, workflowsv1alpha1.WordArtifactMissing) {
				missing++
			}
		}
		if diff := cmp.Diff(kept, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: artifacts (-want +got):\n%s", seed, diff)
		}
		for id, child := range w.children {
			for _, input := range child.Spec.ArtifactInputs {
				job := strings.Split(strings.TrimPrefix(input.Artifact.Location.Filesystem.Path, "runs/"), "/")[0]
				if diff := cmp.Diff(kept[job][input.Artifact.Name], input.Artifact); diff != "" {
					t.Fatalf("seed %d: the input of %v (-want +got):\n%s", seed, id, diff)
				}
			}
		}
	}
	if missing < 20 {
		t.Errorf("an artifact was missing %d times only: the games do not try it", missing)
	}
}
