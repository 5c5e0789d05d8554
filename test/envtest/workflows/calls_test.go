package workflows

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// releaseRun calls release, which calls verify, and an Action; what it hands over would be executed if anybody read it again.
const (
	releaseRun = `
jobs:
  build:
    runs-on: sh
    steps:
    - {name: setup, uses: toolchain, with: {version: "3.10"}}
    - {name: pack, run: 'pack ${{ steps.setup.outputs.path }}'}
    outputs:
      image: {value: "${{ steps.pack.outputs.image }}"}
  release:
    needs: [build]
    uses: release
    with: {image: "${{ jobs.build.outputs.image }}"}
  report:
    runs-on: sh
    needs: [release]
    steps:
    - {name: say, run: report, env: {ENDPOINT: "${{ jobs.release.outputs.endpoint }}"}}
`
	toolchainAction = `
inputs: {version: {required: true}}
outputs: {path: {value: "/${{ inputs.version }}/${{ steps.unpack.outputs.dir }}"}}
steps:
- {name: fetch, run: 'fetch ${{ inputs.version }}'}
- {name: unpack, run: unpack}
`
	releaseWorkflow = `
inputs: {image: {required: true}, zone: {default: eu}}
outputs: {endpoint: {value: "https://${{ jobs.verify.outputs.host }}"}}
jobs:
  apply:
    runs-on: sh
    steps: [{name: roll-out, run: 'deploy', env: {IMAGE: "${{ inputs.image }}", ZONE: "${{ inputs.zone }}"}}]
    outputs: {host: {value: "${{ steps.roll-out.outputs.host }}"}}
  verify:
    needs: [apply]
    uses: verify
    with: {host: "${{ jobs.apply.outputs.host }}", image: "${{ inputs.image }}"}
`
	verifyWorkflow = `
inputs: {host: {required: true}, image: {required: true}}
outputs: {host: {value: "${{ jobs.smoke.outputs.host }}"}}
jobs:
  smoke:
    runs-on: sh
    steps: [{name: curl, run: curl, env: {HOST: "${{ inputs.host }}", IMAGE: "${{ inputs.image }}"}}]
    outputs: {host: {value: "${{ steps.curl.outputs.seen }}"}}
`
)

// hostile is an output that would be an expression if it were read again.
const hostile = "app:v1 ${{ jobs.x }} $${{ '$(touch pwned)' }}$"

func releaseResults() map[string]result {
	succeeded := func(outputs map[string]string) result {
		return result{phase: corev1alpha1.RunSucceeded, outputs: outputs}
	}
	return map[string]result{
		"build/setup":    succeeded(map[string]string{"dir": "d"}),
		"build/pack":     succeeded(map[string]string{"image": hostile}),
		"apply/roll-out": succeeded(map[string]string{"host": "h1"}),
		"smoke/curl":     succeeded(map[string]string{"seen": "h2"}),
	}
}

// define creates definitions, by name.
func define(t *testing.T, ns, kind string, specs map[string]string) {
	t.Helper()
	for name, spec := range specs {
		if err := shared.Admin().Create(t.Context(), manifest(t, kind, ns, name, spec)); err != nil {
			t.Fatalf("creating %s %s: %v", kind, name, err)
		}
	}
}

func defineRelease(t *testing.T, ns string) {
	t.Helper()
	define(t, ns, "Action", map[string]string{"toolchain": toolchainAction})
	define(t, ns, "Workflow", map[string]string{"release": releaseWorkflow, "verify": verifyWorkflow})
}

// envOf reads the environment of the one Run of a step.
func envOf(t *testing.T, owner *workflowsv1alpha1.WorkflowRun) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, run := range children(t, owner) {
		for _, v := range run.Spec.Env {
			env[v.Name] = v.Value
		}
	}
	return env
}

