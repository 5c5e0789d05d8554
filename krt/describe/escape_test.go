package describe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// Whoever creates a Run must not move the cursor of whoever describes it.
func TestNothingOfARunReachesTheTerminalUnescaped(t *testing.T) {
	const evil = "x\x1b[2Jy"
	git := waitingRun()
	git.Spec.Source = &corev1alpha1.RunSource{Git: &corev1alpha1.GitSource{URL: "https://" + evil, Revision: evil}}
	git.Spec.Mode.Task = &corev1alpha1.TaskMode{Entrypoint: evil, Args: []string{evil}}
	command := waitingRun()
	command.Spec.Mode.Task.Args = []string{evil}
	command.Status.AssignedPod = evil
	for name, run := range map[string]*corev1alpha1.Run{"a git source": git, "a command": command} {
		t.Run(name, func(t *testing.T) {
			text := (&runView{run: run}).text(noon)
			if strings.Contains(text, "\x1b") || !strings.Contains(text, `x\x1b[2Jy`) {
				t.Errorf("the page holds an escape sequence, or not what it stands for: %q", text)
			}
		})
	}
}

// The column RUNS counts units as the scheduler does, and not Runs.
func TestTakenRuns(t *testing.T) {
	active := func(uid string, phase corev1alpha1.RunPhase, units string) corev1alpha1.Run {
		run := corev1alpha1.Run{Status: corev1alpha1.RunStatus{Phase: phase, AssignedPodUID: uid}}
		if units != "" {
			run.Spec.Resources = &corev1alpha1.RunResources{Requests: corev1.ResourceList{"runs": resource.MustParse(units)}}
		}
		return run
	}
	view := &runtimeView{runs: []corev1alpha1.Run{
		active("a", corev1alpha1.RunRunning, "3"), active("a", corev1alpha1.RunScheduled, ""), active("a", corev1alpha1.RunSucceeded, "2"), active("b", corev1alpha1.RunRunning, ""),
	}}
	if diff := cmp.Diff(map[string]int64{"a": 4, "b": 1}, view.takenRuns()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
