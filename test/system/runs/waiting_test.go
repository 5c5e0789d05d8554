package runs

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

func TestWhyARunWaits(t *testing.T) {
	cases := map[string]struct {
		runtime func(s *scene)
		change  func(r *corev1alpha1.Run)
		reason  string
		says    string
	}{
		"no such Runtime": {
			reason: corev1alpha1.ReasonRuntimeNotFound, says: "pool",
		},
		"no replicas": {
			runtime: func(s *scene) { s.runtime("pool", 0, "4", nil) },
			reason:  corev1alpha1.ReasonNoPods, says: "0",
		},
		"an image that cannot be pulled": {
			runtime: func(s *scene) {
				s.runtime("pool", 1, "4", func(r *corev1alpha1.Runtime) {
					r.Spec.Template.Spec.Containers[0].Image = "invalid/image:none"
				})
			},
			reason: corev1alpha1.ReasonNoReadyPods, says: "ImagePull",
		},
		"a crash loop": {
			runtime: func(s *scene) {
				s.runtime("pool", 1, "4", func(r *corev1alpha1.Runtime) {
					r.Spec.Server = corev1alpha1.ServerCustom
					r.Spec.Template.Spec.Containers[0].Command = []string{"/bin/false"}
				})
			},
			reason: corev1alpha1.ReasonNoReadyPods, says: "CrashLoopBackOff",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if tc.runtime != nil {
				tc.runtime(s)
			}
			s.run("waits", "pool", "true\n")
			s.until("the reason is told", func() (bool, string) {
				message := s.waitsBecause("waits", tc.reason)
				return strings.Contains(message, tc.says), message
			})
		})
	}
}

// TestRuntimeAppearsLater shows that a waiting Run is woken by what it waits for.
func TestRuntimeAppearsLater(t *testing.T) {
	s := newScene(t)
	s.run("early", "pool", "true\n")
	s.waitsBecause("early", corev1alpha1.ReasonRuntimeNotFound)
	pool := s.runtime("pool", 0, "4", nil)
	s.waitsBecause("early", corev1alpha1.ReasonNoPods)
	scale := client.MergeFrom(pool.DeepCopy())
	one := int32(1)
	pool.Spec.Replicas = &one
	if err := admin.Patch(t.Context(), pool, scale); err != nil {
		t.Fatal(err)
	}
	s.phase("early", corev1alpha1.RunSucceeded)
}

func TestNoInterpreter(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("pool", 1, "4", func(r *corev1alpha1.Runtime) { r.Spec.Interpreter = []string{"/no/such/interpreter"} }))
	s.run("script", "pool", "true\n")
	run := s.phase("script", corev1alpha1.RunFailed)
	if run.Status.Reason != corev1alpha1.RunReasonInterpreterNotFound || !strings.Contains(run.Status.Message, "/no/such/interpreter") {
		t.Errorf("%s %q, want InterpreterNotFound that names it", run.Status.Reason, run.Status.Message)
	}
}

// TestAThousandRunsOnCapacityFour shows that capacity is never exceeded: every script counts how many are there.
func TestAThousandRunsOnCapacityFour(t *testing.T) {
	const total = 1000
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "4", nil))
	crowd := t.TempDir()
	script := fmt.Sprintf("touch %[1]s/$KRUNTIME_RUN_NAME\nset -- %[1]s/*\necho crowd=$# >> \"$KRUNTIME_OUTPUTS\"\nrm %[1]s/$KRUNTIME_RUN_NAME\n", crowd)
	for i := range total {
		s.run(fmt.Sprintf("run-%04d", i), "sh", s.signs()+script)
	}
	for name, run := range s.settled() {
		if run.Status.Phase != corev1alpha1.RunSucceeded {
			t.Errorf("%s: %s %s", name, run.Status.Phase, run.Status.Message)
		}
		if crowd := run.Status.Outputs["crowd"]; !strings.Contains("1 2 3 4", string(crowd)) {
			t.Errorf("%s saw %s executions at once, want at most 4", name, crowd)
		}
	}
	s.eachSignedOnce(total)
}

// TestCancelSoonAfterCreate cancels a hundred Runs about 10 ms after they were created, wherever they are by then.
func TestCancelSoonAfterCreate(t *testing.T) {
	const total = 100
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "4", nil))
	for i := range total {
		run := s.run(fmt.Sprintf("run-%03d", i), "sh", s.signs()+"exec sleep 300\n")
		after10ms()
		before := client.MergeFrom(run.DeepCopy())
		run.Spec.CancelRequested = true
		if err := admin.Patch(t.Context(), run, before); err != nil {
			t.Fatal(err)
		}
	}
	for name, run := range s.settled() {
		if run.Status.Phase != corev1alpha1.RunCancelled || run.Status.Reason != corev1alpha1.RunReasonCancelled {
			t.Errorf("%s: %s/%s %s, want Cancelled", name, run.Status.Phase, run.Status.Reason, run.Status.Message)
		}
	}
	for name, times := range s.signed() {
		if times != 1 {
			t.Errorf("%s was executed %d times", name, times)
		}
	}
}

// TestScaleAndRoll shows that a change of the template replaces the Pods and that Runs work before and after.
func TestScaleAndRoll(t *testing.T) {
	s := newScene(t)
	r := s.runtime("sh", 2, "4", nil)
	s.warm(r)
	s.run("before", "sh", "true\n")
	first := s.phase("before", corev1alpha1.RunSucceeded).Status.AssignedPodUID
	before := client.MergeFrom(r.DeepCopy())
	r.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "COLOUR", Value: "blue"}}
	if err := admin.Patch(t.Context(), r, before); err != nil {
		t.Fatal(err)
	}
	s.run("after", "sh", "test \"$COLOUR\" = blue\n")
	s.until("a Run sees the new template", func() (bool, string) {
		run := s.phase("after", corev1alpha1.RunSucceeded, corev1alpha1.RunFailed)
		if run.Status.Phase == corev1alpha1.RunSucceeded {
			return run.Status.AssignedPodUID != first, run.Status.AssignedPod
		}
		if err := admin.Delete(t.Context(), run); err != nil {
			return false, err.Error()
		}
		s.run("after", "sh", "test \"$COLOUR\" = blue\n")
		return false, run.Status.Message
	})
	s.warm(r)
}
