package runs

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// retried creates a Run of a script that is tried up to three times.
func (s *scene) retried(name, script string, backoff time.Duration, on ...corev1alpha1.RunReason) {
	s.t.Helper()
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	run.Spec.Runtime, run.Spec.Source = "sh", &corev1alpha1.RunSource{Inline: script}
	run.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 3, Backoff: &metav1.Duration{Duration: backoff}, RetryOn: on}
	if err := admin.Create(s.t.Context(), run); err != nil {
		s.t.Fatal(err)
	}
}

// hasSigned waits until the script of a Run has begun, which is a little later than the Run is said to be running.
func (s *scene) hasSigned(name string) {
	s.t.Helper()
	s.until("run "+name+" has signed", func() (bool, string) { return s.signed()[name] > 0, "its script has not begun" })
}

// TestRetries takes Runs through failure, loss of the runtime server, loss of the Pod, and cancel, to what their policies
// make of it.
func TestRetries(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "8", nil))
	lives := s.signs() + "[ $KRUNTIME_ATTEMPT = 1 ] || exit 0\nexec sleep 300\n"
	s.retried("flaky", s.signs()+"[ $KRUNTIME_ATTEMPT -ge 3 ]\n", 300*time.Millisecond)
	s.retried("hopeless", s.signs()+"exit 7\n", 0)
	s.retried("picky", s.signs()+"exit 7\n", 0, corev1alpha1.RunReasonRuntimePodLost)
	s.retried("patient", s.signs()+"exit 7\n", time.Hour)
	s.retried("lost", lives, 0, corev1alpha1.RunReasonServerLost)
	s.waitsBecause("patient", corev1alpha1.ReasonBackoff)
	s.phase("flaky", corev1alpha1.RunSucceeded) // before what is done to the Pod costs an attempt
	s.phase("hopeless", corev1alpha1.RunFailed)
	s.phase("lost", corev1alpha1.RunRunning)
	s.hasSigned("lost")
	s.kill(s.runtimeServer())
	s.phase("lost", corev1alpha1.RunSucceeded)

	s.retried("homeless", lives, 0, corev1alpha1.RunReasonRuntimePodLost)
	pod := s.phase("homeless", corev1alpha1.RunRunning).Status.AssignedPod
	s.hasSigned("homeless")
	err := admin.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: pod}}, client.GracePeriodSeconds(0))
	if err != nil {
		t.Fatal(err)
	}
	if moved := s.phase("homeless", corev1alpha1.RunSucceeded).Status.AssignedPod; moved == pod {
		t.Errorf("homeless ended on Pod %s, which is gone", pod)
	}

	patient := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "patient"}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancelRequested":true}}`))
	if err := admin.Patch(t.Context(), patient, patch); err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		phase    corev1alpha1.RunPhase
		attempt  int32
		executed int
	}{
		"flaky":    {corev1alpha1.RunSucceeded, 3, 3},
		"hopeless": {corev1alpha1.RunFailed, 3, 3},
		"picky":    {corev1alpha1.RunFailed, 1, 1},
		"patient":  {corev1alpha1.RunCancelled, 2, 1},
		"lost":     {corev1alpha1.RunSucceeded, 2, 2},
		"homeless": {corev1alpha1.RunSucceeded, 2, 2},
	}
	runs, signed := s.settled(), s.signed()
	for name, w := range want {
		status := runs[name].Status
		if status.Phase != w.phase || status.Attempt != w.attempt || signed[name] != w.executed {
			t.Errorf("%s: %s/%s in attempt %d, executed %d times; want %+v", name, status.Phase, status.Reason, status.Attempt, signed[name], w)
		}
	}
}
