//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

func TestAJobCallsAWorkflowAndAStepAnAction(t *testing.T) {
	t.Parallel()
	parent := e2e.New(t)
	parent.Runtime("bash", e2e.WithCapacity("8"))
	for name, test := range map[string]func(*testing.T, *e2e.Env){
		"one Workflow called twice with different inputs":          calledTwice,
		"what calls itself is not called, and nothing is executed": calledInACircle,
		"a Workflow counts as it is when its job can start":        boundLate,
		"an Action counts as it was when the WorkflowRun began":    frozenAction,
		"three levels of calls carry values down and up":           threeLevels,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, parent.In(t))
		})
	}
}

const greet = `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: greet}
spec:
  inputs:
    who: {required: true}
    word: {default: hello}
  outputs:
    greeting: {value: "${{ jobs.say.outputs.text }}"}
  jobs:
    say:
      runs-on: bash
      steps:
      - name: say
        env: {WHO: "${{ inputs.who }}", WORD: "${{ inputs.word }}"}
        run: printf 'text=%s, %s\n' "$WORD" "$WHO" >> "$KRUNTIME_OUTPUTS"
      outputs:
        text: {value: "${{ steps.say.outputs.text }}"}
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: twice}
spec:
  jobs:
    ada: {uses: greet, with: {who: Ada}}
    bob: {uses: greet, with: {who: "Bob \"$(id)\" ${{ '${{' }} inputs.word }}", word: "good  day"}}
    both:
      needs: [ada, bob]
      runs-on: bash
      steps:
      - name: put-together
        env: {ADA: "${{ jobs.ada.outputs.greeting }}", BOB: "${{ jobs.bob.outputs.greeting }}"}
        run: printf 'text=%s|%s\n' "$ADA" "$BOB" >> "$KRUNTIME_OUTPUTS"
      outputs:
        text: {value: "${{ steps.put-together.outputs.text }}"}
`

func calledTwice(t *testing.T, env *e2e.Env) {
	env.Manifests(greet)
	run := env.WaitSucceeded("twice")
	if got, want := run.Status.Jobs["both"].Outputs["text"], corev1alpha1.OutputValue(`hello, Ada|good  day, Bob "$(id)" ${{ inputs.word }}`); got != want {
		t.Errorf("both outputs together: %q, want %q", got, want)
	}
	names := map[string]string{}
	for job, child := range env.CallsOf(run) {
		names[job] = child.Name + " of " + child.Labels[workflowsv1alpha1.LabelWorkflow]
	}
	if diff := cmp.Diff(map[string]string{"ada": "twice-call-ada of greet", "bob": "twice-call-bob of greet"}, names); diff != "" {
		t.Errorf("WorkflowRuns of the calls (-want +got):\n%s", diff)
	}
	if got := env.Krt("describe", "workflowrun", "twice"); !strings.Contains(got, "uses greet") || !strings.Contains(got, "twice-call-ada-say-say") {
		t.Errorf("krt describe shows not what is inside the calls:\n%s", got)
	}
	if err := env.Client.Delete(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"ada", "bob"} {
		env.Kubectl("wait", "--for=delete", "--timeout=90s", "workflowrun/twice-call-"+job, "run/twice-call-"+job+"-say-say")
	}
}

const circles = `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: selfish}
spec:
  jobs:
    again: {uses: selfish}
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: ping}
spec:
  jobs:
    first: {runs-on: bash, steps: [{name: never, run: "true"}]}
    next: {uses: pong}
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: pong}
spec:
  jobs:
    back: {uses: ping}
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: circles}
spec:
  jobs:
    self: {uses: selfish}
    pair: {uses: ping}
    after: {needs: [pair], runs-on: bash, steps: [{name: never, run: "true"}]}
`

func calledInACircle(t *testing.T, env *e2e.Env) {
	env.Manifests(circles)
	run := env.WaitWorkflowRun("circles")
	want := map[string]string{"": "Failed", "self": "Failed", "pair": "Failed", "after": "Skipped", "after/never": "Pending"}
	if diff := cmp.Diff(want, e2e.Phases(run)); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	for job, circle := range map[string]string{"self": "selfish -> selfish", "pair": "ping -> pong -> ping"} {
		got := run.Status.Jobs[job].Message
		if !strings.HasPrefix(got, "CallInvalid: ") || !strings.Contains(got, "workflow call cycle: "+circle) {
			t.Errorf("job %s: %q, want CallInvalid with the cycle %s", job, got, circle)
		}
	}
	if runs, calls := env.RunsOf(run), env.CallsOf(run); len(runs)+len(calls) != 0 {
		t.Errorf("it made the Runs %v and the WorkflowRuns %v", runs, calls)
	}
	for _, name := range []string{"selfish", "ping", "pong"} {
		env.Kubectl("wait", "--for=condition=Ready=false", "--timeout=60s", "workflow/"+name)
	}
	got := env.TryKrt("", "workflow", "trigger", "ping")
	if got.Code != 1 || !strings.Contains(got.Stderr, "workflow call cycle: ping -> pong -> ping") {
		t.Errorf("krt workflow trigger: %+v", got)
	}
}

// stage is a Workflow whose job waits at a gate and then says which version of it was executed, in a script and in an output.
func stage(version string, gate *e2e.Gate) string {
	return `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: stage}
spec:
  outputs:
    version: {value: "output of ` + version + `, ${{ jobs.work.outputs.version }}"}
  jobs:
    work:
      runs-on: bash
      steps:
      - {name: wait, run: "` + strings.TrimSpace(gate.Wait) + `"}
      - {name: work, run: echo "version=script of ` + version + `" >> "$KRUNTIME_OUTPUTS"}
      outputs:
        version: {value: "${{ steps.work.outputs.version }}"}
`
}

