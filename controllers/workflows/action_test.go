package workflows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/controllers/workflows/definitions"
	"kruntimes.io/kruntimes/workflow/calls"
	"kruntimes.io/kruntimes/workflow/expression"
)

// toolchain is a world of one job: it finds a version, calls an Action with it, and uses what that says.
func toolchain(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, map[string]workflowsv1alpha1.Job{"build": {
		RunsOn: "sh", Env: map[string]workflowsv1alpha1.EnvValue{"MODE": "job", "LEVEL": "1"},
		Steps: []workflowsv1alpha1.Step{
			{Name: "find", Run: "find"},
			{Name: "setup", Uses: "setup-tools", With: map[string]workflowsv1alpha1.InputValue{"version": "${{ steps.find.outputs.version }}"}},
			{Name: "use", Run: "use ${{ steps.setup.outputs.path }}"},
		},
	}})
	w.actions = map[string]*workflowsv1alpha1.ActionSpec{"setup-tools": {
		Inputs: map[string]workflowsv1alpha1.Input{"version": {Required: true}, "arch": {Default: ptr.To("amd64")}},
		Steps: []workflowsv1alpha1.Step{
			{Name: "fetch", Run: "fetch ${{ inputs.version }}-${{ inputs.arch }}", Env: map[string]workflowsv1alpha1.EnvValue{"MODE": "${{ inputs.arch }}"}},
			{Name: "unpack", Run: "unpack ${{ steps.fetch.outputs.file }}"},
		},
		Outputs: map[string]workflowsv1alpha1.Output{"path": {Value: "/${{ inputs.version }}/${{ steps.unpack.outputs.dir }}"}},
	}}
	return w
}

func actionStep(name string) identity { return identity{job: "build", step: "setup", actionStep: name} }

// TestTheStepsOfAnActionAreRunsOfTheJob plays a call of an Action to its end.
func TestTheStepsOfAnActionAreRunsOfTheJob(t *testing.T) {
	w := toolchain(t)
	w.quiet()
	w.end("build", "find", corev1alpha1.RunSucceeded, outputs{"version": "3 ${{ inputs.arch }}"})
	w.quiet()
	fetch := w.children[actionStep("fetch")]
	if fetch == nil {
		t.Fatalf("no Run for the first step of the Action; %v", w.active())
	}
	want := corev1alpha1.RunSpec{
		Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "fetch 3 ${{ inputs.arch }}-amd64"},
		Env: []corev1alpha1.EnvVar{{Name: "LEVEL", Value: "1"}, {Name: "MODE", Value: "amd64"}},
	}
	if diff := cmp.Diff(want, fetch.Spec); diff != "" {
		t.Errorf("the first Run of the Action (-want +got):\n%s", diff)
	}
	if fetch.Name != "flow-build-setup-fetch" || fetch.Labels[workflowsv1alpha1.LabelActionStep] != "fetch" {
		t.Errorf("it is %s, labelled %v", fetch.Name, fetch.Labels)
	}
	w.endLeaf(actionStep("fetch"), corev1alpha1.RunSucceeded, outputs{"file": "f"})
	w.quiet()
	step := w.run.Status.Jobs["build"].Steps[1]
	if step.Phase != corev1alpha1.RunPending || step.RunName != "" || step.ActionSteps[0].Phase != corev1alpha1.RunSucceeded || step.ActionSteps[1].RunName == "" {
		t.Errorf("the step in between: %+v", step)
	}
	w.endLeaf(actionStep("unpack"), corev1alpha1.RunSucceeded, outputs{"dir": "d"})
	w.quiet()
	step = w.run.Status.Jobs["build"].Steps[1]
	if step.Phase != corev1alpha1.RunSucceeded || step.CompletionTime == nil || step.StartTime == nil {
		t.Errorf("the step at its end: %+v", step)
	}
	if diff := cmp.Diff(outputs{"path": "/3 ${{ inputs.arch }}/d"}, step.Outputs); diff != "" {
		t.Errorf("outputs of the call (-want +got):\n%s", diff)
	}
	if got := w.children[identity{job: "build", step: "use"}].Spec.Source.Inline; got != "use /3 ${{ inputs.arch }}/d" {
		t.Errorf("the next step runs %q", got)
	}
}