func TestCallsInsideCalls(t *testing.T) {
	ns := shared.Namespace(t)
	defineRelease(t, ns)
	shared.StartManager(t)
	p := startPlayer(t, ns, releaseResults())
	newWorkflowRun(t, ns, "ci", releaseRun)
	run := awaitEnd(t, ns, "ci")
	want := map[string]string{"": "Succeeded", "build": "Succeeded", "build/setup": "Succeeded", "build/pack": "Succeeded",
		"release": "Succeeded", "report": "Succeeded", "report/say": "Succeeded"}
	if diff := cmp.Diff(want, summary(run)); diff != "" {
		t.Fatalf("phases (-want +got), message %q:\n%s", run.Status.Message, diff)
	}
	job := run.Status.Jobs["release"]
	if job.WorkflowRunName != "ci-call-release" || job.Outputs["endpoint"] != "https://h2" || len(job.Steps) != 0 {
		t.Errorf("the call: %+v", job)
	}
	child := get(t, ns, "ci-call-release")
	if !metav1.IsControlledBy(child, run) || child.Labels[workflowsv1alpha1.LabelWorkflow] != "release" || child.Labels[workflowsv1alpha1.LabelJob] != "release" {
		t.Errorf("the child is labelled %v and owned by %v", child.Labels, child.OwnerReferences)
	}
	if got := child.Annotations[workflowsv1alpha1.AnnotationOutputPrefix+"endpoint"]; got != "https://${{ jobs.verify.outputs.host }}" {
		t.Errorf("the contract says %q", got)
	}
	if diff := cmp.Diff(map[string]corev1alpha1.OutputValue{"endpoint": "https://h2"}, child.Status.Outputs); diff != "" {
		t.Errorf("outputs of the child itself (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"IMAGE": hostile, "ZONE": "eu"}, envOf(t, child)); diff != "" {
		t.Errorf("environment one level down (-want +got):\n%s", diff)
	}
	grandchild := get(t, ns, "ci-call-release-call-verify")
	if diff := cmp.Diff(map[string]string{"IMAGE": hostile, "HOST": "h1"}, envOf(t, grandchild)); diff != "" {
		t.Errorf("environment two levels down (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"ENDPOINT": "https://h2"}, envOf(t, run)); diff != "" {
		t.Errorf("environment of what needs the call (-want +got):\n%s", diff)
	}
	setup := run.Status.Jobs["build"].Steps[0]
	if setup.RunName != "" || len(setup.ActionSteps) != 2 || setup.Outputs["path"] != "/3.10/d" || setup.ActionSteps[0].RunName != "ci-build-setup-fetch" {
		t.Errorf("the step that calls an Action: %+v", setup)
	}
	for step, names := range p.executions() {
		if step != "build/setup" && len(names) != 1 {
			t.Errorf("step %s was executed by %v", step, names)
		}
	}
	for _, one := range []*workflowsv1alpha1.WorkflowRun{run, child, grandchild} {
		var revisions appsv1.ControllerRevisionList
		if err := shared.Admin().List(t.Context(), &revisions, client.InNamespace(ns), client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(one.UID)}); err != nil {
			t.Fatal(err)
		}
		want := 1
		if one == run {
			want = 2 // The Action is frozen beside the jobs.
		}
		if len(revisions.Items) != want {
			t.Errorf("%s has %d ControllerRevisions, want %d", one.Name, len(revisions.Items), want)
		}
	}
}

// TestDefinitionsThatChangeMeanwhile changes definitions before and after they are used: a Workflow counts as it is when its
// call becomes ready, an Action as it is when the WorkflowRun is accepted.
func TestDefinitionsThatChangeMeanwhile(t *testing.T) {
	ns := shared.Namespace(t)
	defineRelease(t, ns)
	shared.StartManager(t)
	held := releaseResults()
	held["build/setup"] = result{holds: corev1alpha1.RunRunning}
	held["apply/roll-out"] = result{holds: corev1alpha1.RunRunning}
	p := startPlayer(t, ns, held)
	newWorkflowRun(t, ns, "ci", releaseRun)
	await(t, ns, "ci", "the Action to run", func(run *workflowsv1alpha1.WorkflowRun) bool { return summary(run)["build/setup"] == "Running" })
	shared.Delete(t, manifest(t, "Action", ns, "toolchain", toolchainAction))
	change := func(name, patch string) {
		t.Helper()
		if err := shared.Admin().Patch(t.Context(), manifest(t, "Workflow", ns, name, releaseWorkflow), mergePatch(patch)); err != nil {
			t.Fatal(err)
		}
	}
	change("release", `{"spec":{"inputs":{"zone":{"default":"us"}}}}`)
	p.set("build/setup", releaseResults()["build/setup"])
	child := await(t, ns, "ci-call-release", "its first Run", func(run *workflowsv1alpha1.WorkflowRun) bool { return summary(run)["apply/roll-out"] == "Running" })
	if got := envOf(t, child)["ZONE"]; got != "us" {
		t.Errorf("the call was made with zone %q, want what the Workflow said then", got)
	}
	change("release", `{"spec":{"outputs":{"endpoint":{"value":"changed"}}}}`)
	p.set("apply/roll-out", releaseResults()["apply/roll-out"])
	if run := awaitEnd(t, ns, "ci"); run.Status.Jobs["release"].Outputs["endpoint"] != "https://h2" {
		t.Errorf("got %s with %v", run.Status.Phase, run.Status.Jobs["release"].Outputs)
	}
}

func TestCallsThatCannotBeMade(t *testing.T) {
	cases := map[string]struct {
		workflows map[string]string
		with      string
		message   string
	}{
		"no such Workflow":      {nil, "", `CallInvalid: there is no Workflow "a" in this namespace`},
		"one that calls itself": {map[string]string{"a": "jobs: {x: {uses: a}}"}, "", "CallInvalid: Workflow \"a\": spec.jobs[x].uses: Invalid value: \"a\": workflow call cycle: A -> A"},
		"two that call each other": {map[string]string{"a": "jobs: {x: {uses: b}}", "b": "jobs: {x: {uses: a}}"}, "",
			"workflow call cycle: a -> b -> a"},
		"a missing one further down": {map[string]string{"a": "jobs: {x: {uses: b}}"}, "", `there is no Workflow "b" in this namespace`},
		"an unknown input":           {map[string]string{"a": "inputs: {image: {}}\njobs: {x: {runs-on: sh, steps: [{name: s, run: 'true'}]}}"}, "with: {imagee: x}", `did you mean "image"?`},
		"a required input":           {map[string]string{"a": "inputs: {image: {required: true}}\njobs: {x: {runs-on: sh, steps: [{name: s, run: 'true'}]}}"}, "", "image"},
	}
	shared.StartManager(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			define(t, ns, "Workflow", tc.workflows)
			startPlayer(t, ns, nil)
			newWorkflowRun(t, ns, "ci", "jobs:\n  call:\n    uses: a\n    "+tc.with+"\n  after: {runs-on: sh, needs: [call], steps: [{name: s, run: 'true'}]}\n  other: {runs-on: sh, steps: [{name: s, run: 'true'}]}\n")
			run := awaitEnd(t, ns, "ci")
			want := map[string]string{"": "Failed", "call": "Failed", "after": "Skipped", "after/s": "Pending", "other": "Succeeded", "other/s": "Succeeded"}
			if diff := cmp.Diff(want, summary(run)); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
			got := run.Status.Jobs["call"].Message
			if !strings.HasPrefix(got, "CallInvalid: ") || !strings.Contains(strings.ToLower(got), strings.ToLower(tc.message)) {
				t.Errorf("message %q, want %q", got, tc.message)
			}
			var all workflowsv1alpha1.WorkflowRunList
			if err := shared.Admin().List(t.Context(), &all, client.InNamespace(ns)); err != nil || len(all.Items) != 1 {
				t.Errorf("%d WorkflowRuns (%v), want the caller alone", len(all.Items), err)
			}
		})
	}
}

