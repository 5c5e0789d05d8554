package statuspatch

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

func run(phase corev1alpha1.RunPhase, change func(*corev1alpha1.RunStatus)) *corev1alpha1.Run {
	r := &corev1alpha1.Run{}
	r.ResourceVersion, r.UID = "7", "u"
	r.Status.Phase = phase
	if change != nil {
		change(&r.Status)
	}
	return r
}

func TestForRun(t *testing.T) {
	assigned := func(s *corev1alpha1.RunStatus) { s.AssignedPod, s.AssignedPodUID, s.Attempt = "p", "pu", 1 }
	cases := map[string]struct {
		writer        corev1alpha1.Writer
		before, after *corev1alpha1.Run
		want          string
	}{
		"a bind carries only the changed fields and the version it rests on": {
			writer: corev1alpha1.WriterScheduler, before: run("Pending", nil), after: run("Scheduled", assigned),
			want: `{"metadata":{"resourceVersion":"7","uid":"u"},"status":{"assignedPod":"p","assignedPodUID":"pu","attempt":1,"phase":"Scheduled"}}`,
		},
		"handing back clears the assignment": {
			writer: corev1alpha1.WriterRuntimed, before: run("Running", assigned),
			after: run("Pending", func(s *corev1alpha1.RunStatus) { s.Attempt = 2 }),
			want:  `{"metadata":{"resourceVersion":"7","uid":"u"},"status":{"assignedPod":null,"assignedPodUID":null,"attempt":2,"phase":"Pending"}}`,
		},
		"no change, no patch": {writer: corev1alpha1.WriterScheduler, before: run("Pending", nil), after: run("Pending", nil)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ForRun(tc.writer, tc.before, tc.after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForRunRefusesWhatTheTableRefuses(t *testing.T) {
	for _, from := range corev1alpha1.RunPhases() {
		for _, to := range corev1alpha1.RunPhases() {
			for _, w := range corev1alpha1.Writers() {
				_, err := ForRun(w, run(from, nil), run(to, nil))
				var refused *TransitionError
				if got, want := errors.As(err, &refused), !corev1alpha1.CanTransition(from, to, w); got != want {
					t.Errorf("%s: %s to %s: refused %t, want %t", w, from, to, got, want)
				}
			}
		}
	}
}