// TestAnActionThatDoesNotSucceed fails the job with the word of the step that did not.
func TestAnActionThatDoesNotSucceed(t *testing.T) {
	cases := map[string]struct {
		phase   corev1alpha1.RunPhase
		message string
	}{
		"a step fails":        {corev1alpha1.RunFailed, "step setup: step fetch: ScriptFailed, exit code 3"},
		"a step times out":    {corev1alpha1.RunTimeout, "step setup: step fetch: Timeout"},
		"a step is cancelled": {corev1alpha1.RunCancelled, "step setup: step fetch: Cancelled"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := toolchain(t)
			w.quiet()
			w.end("build", "find", corev1alpha1.RunSucceeded, outputs{"version": "3"})
			w.quiet()
			w.endLeaf(actionStep("fetch"), tc.phase, nil)
			w.quiet()
			js := w.run.Status.Jobs["build"]
			if js.Phase != workflowsv1alpha1.JobFailed || js.Message != tc.message || js.Steps[1].Phase != tc.phase {
				t.Errorf("job %s: %q, step %s", js.Phase, js.Message, js.Steps[1].Phase)
			}
			if w.children[actionStep("unpack")] != nil || w.children[identity{job: "build", step: "use"}] != nil {
				t.Error("a later step was started")
			}
		})
	}
}

func TestAnOutputOfAnActionThatCannotBeHadFailsItsStep(t *testing.T) {
	w := toolchain(t)
	w.quiet()
	w.end("build", "find", corev1alpha1.RunSucceeded, outputs{"version": "3"})
	w.quiet()
	w.endLeaf(actionStep("fetch"), corev1alpha1.RunSucceeded, outputs{"file": "f"})
	w.quiet()
	w.endLeaf(actionStep("unpack"), corev1alpha1.RunSucceeded, nil)
	w.quiet()
	js := w.run.Status.Jobs["build"]
	if js.Phase != workflowsv1alpha1.JobFailed || !strings.HasPrefix(js.Message, "step setup: ExpressionFailed: outputs.path: ") || js.Steps[1].Phase != corev1alpha1.RunFailed {
		t.Errorf("job %s: %q, step %s", js.Phase, js.Message, js.Steps[1].Phase)
	}
}

func TestAFrozenActionThatIsGoneFailsItsStep(t *testing.T) {
	w := toolchain(t)
	w.quiet()
	w.actions = nil
	w.end("build", "find", corev1alpha1.RunSucceeded, outputs{"version": "3"})
	w.quiet()
	js := w.run.Status.Jobs["build"]
	if js.Phase != workflowsv1alpha1.JobFailed || !strings.Contains(js.Message, `the ControllerRevision that holds Action "setup-tools" is gone`) {
		t.Errorf("job %s: %q", js.Phase, js.Message)
	}
}

func TestWhatIsWrongWithACallOfAnActionIsFoundAtOnce(t *testing.T) {
	many := &workflowsv1alpha1.ActionSpec{}
	for i := range workflowsv1alpha1.MaxStepsPerJob {
		many.Steps = append(many.Steps, workflowsv1alpha1.Step{Name: fmt.Sprintf("s%d", i), Run: "true"})
	}
	large := &workflowsv1alpha1.ActionSpec{Steps: []workflowsv1alpha1.Step{
		{Name: "a", Run: strings.Repeat("x", 255<<10)}, {Name: "b", Run: strings.Repeat("x", 255<<10)}}}
	calling := func(times int) map[string]workflowsv1alpha1.Job {
		var all []workflowsv1alpha1.Step
		for i := range times {
			all = append(all, workflowsv1alpha1.Step{Name: fmt.Sprintf("s%d", i), Uses: "act"})
		}
		return map[string]workflowsv1alpha1.Job{"j": {RunsOn: "sh", Steps: append(all, workflowsv1alpha1.Step{Name: "own", Run: strings.Repeat("y", 10<<10)})}}
	}
	cases := map[string]struct {
		jobs    map[string]workflowsv1alpha1.Job
		action  *workflowsv1alpha1.ActionSpec
		reason  string
		message string
	}{
		"there is no such Action":                                 {calling(1), nil, workflowsv1alpha1.ReasonInvalidReference, `spec.jobs[j].steps[0].uses: Not found: "act": there is no Action "act" in this namespace`},
		"as many steps as there may be":                           {calling(7), many, workflowsv1alpha1.ReasonAccepted, ""},
		"too many steps":                                          {calling(8), many, workflowsv1alpha1.ReasonTooLarge, "spec.jobs: Too many: 1025: all jobs together may have 1024 steps"},
		"too large, which counts once however often it is called": {calling(2), large, workflowsv1alpha1.ReasonTooLarge, "spec.jobs: Too long: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.jobs)
			defs := &thawed{Definitions: definitions.Of(t.Context(), fake.NewClientBuilder().WithScheme(schemeOf(t)).Build(), "ns"),
				actions: map[string]*workflowsv1alpha1.ActionSpec{"act": tc.action}}
			o := w.observe()
			var err error
			if o.actions, o.unresolved, err = calls.Actions(defs, tc.jobs); err != nil {
				t.Fatal(err)
			}
			d := calculate(o)
			accepted := meta.FindStatusCondition(d.status.Conditions, workflowsv1alpha1.WorkflowRunConditionAccepted)
			if accepted == nil || accepted.Reason != tc.reason || !strings.HasPrefix(accepted.Message, tc.message) {
				t.Errorf("got %+v", accepted)
			}
			if isRefused := tc.reason != workflowsv1alpha1.ReasonAccepted; isRefused == d.snapshot {
				t.Errorf("snapshot: %t", d.snapshot)
			}
		})
	}
}