func TestActionsThatCannotBeCalled(t *testing.T) {
	cases := map[string]struct{ action, with, message string }{
		"no such Action":   {"", "", `there is no Action "act" in this namespace`},
		"an unknown input": {"{inputs: {version: {}}, steps: [{name: s, run: 'true'}]}", "with: {verson: x}", `did you mean "version"?`},
		"a required input": {"{inputs: {version: {required: true}}, steps: [{name: s, run: 'true'}]}", "", "version"},
	}
	shared.StartManager(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			if tc.action != "" {
				define(t, ns, "Action", map[string]string{"act": tc.action})
			}
			newWorkflowRun(t, ns, "ci", "jobs:\n  a: {runs-on: sh, steps: [{name: first, run: 'true'}]}\n  b:\n    runs-on: sh\n    steps:\n    - name: call\n      uses: act\n      "+tc.with+"\n")
			run := awaitEnd(t, ns, "ci")
			if run.Status.Phase != workflowsv1alpha1.WorkflowFailed || !strings.Contains(run.Status.Message, "spec.jobs[b].steps[0]") || !strings.Contains(run.Status.Message, tc.message) {
				t.Errorf("got %s: %q", run.Status.Phase, run.Status.Message)
			}
			if got := children(t, run); len(got) > 0 {
				t.Errorf("%d Runs were made", len(got))
			}
		})
	}
}

