package krt

import (
	"context"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/runtimed/logrecord"
)

const ci = `apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata:
  name: ci
  annotations:
    kruntimes.io/workflow-output.image: ${{ jobs.build.outputs.image }}
spec:
  jobs:
    build:
      runs-on: bash
      steps:
      - {name: compile, run: make}
      - {name: test, run: make test}
      outputs:
        image: {value: "app:${{ steps.compile.outputs.tag }}"}
    deploy:
      runs-on: bash
      needs: [build]
      steps:
      - {name: roll-out, run: deploy}
`

// play stands in for scheduler and runtimed: until the test ends it takes every Run of a step to the end that is laid
// down for the step ("job/step"), and to success where nothing is, with a line of output. One that holds goes on until it is
// cancelled.
func play(t *testing.T, namespace string, ends map[string]func(*corev1alpha1.RunStatus), holds ...string) {
	t.Helper()
	node := newKubelet(t, "play-"+namespace)
	pod := node.pod(t, namespace, "pod")
	next := func(run *corev1alpha1.Run) {
		step := run.Labels[workflowsv1alpha1.LabelJob] + "/" + run.Labels[workflowsv1alpha1.LabelStep]
		now := metav1.NewMicroTime(time.Now())
		s := &run.Status
		switch {
		case run.Spec.CancelRequested:
			s.Phase, s.Reason, s.CompletionTime = corev1alpha1.RunCancelled, corev1alpha1.RunReasonCancelled, &now
		case s.Phase == corev1alpha1.RunPending:
			s.Phase, s.Attempt, s.AssignedPod, s.AssignedPodUID, s.ScheduledTime = corev1alpha1.RunScheduled, 1, pod.Name, string(pod.UID), &now
		case s.Phase == corev1alpha1.RunScheduled:
			s.Phase, s.StartTime = corev1alpha1.RunRunning, &now
		case strings.Contains(strings.Join(holds, " "), step):
		default:
			s.Phase, s.CompletionTime = corev1alpha1.RunSucceeded, &now
			if end := ends[step]; end != nil {
				end(s)
			}
			node.write(t, line(run, logrecord.Stdout, "output of "+run.Name), end(run))
		}
	}
	shared.Play(t, namespace, func(ctx context.Context, run *corev1alpha1.Run) error {
		if run.Labels[workflowsv1alpha1.LabelStep] == "" {
			return nil
		}
		before := run.DeepCopy()
		next(run)
		return shared.Admin().Status().Patch(ctx, run, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

func outputs(name, value string) func(*corev1alpha1.RunStatus) {
	return func(s *corev1alpha1.RunStatus) {
		s.Outputs = map[string]corev1alpha1.OutputValue{name: corev1alpha1.OutputValue(value)}
	}
}

func failure(s *corev1alpha1.RunStatus) {
	s.Phase, s.Reason, s.ExitCode = corev1alpha1.RunFailed, corev1alpha1.RunReasonScriptFailed, new(int32(3))
	s.Message = "Exit code 3\n\x1b]52;c;ZXZpbA==\a1 of 2 tests failed"
}

var changing = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d\d\d +| +[\d.]+(µs|ms|s)$| after [\d.]+(µs|ms|s)`)

// stable leaves times out of what a view shows, and makes one space of several.
func stable(text string) string {
	return regexp.MustCompile(` {2,}`).ReplaceAllString(changing.ReplaceAllString(text, ""), " ")
}

func TestAWorkflowRunIsFollowedToSuccess(t *testing.T) {
	namespace := shared.Namespace(t)
	shared.StartManager(t)
	play(t, namespace, map[string]func(*corev1alpha1.RunStatus){"build/compile": outputs("tag", "v1")})
	got := run(t, kubeconfig(t, shared.Config(), namespace), ci, "workflow", "run", "-f", "-", "--follow")
	if got.code != cli.ExitOK || got.errOut != "krt: WorkflowRun ci created in namespace "+namespace+"\n" {
		t.Errorf("got %+v", got)
	}
	want := "\nOutputs:\n image=app:v1\n build.image=app:v1\n"
	text := stable(got.out)
	for _, line := range []string{"build/compile Succeeded\n", "build/test Succeeded\n", "deploy/roll-out Succeeded\n", "deploy Succeeded\nci Succeeded\n" + want} {
		if !strings.Contains(text, line) {
			t.Errorf("stdout does not hold %q:\n%s", line, text)
		}
	}
}

func TestAWorkflowRunIsFollowedToFailure(t *testing.T) {
	namespace := shared.Namespace(t)
	shared.StartManager(t)
	play(t, namespace, map[string]func(*corev1alpha1.RunStatus){"build/test": failure})
	config := kubeconfig(t, shared.Config(), namespace)
	got := run(t, config, ci, "wf", "run", "-f", "-", "--follow", "-q")
	want := result{
		code: cli.ExitFailed,
		out: "\nFirst failure: build/test Failed: ScriptFailed: Exit code 3\n\\x1b]52;c;ZXZpbA==\\a1 of 2 tests failed\n" +
			"Its output: krt logs ci-build-test -n " + namespace + "\n",
		errOut: "krt: WorkflowRun ci Failed\n",
	}
	got.errOut = stable(got.errOut)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What has ended can be looked at.
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"get":                         {args: []string{"get", "workflowruns", "--no-headers"}, want: "ci Failed 2/2"},
		"describe":                    {args: []string{"describe", "workflowrun", "ci"}, want: "build/test Failed: ScriptFailed: Exit code 3"},
		"watch":                       {args: []string{"watch", "ci"}, want: "ci Failed"},
		"wait for its end":            {args: []string{"wait", "workflowrun", "ci"}, want: "workflowrun.workflows.kruntimes.io/ci Failed\n"},
		"wait for its success":        {args: []string{"wait", "workflowrun", "ci", "--for", "succeeded"}, code: cli.ExitFailed, want: "krt: WorkflowRun ci did not succeed: "},
		"cancel":                      {args: []string{"cancel", "workflowrun", "ci"}},
		"logs of a job that is none":  {args: []string{"logs", "workflowrun", "ci", "--job", "biuld"}, code: cli.ExitUsage, want: "did you mean build?"},
		"logs of a step that is none": {args: []string{"logs", "workflowrun", "ci", "--step", "x"}, code: cli.ExitUsage, want: `has no such step "x"`},
		"logs of a job that was skipped": {args: []string{"logs", "workflowrun", "ci", "--job", "deploy"}, code: cli.ExitFailed,
			want: "the WorkflowRun ci has no such output: it ended (Failed) before the step got a Pod"},
		"logs of one that does not exist": {args: []string{"logs", "workflowrun", "nope"}, code: cli.ExitFailed, want: `there is no WorkflowRun "nope"`},
		"a second one of the name":        {args: []string{"wf", "run", "-f", "-"}, code: cli.ExitFailed, want: `there is a WorkflowRun "ci"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := run(t, config, ci, tc.args...)
			if text := got.out + got.errOut; got.code != tc.code || !strings.Contains(stable(text), tc.want) || strings.Contains(text, "\x1b") {
				t.Errorf("got %+v, want exit code %d and %q", got, tc.code, tc.want)
			}
		})
	}
}