// TestAnActionGetsArtifactsThroughItsInputs also fails the job beforehand where it can be known that one is missing.
func TestAnActionGetsArtifactsThroughItsInputs(t *testing.T) {
	jobs := map[string]workflowsv1alpha1.Job{
		"a": {RunsOn: "sh", Steps: steps("make")},
		"b": {RunsOn: "sh", Needs: []string{"a"}, Steps: []workflowsv1alpha1.Step{
			{Name: "first", Run: "true"}, {Name: "call", Uses: "act", With: map[string]workflowsv1alpha1.InputValue{"name": "dist"}}}},
	}
	play := func(t *testing.T, leaves ...string) *world {
		t.Helper()
		w := newWorld(t, jobs)
		w.leaves = map[identity][]string{{job: "a", step: "make"}: leaves}
		w.actions = map[string]*workflowsv1alpha1.ActionSpec{"act": {
			Inputs: map[string]workflowsv1alpha1.Input{"name": {Required: true}},
			Steps: []workflowsv1alpha1.Step{{Name: "get", Run: "true",
				Artifacts: []workflowsv1alpha1.StepArtifact{{From: "jobs.a.artifacts.${{ inputs.name }}", Path: "in/${{ inputs.name }}"}}}},
		}}
		w.quiet()
		w.end("a", "make", corev1alpha1.RunSucceeded, nil)
		w.quiet()
		return w
	}
	w := play(t, "dist")
	w.end("b", "first", corev1alpha1.RunSucceeded, nil)
	w.quiet()
	get := w.children[identity{job: "b", step: "call", actionStep: "get"}]
	if get == nil || len(get.Spec.ArtifactInputs) != 1 || get.Spec.ArtifactInputs[0].Path != "in/dist" || get.Spec.ArtifactInputs[0].Artifact.Name != "dist" {
		t.Errorf("got %+v", get)
	}
	w = play(t, "other")
	js := w.run.Status.Jobs["b"]
	want := `step call, step get of its Action: ArtifactMissing: job a left no artifact "dist": it left "other"`
	if js.Phase != workflowsv1alpha1.JobFailed || js.Message != want || w.children[identity{job: "b", step: "first"}] != nil {
		t.Errorf("got %s: %q", js.Phase, js.Message)
	}
}

// TestAnActionGetsNoArtifactOfAJobThatItsCallerDoesNotNeed, however long that has succeeded.
func TestAnActionGetsNoArtifactOfAJobThatItsCallerDoesNotNeed(t *testing.T) {
	cases := map[string]struct{ job, want string }{
		"another job": {"a", `job "b" does not need "a": add it to jobs.b.needs`},
		"its own job": {"b", "a job cannot read from itself"},
		"no job":      {"x", `"x" is not a job of this WorkflowRun`},
		"no name":     {"a b", `"jobs.a b.artifacts.dist" is not jobs.<job>.artifacts.<name>`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]workflowsv1alpha1.Job{
				"a": {RunsOn: "sh", Steps: steps("make")},
				"b": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "late", Run: "true"},
					{Name: "call", Uses: "act", With: map[string]workflowsv1alpha1.InputValue{"job": workflowsv1alpha1.InputValue("${{ steps.late.outputs.x }}")}}}},
			})
			w.leaves = map[identity][]string{{job: "a", step: "make"}: {"dist"}}
			w.actions = map[string]*workflowsv1alpha1.ActionSpec{"act": {
				Inputs: map[string]workflowsv1alpha1.Input{"job": {Required: true}},
				Steps: []workflowsv1alpha1.Step{{Name: "get", Run: "true",
					Artifacts: []workflowsv1alpha1.StepArtifact{{From: "jobs.${{ inputs.job }}.artifacts.dist", Path: "in"}}}},
			}}
			w.quiet()
			w.end("a", "make", corev1alpha1.RunSucceeded, nil)
			w.quiet()
			w.end("b", "late", corev1alpha1.RunSucceeded, outputs{"x": corev1alpha1.OutputValue(tc.job)})
			w.quiet()
			js := w.run.Status.Jobs["b"]
			if js.Phase != workflowsv1alpha1.JobFailed || !strings.Contains(js.Message, tc.want) || w.children[identity{job: "b", step: "call", actionStep: "get"}] != nil {
				t.Errorf("got %s: %q, want %q", js.Phase, js.Message, tc.want)
			}
		})
	}
}

