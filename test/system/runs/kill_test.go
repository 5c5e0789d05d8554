package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TestKilledRuntimed kills runtimed while Runs execute and wait: its successor takes over what executes, what had not
// begun is executed, and nothing is executed twice.
func TestKilledRuntimed(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "2", nil))
	gate := filepath.Join(t.TempDir(), "gate")
	for i := range 2 {
		s.run(fmt.Sprintf("active-%d", i), "sh", s.signs()+"while [ ! -e "+gate+" ]; do sleep 0.05; done\n")
	}
	for i := range 2 {
		s.phase(fmt.Sprintf("active-%d", i), corev1alpha1.RunRunning)
	}
	for i := range 4 {
		s.run(fmt.Sprintf("waiting-%d", i), "sh", s.signs())
	}
	s.kill(s.runtimed())
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runs := s.settled()
	for name, run := range runs {
		if run.Status.Phase != corev1alpha1.RunSucceeded {
			t.Errorf("%s: %s/%s %s, want Succeeded", name, run.Status.Phase, run.Status.Reason, run.Status.Message)
		}
	}
	s.eachSignedOnce(len(runs))
}

// TestKilledRuntimeServer kills the runtime server while Runs execute: they are reported lost, and the next Run works.
func TestKilledRuntimeServer(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "2", nil))
	for i := range 2 {
		s.run(fmt.Sprintf("active-%d", i), "sh", s.signs()+"exec sleep 300\n")
	}
	for i := range 2 {
		s.phase(fmt.Sprintf("active-%d", i), corev1alpha1.RunRunning)
	}
	s.kill(s.runtimeServer())
	for name, run := range s.settled() {
		if run.Status.Phase != corev1alpha1.RunFailed || run.Status.Reason != corev1alpha1.RunReasonServerLost {
			t.Errorf("%s: %s/%s, want Failed/ServerLost", name, run.Status.Phase, run.Status.Reason)
		}
	}
	s.run("after", "sh", s.signs())
	s.phase("after", corev1alpha1.RunSucceeded)
	s.eachSignedOnce(3)
}

// TestKilledRuntimedUnderLoad kills runtimed again and again while Runs arrive: all end, none is executed twice, and those
// that were executed are the ones that are reported as a success.
func TestKilledRuntimedUnderLoad(t *testing.T) {
	const total, perKill = 60, 12
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "4", nil))
	for i := range total {
		s.run(fmt.Sprintf("run-%02d", i), "sh", s.signs()+"sleep 0.05\n")
		if i%perKill == perKill-1 {
			s.until("runtimed is there", func() (bool, string) { return s.runtimed().pid != 0, "" })
			s.kill(s.runtimed())
		}
	}
	signed := map[string]int{}
	runs := s.settled()
	for name, times := range s.signed() {
		signed[name] = times
		if times != 1 {
			t.Errorf("%s was executed %d times", name, times)
		}
	}
	for name, run := range runs {
		succeeded := run.Status.Phase == corev1alpha1.RunSucceeded
		lost := run.Status.Phase == corev1alpha1.RunFailed && run.Status.Reason == corev1alpha1.RunReasonExecutionLost
		if !succeeded && !lost {
			t.Errorf("%s: %s/%s %s", name, run.Status.Phase, run.Status.Reason, run.Status.Message)
		}
		if succeeded != (signed[name] == 1) {
			t.Errorf("%s: %s/%s although it was executed %d times", name, run.Status.Phase, run.Status.Reason, signed[name])
		}
	}
}

// TestKilledSchedulerAndManager kills both while Runs arrive: all succeed, each executed once.
func TestKilledSchedulerAndManager(t *testing.T) {
	const total, perKill = 60, 15
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "4", nil))
	for i := range total {
		s.run(fmt.Sprintf("run-%02d", i), "sh", s.signs())
		if i%perKill == perKill-1 {
			for _, name := range []string{"scheduler", "manager"} {
				if err := cluster.Crash(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, run := range s.settled() {
		if run.Status.Phase != corev1alpha1.RunSucceeded {
			t.Errorf("%s: %s/%s %s, want Succeeded", name, run.Status.Phase, run.Status.Reason, run.Status.Message)
		}
	}
	s.eachSignedOnce(total)
}

// eachSignedOnce compares the ledger with the number of Runs that must have been executed.
func (s *scene) eachSignedOnce(want int) {
	s.t.Helper()
	signed := s.signed()
	for name, times := range signed {
		if times != 1 {
			s.t.Errorf("%s was executed %d times, want once", name, times)
		}
	}
	if len(signed) != want {
		s.t.Errorf("%d Runs were executed, want %d", len(signed), want)
	}
}
