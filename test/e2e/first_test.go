//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

func TestARunSucceedsInAnyImage(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change     func(*corev1alpha1.Runtime)
		script     string
		wantLogs   string
		wantOutput map[string]corev1alpha1.OutputValue
	}{
		"bash of Debian": {
			change:     func(*corev1alpha1.Runtime) {},
			script:     "words=(one two)\necho \"${words[1]}\"\necho word=${words[0]} >>\"$KRUNTIME_OUTPUTS\"\n",
			wantLogs:   "two\n",
			wantOutput: map[string]corev1alpha1.OutputValue{"word": "one"},
		},
		"Python": {
			change:     e2e.WithPython,
			script:     "import os, sys\nprint(sys.version_info.major)\nopen(os.environ['KRUNTIME_OUTPUTS'], 'a').write('word=three\\n')\n",
			wantLogs:   "3\n",
			wantOutput: map[string]corev1alpha1.OutputValue{"word": "three"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := e2e.New(t)
			env.Runtime("any", tc.change)
			run := env.WaitRun(env.Run("any", tc.script))
			if run.Status.Phase != corev1alpha1.RunSucceeded {
				t.Fatalf("the Run ended %s: %+v", run.Status.Phase, run.Status)
			}
			if diff := cmp.Diff(tc.wantOutput, run.Status.Outputs); diff != "" {
				t.Errorf("outputs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantLogs, env.Krt("logs", run.Name)); diff != "" {
				t.Errorf("logs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKrtRunsAScriptAndEndsWithItsExitCode(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash")
	got := env.TryKrt("echo out; echo err >&2; exit 7\n", "run", "--runtime=bash", "--file=-", "--follow")
	if got.Code != 7 || got.Stdout != "out\n" || !strings.Contains(got.Stderr, "err\n") {
		t.Errorf("krt run: %+v; want exit code 7, out and err", got)
	}
}

// Whoever installs with GitOps applies over and over: a field that the API server defaults or drops would never settle.
func TestApplyingTheInstallationAgainChangesNothing(t *testing.T) {
	env := e2e.New(t)
	manifests := env.Render("bin/e2e") // config/default with the images of this suite, as hack/e2e-deploy.sh made it
	env.ApplyInstallation(manifests)
	for line := range strings.Lines(env.ApplyInstallation(manifests)) {
		if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") {
			t.Errorf("the second time: %s", line)
		}
	}
}

func TestARunGoesOnWhileManagerAndSchedulerAreReplaced(t *testing.T) {
	env := e2e.New(t)
	env.Runtime("bash")
	gate := env.NewGate("replaced")
	run := env.WaitPhase(env.Run("bash", gate.Wait+"echo done"), corev1alpha1.RunRunning)
	env.LoseComponent(e2e.Manager)
	env.LoseComponent(e2e.Scheduler)
	gate.Open(run.Status.AssignedPod)
	env.WaitRun(run)
	if got := env.Krt("logs", run.Name); run.Status.Phase != corev1alpha1.RunSucceeded || run.Status.Attempt != 1 || got != "done\n" {
		t.Errorf("the Run ended %s in attempt %d, with logs %q", run.Status.Phase, run.Status.Attempt, got)
	}
	after := env.WaitRun(env.Run("bash", "true"))
	if after.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("a Run after that ended %s", after.Status.Phase)
	}
}

func TestARunWhoseRuntimedIsKilledIsNotRunTwice(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash")
	gate := env.NewGate("back")
	run := env.WaitPhase(env.Run("bash", "echo begun\n"+gate.Wait+"echo ended\n"), corev1alpha1.RunRunning)
	pod := env.Pod(run)
	env.Kill(pod, corev1alpha1.ContainerRuntimed, "runtimed")
	env.Eventually("runtimed is back", func() string {
		env.Refresh(pod)
		for _, c := range pod.Status.ContainerStatuses {
			if c.Name == corev1alpha1.ContainerRuntimed && c.RestartCount == 1 && c.Ready {
				return ""
			}
		}
		return fmt.Sprintf("%+v", pod.Status.ContainerStatuses)
	})
	gate.Open(pod.Name)
	env.WaitRun(run)
	if run.Status.Attempt != 1 || run.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("the Run ended in attempt %d: %+v", run.Status.Attempt, run.Status)
	}
	if got := env.Krt("logs", run.Name); got != "begun\nended\n" {
		t.Errorf("the scripts of the attempt said %q", got)
	}
}

func TestARunOutlastsARestartOfTheAPIServer(t *testing.T) {
	env := e2e.New(t)
	cluster := env.Cluster()
	env.Runtime("bash")
	gate := env.NewGate("restarted")
	run := env.WaitPhase(env.Run("bash", gate.Wait), corev1alpha1.RunRunning)
	if err := cluster.Restart(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	gate.Open(run.Status.AssignedPod)
	env.WaitRun(run)
	if run.Status.Phase != corev1alpha1.RunSucceeded || run.Status.Attempt != 1 {
		t.Errorf("the Run ended %s: %+v", run.Status.Phase, run.Status)
	}
}