// TestCancelReachesCallsInsideCalls cancels each level once, while the Run at the bottom is active.
func TestCancelReachesCallsInsideCalls(t *testing.T) {
	cases := map[string]struct {
		cancel string
		want   map[string]workflowsv1alpha1.WorkflowPhase
	}{
		"the root": {"ci", map[string]workflowsv1alpha1.WorkflowPhase{"ci": "Cancelled", "ci-call-release": "Cancelled", "ci-call-release-call-verify": "Cancelled"}},
		"a call":   {"ci-call-release", map[string]workflowsv1alpha1.WorkflowPhase{"ci": "Failed", "ci-call-release": "Cancelled", "ci-call-release-call-verify": "Cancelled"}},
		"the last": {"ci-call-release-call-verify", map[string]workflowsv1alpha1.WorkflowPhase{"ci": "Failed", "ci-call-release": "Failed", "ci-call-release-call-verify": "Cancelled"}},
	}
	shared.StartManager(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			defineRelease(t, ns)
			held := releaseResults()
			held["smoke/curl"] = result{holds: corev1alpha1.RunRunning}
			startPlayer(t, ns, held)
			newWorkflowRun(t, ns, "ci", releaseRun)
			cluster.Eventually(t, "the last call to run", func(ctx context.Context) (bool, error) {
				run := &workflowsv1alpha1.WorkflowRun{}
				err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: ns, Name: "ci-call-release-call-verify"}, run)
				return err == nil && summary(run)["smoke/curl"] == "Running", client.IgnoreNotFound(err)
			})
			target := get(t, ns, tc.cancel)
			if err := shared.Admin().Patch(t.Context(), target, mergePatch(`{"spec":{"cancelRequested":true}}`)); err != nil {
				t.Fatal(err)
			}
			got := map[string]workflowsv1alpha1.WorkflowPhase{}
			for name := range tc.want {
				got[name] = awaitEnd(t, ns, name).Status.Phase
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACallWhoseChildIsDeletedFails(t *testing.T) {
	ns := shared.Namespace(t)
	defineRelease(t, ns)
	shared.StartManager(t)
	held := releaseResults()
	held["apply/roll-out"] = result{holds: corev1alpha1.RunRunning}
	startPlayer(t, ns, held)
	newWorkflowRun(t, ns, "ci", releaseRun)
	await(t, ns, "ci", "the call to run", func(run *workflowsv1alpha1.WorkflowRun) bool { return run.Status.Jobs["release"].WorkflowRunName != "" })
	shared.Delete(t, get(t, ns, "ci-call-release"))
	run := awaitEnd(t, ns, "ci")
	if got := run.Status.Jobs["release"].Message; !strings.HasPrefix(got, "ChildDeleted: WorkflowRun ci-call-release is gone") {
		t.Errorf("got message %q", got)
	}
}

// TestTheChildOfACallIsKeptUntilItsCallerHasIt has somebody shorten its life while it runs.
func TestTheChildOfACallIsKeptUntilItsCallerHasIt(t *testing.T) {
	ns := shared.Namespace(t)
	defineRelease(t, ns)
	shared.StartManager(t)
	held := releaseResults()
	held["apply/roll-out"] = result{holds: corev1alpha1.RunRunning}
	p := startPlayer(t, ns, held)
	newWorkflowRun(t, ns, "ci", releaseRun)
	child := await(t, ns, "ci-call-release", "its first Run", func(run *workflowsv1alpha1.WorkflowRun) bool { return summary(run)["apply/roll-out"] == "Running" })
	if err := shared.Admin().Patch(t.Context(), child, mergePatch(`{"spec":{"ttlSecondsAfterFinished":0}}`)); err != nil {
		t.Fatal(err)
	}
	p.set("apply/roll-out", releaseResults()["apply/roll-out"])
	if run := awaitEnd(t, ns, "ci"); run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		t.Errorf("got %s: %s", run.Status.Phase, run.Status.Message)
	}
	cluster.Eventually(t, "the child to be deleted", func(ctx context.Context) (bool, error) {
		err := shared.Admin().Get(ctx, client.ObjectKeyFromObject(child), &workflowsv1alpha1.WorkflowRun{})
		return err != nil && client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
	})
}

func TestANameThatIsTakenByAnotherWorkflowRunIsLeftAlone(t *testing.T) {
	ns := shared.Namespace(t)
	defineRelease(t, ns)
	newWorkflowRun(t, ns, "ci-call-release", "jobs: {a: {runs-on: none, steps: [{name: s, run: 'true'}]}}")
	shared.StartManager(t)
	results := releaseResults()
	results["a/s"] = result{holds: corev1alpha1.RunPending}
	startPlayer(t, ns, results)
	newWorkflowRun(t, ns, "ci", releaseRun)
	run := awaitEnd(t, ns, "ci")
	if got := run.Status.Jobs["release"].WorkflowRunName; run.Status.Phase != "Succeeded" || !strings.HasPrefix(got, "ci-call-release-") {
		t.Errorf("got %s: %q; the child is %s", run.Status.Phase, run.Status.Message, got)
	}
}