func boundLate(t *testing.T, env *e2e.Env) {
	before, within := env.NewGate("before-call"), env.NewGate("within-call")
	env.Manifests(stage("v1", within) + `
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: late}
spec:
  jobs:
    prepare: {runs-on: bash, steps: [{name: wait, run: "` + strings.TrimSpace(before.Wait) + `"}]}
    call: {needs: [prepare], uses: stage}
`)
	prepare := env.WaitStep("late", "prepare", "wait")
	env.Apply(stage("v2", within))
	before.Open(prepare.Status.AssignedPod)
	run := env.WaitWorkflowRunUntil("late", "has made its call", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return run.Status.Jobs["call"].WorkflowRunName != ""
	})
	env.WaitStep(run.Status.Jobs["call"].WorkflowRunName, "work", "wait")
	env.Apply(stage("v3", within))
	within.Open(prepare.Status.AssignedPod)
	run = env.WaitSucceeded("late")
	if got, want := run.Status.Jobs["call"].Outputs["version"], corev1alpha1.OutputValue("output of v2, script of v2"); got != want {
		t.Errorf("the call handed out %q, want %q", got, want)
	}
}

// measure is an Action that counts words, in versions.
func measure(version string) string {
	return `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Action
metadata: {name: measure}
spec:
  inputs:
    file: {required: true}
    unit: {default: words}
  outputs:
    text: {value: "${{ steps.count.outputs.n }} ${{ inputs.unit }}, ` + version + `"}
  steps:
  - name: check
    env: {FILE: "${{ inputs.file }}"}
    run: test -f "$FILE"
  - name: count
    env: {FILE: "${{ inputs.file }}"}
    run: echo "n=$(wc -w < "$FILE"), script of ` + version + `" >> "$KRUNTIME_OUTPUTS"
`
}

func frozenAction(t *testing.T, env *e2e.Env) {
	gate := env.NewGate("before-action")
	env.Manifests(measure("v1") + `
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: frozen}
spec:
  jobs:
    count:
      runs-on: bash
      steps:
      - {name: write, run: "echo one two three > words.txt; ` + strings.TrimSpace(gate.Wait) + `"}
      - {name: words, uses: measure, with: {file: words.txt}}
      - {name: lines, uses: measure, with: {file: words.txt, unit: "words \"again\""}}
      outputs:
        first: {value: "${{ steps.words.outputs.text }}"}
        second: {value: "${{ steps.lines.outputs.text }}"}
`)
	write := env.WaitStep("frozen", "count", "write")
	env.Apply(measure("v2"))
	gate.Open(write.Status.AssignedPod)
	env.WaitWorkflowRunUntil("frozen", "has come to the second call", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return run.Status.Phase.IsTerminal() || len(run.Status.Jobs["count"].Steps) > 1 && run.Status.Jobs["count"].Steps[1].Phase.IsTerminal()
	})
	action := &workflowsv1alpha1.Action{}
	action.Namespace, action.Name = env.Namespace, "measure"
	if err := env.Client.Delete(t.Context(), action); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	run := env.WaitSucceeded("frozen")
	want := map[string]corev1alpha1.OutputValue{
		"first": "3, script of v1 words, v1", "second": `3, script of v1 words "again", v1`,
	}
	if diff := cmp.Diff(want, run.Status.Jobs["count"].Outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	runs := []string{"frozen-count-lines-check", "frozen-count-lines-count", "frozen-count-words-check", "frozen-count-words-count", "frozen-count-write"}
	if diff := cmp.Diff(runs, env.RunsOf(run)); diff != "" {
		t.Errorf("Runs (-want +got):\n%s", diff)
	}
}

const levels = `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: top}
spec:
  inputs: {text: {required: true}}
  outputs: {text: {value: "${{ jobs.down.outputs.text }}>"}}
  jobs:
    down: {uses: middle, with: {text: "<${{ inputs.text }}"}}
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: middle}
spec:
  inputs: {text: {required: true}}
  outputs: {text: {value: "${{ jobs.down.outputs.text }})"}}
  jobs:
    down: {uses: bottom, with: {text: "(${{ inputs.text }}"}}
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: bottom}
spec:
  inputs: {text: {required: true}}
  outputs: {text: {value: "${{ jobs.work.outputs.text }}"}}
  jobs:
    work:
      runs-on: bash
      steps:
      - name: echo
        env: {TEXT: "${{ inputs.text }}"}
        run: |
          { echo 'text<<END'; printf '%s\n' "$TEXT"; echo END; } >> "$KRUNTIME_OUTPUTS"
      outputs: {text: {value: "${{ steps.echo.outputs.text }}"}}
---
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: levels}
spec:
  jobs:
    call:
      uses: top
      with:
        text: "two\n lines of \"größe\", $(id) and ${{ '${{ inputs.text }}' }} \\ "
`

func threeLevels(t *testing.T, env *e2e.Env) {
	env.Manifests(levels)
	run := env.WaitSucceeded("levels")
	want := corev1alpha1.OutputValue("(<two\n lines of \"größe\", $(id) and ${{ inputs.text }} \\ )>")
	if got := run.Status.Jobs["call"].Outputs["text"]; got != want {
		t.Errorf("what came back: %q, want %q", got, want)
	}
	const innermost = "levels-call-call-call-down-call-down"
	if got := env.RunsOf(env.WorkflowRun(innermost)); !cmp.Equal(got, []string{innermost + "-work-echo"}) {
		t.Errorf("Runs of the third level: %v", got)
	}
	if got := env.Krt("logs", "workflowrun", "levels"); got != "" {
		t.Errorf("krt logs of scripts that say nothing: %q", got)
	}
}