// TestACallOfAnActionEndsWithItsJob breaks it off between two of its steps.
func TestACallOfAnActionEndsWithItsJob(t *testing.T) {
	cases := map[string]struct {
		play  func(*world)
		phase corev1alpha1.RunPhase
		word  string
	}{
		"the WorkflowRun is cancelled": {func(w *world) {
			w.run = w.run.DeepCopy()
			w.run.Spec.CancelRequested = true
			w.endLeaf(actionStep("fetch"), corev1alpha1.RunSucceeded, outputs{"file": "f"})
		}, corev1alpha1.RunCancelled, ""},
		"an expression has no value": {func(w *world) {
			w.endLeaf(actionStep("fetch"), corev1alpha1.RunSucceeded, nil)
		}, corev1alpha1.RunFailed, "step unpack: ExpressionFailed: "},
		"its next Run is refused": {func(w *world) {
			w.refusals[actionStep("unpack")] = "no"
			w.endLeaf(actionStep("fetch"), corev1alpha1.RunSucceeded, outputs{"file": "f"})
		}, corev1alpha1.RunFailed, "step unpack: ChildRefused: no"},
		"its outputs are too large": {func(w *world) {
			large := outputs{}
			for i := range 70 {
				large[fmt.Sprintf("o%d", i)] = corev1alpha1.OutputValue(strings.Repeat("x", 4096))
			}
			w.endLeaf(actionStep("fetch"), corev1alpha1.RunSucceeded, large)
		}, corev1alpha1.RunFailed, "step fetch: OutputsTooLarge: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := toolchain(t)
			w.quiet()
			w.end("build", "find", corev1alpha1.RunSucceeded, outputs{"version": "3"})
			w.quiet()
			tc.play(w)
			w.quiet()
			js := w.run.Status.Jobs["build"]
			step := js.Steps[1]
			if js.Phase != workflowsv1alpha1.JobFailed || step.Phase != tc.phase || step.CompletionTime == nil || !strings.HasPrefix(step.Message, tc.word) {
				t.Errorf("job %s: %q; step %s: %q, ended %v", js.Phase, js.Message, step.Phase, step.Message, step.CompletionTime)
			}
		})
	}
}

// TestWhatACallHandsOverIsMeasuredInCharacters, as the schema does.
func TestWhatACallHandsOverIsMeasuredInCharacters(t *testing.T) {
	with := func(value string) map[string]workflowsv1alpha1.InputValue {
		return map[string]workflowsv1alpha1.InputValue{"v": workflowsv1alpha1.InputValue(value)}
	}
	most := strings.Repeat("ż", maxInputValue)
	if values, err := renderWith(with(most), expression.Scope{}); err != nil || values["v"] != most {
		t.Errorf("got %d bytes, %v", len(values["v"]), err)
	}
	want := "ExpressionFailed: with.v: the text has 32769 characters, and may have 32768"
	if _, err := renderWith(with(most+"x"), expression.Scope{}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAnActionIsFrozenUnderItsOwnNameOnly ignores what somebody else put beside it.
func TestAnActionIsFrozenUnderItsOwnNameOnly(t *testing.T) {
	run := toolchain(t).run
	data := []byte(`{"action":"act","spec":{"steps":[{"name":"s","run":"true"}]}}`)
	cases := map[string]struct {
		revision *appsv1.ControllerRevision
		want     bool
	}{
		"the first name":        {revisionOf(run, actionNames(run, "act")[0], data), true},
		"the other name":        {revisionOf(run, actionNames(run, "act")[1], data), true},
		"a name of somebody":    {revisionOf(run, "zz", data), false},
		"that of the snapshot":  {revisionOf(run, snapshotNames(run)[0], data), false},
		"that of another one":   {revisionOf(run, actionNames(run, "other")[0], data), false},
		"of another owner":      {revisionOf(owner("flow", "u"), actionNames(run, "act")[0], data), false},
		"that holds no Action":  {revisionOf(run, actionNames(run, "act")[0], []byte(`{"spec":{}}`)), false},
		"that holds a fraction": {revisionOf(run, actionNames(run, "act")[0], []byte(`{"action":`)), false},
	}
	for name, tc := range cases {
		if _, got := frozenIn(tc.revision, run); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