// TestCallsSurviveAKillAtEveryWrite kills the manager at every write of a tree of three levels.
func TestCallsSurviveAKillAtEveryWrite(t *testing.T) {
	players := map[string]*player{}
	cluster.KillAtEveryWrite(t, cluster.Kills{
		MaxWrites: 60,
		Prepare: func(t *testing.T) string {
			ns := shared.Namespace(t)
			define(t, ns, "Action", map[string]string{"act": "{inputs: {x: {required: true}}, outputs: {out: {value: '<${{ inputs.x }}>'}}, steps: [{name: s, run: 'true'}]}"})
			define(t, ns, "Workflow", map[string]string{
				"middle": "{inputs: {x: {required: true}}, outputs: {x: {value: '${{ jobs.b.outputs.x }}'}}, jobs: {b: {uses: bottom, with: {x: '${{ inputs.x }}'}}}}",
				"bottom": "{inputs: {x: {required: true}}, outputs: {x: {value: '${{ jobs.c.outputs.x }}'}}, jobs: {c: {runs-on: sh, steps: [{name: s, run: '${{ inputs.x }}'}], outputs: {x: {value: '${{ steps.s.outputs.x }}'}}}}}",
			})
			players[ns] = startPlayer(t, ns, map[string]result{"c/s": {phase: corev1alpha1.RunSucceeded, outputs: map[string]string{"x": hostile}}})
			newWorkflowRun(t, ns, "top", "{jobs: {a: {runs-on: sh, steps: [{name: call, uses: act, with: {x: '1'}}], outputs: {out: {value: '${{ steps.call.outputs.out }}'}}}, b: {needs: [a], uses: middle, with: {x: '${{ jobs.a.outputs.out }}'}}}}")
			return ns
		},
		Start: func(t *testing.T, f *cluster.Fault) func() {
			return shared.StartManager(t, func(o *manager.Options) {
				f.WrapConfig(o.Config)
				o.ConfigFile = configuration(t, "jobs: WithSeveralRuns")
			})
		},
		Done: func(t *testing.T, ns string) bool { return get(t, ns, "top").Status.Phase.IsTerminal() },
		Check: func(t *testing.T, ns string) {
			run := awaitEnd(t, ns, "top")
			if run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded || run.Status.Jobs["b"].Outputs["x"] != hostile {
				t.Errorf("got %s: %s, outputs %v", run.Status.Phase, run.Status.Message, run.Status.Jobs["b"].Outputs)
			}
			want := map[string][]string{"a/call": {"top-a-call-s"}, "c/s": {"top-call-b-call-b-c-s"}}
			if diff := cmp.Diff(want, players[ns].executions()); diff != "" {
				t.Errorf("executions (-want +got):\n%s", diff)
			}
			if got := children(t, get(t, ns, "top-call-b-call-b"))[0].Spec.Source.Inline; got != "<1>" {
				t.Errorf("the script at the bottom is %q", got)
			}
			var all workflowsv1alpha1.WorkflowRunList
			if err := shared.Admin().List(t.Context(), &all, client.InNamespace(ns)); err != nil || len(all.Items) != 3 {
				t.Errorf("%d WorkflowRuns (%v), want 3", len(all.Items), err)
			}
		},
	})
}

// TestAQuotaHoldsACallBack has a quota of one WorkflowRun, and raises it.
func TestAQuotaHoldsACallBack(t *testing.T) {
	ns := shared.Namespace(t)
	defineRelease(t, ns)
	allow := quota(t, ns, "workflowruns.workflows.kruntimes.io", "1")
	shared.StartManager(t)
	startPlayer(t, ns, releaseResults())
	newWorkflowRun(t, ns, "ci", releaseRun)
	await(t, ns, "ci", "a call that says what it waits for", func(run *workflowsv1alpha1.WorkflowRun) bool {
		return strings.Contains(run.Status.Jobs["release"].Message, "exceeded quota")
	})
	allow("100")
	if run := awaitEnd(t, ns, "ci"); run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		t.Errorf("got %s: %s", run.Status.Phase, run.Status.Message)
	}
}