func TestAWorkflowRunIsCancelled(t *testing.T) {
	cases := map[string]struct {
		cancel   func(t *testing.T, config string, p *process)
		wantCode int
	}{
		"by the command": {wantCode: cli.ExitInterrupted, cancel: func(t *testing.T, config string, _ *process) {
			if got := run(t, config, "", "cancel", "workflowrun", "ci"); got.code != cli.ExitOK || !strings.Contains(got.out, "ci cancel requested") {
				t.Errorf("cancel: %+v", got)
			}
		}},
		"by a signal": {wantCode: 143, cancel: func(_ *testing.T, _ string, p *process) { p.signals <- syscall.SIGTERM }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			namespace := shared.Namespace(t)
			shared.StartManager(t)
			play(t, namespace, nil, "build/test")
			config := kubeconfig(t, shared.Config(), namespace)
			p := start(t, config, ci, "wf", "run", "-f", "-", "--follow")
			shows(t, p, "build/test                Running\n")
			waiting := start(t, config, "", "wait", "workflowrun", "ci", "--for", "succeeded")
			tc.cancel(t, config, p)
			if code := p.wait(t); code != tc.wantCode {
				t.Errorf("exit code %d, want %d, stderr %s", code, tc.wantCode, p.errOut.String())
			}
			if text := stable(p.out.String()); !strings.Contains(text, "ci Cancelled") || strings.Contains(text, "First failure") {
				t.Errorf("stdout:\n%s", text)
			}
			if code := waiting.wait(t); code != cli.ExitFailed {
				t.Errorf("exit code of wait %d, want %d", code, cli.ExitFailed)
			}
		})
	}
}

func TestWorkflowRunsThatAreRefused(t *testing.T) {
	namespace := shared.Namespace(t)
	reader := shared.User(t, namespace, "wf-reader-"+namespace, rbacv1.PolicyRule{APIGroups: []string{"workflows.kruntimes.io"},
		Resources: []string{"workflowruns"}, Verbs: []string{"get", "list", "watch"}})
	cases := map[string]struct {
		config, in string
		code       int
		want       string
	}{
		"by krt": {config: kubeconfig(t, shared.Config(), namespace), in: strings.Replace(ci, "jobs.build.outputs.image", "jobs.build.outputs.imag", 1), code: cli.ExitUsage,
			want: "krt: <stdin> is not valid, and nothing was created:\n<stdin>:6:41: metadata.annotations[kruntimes.io/workflow-output.image]: "},
		"by the cluster": {config: kubeconfig(t, reader, namespace), in: ci, code: cli.ExitFailed,
			want: "krt: creating the WorkflowRun ci: workflowruns.workflows.kruntimes.io is forbidden: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := run(t, tc.config, tc.in, "wf", "run", "-f", "-"); got.code != tc.code || !strings.HasPrefix(got.errOut, tc.want) {
				t.Errorf("got %+v, want exit code %d and %q", got, tc.code, tc.want)
			}
		})
	}
}
