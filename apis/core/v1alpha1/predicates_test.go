package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestPodIsReady(t *testing.T) {
	ready := func(s corev1.ConditionStatus) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: s}}
	}
	cases := map[string]struct {
		status corev1.PodStatus
		want   bool
	}{
		"it runs and is ready":               {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready(corev1.ConditionTrue)}, true},
		"it runs and is not ready":           {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready(corev1.ConditionFalse)}, false},
		"it runs and nobody knows":           {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready(corev1.ConditionUnknown)}, false},
		"it runs and nobody has looked":      {corev1.PodStatus{Phase: corev1.PodRunning}, false},
		"it was evicted while it was ready":  {corev1.PodStatus{Phase: corev1.PodFailed, Conditions: ready(corev1.ConditionTrue)}, false},
		"it has ended while it was ready":    {corev1.PodStatus{Phase: corev1.PodSucceeded, Conditions: ready(corev1.ConditionTrue)}, false},
		"it is Pending and said to be ready": {corev1.PodStatus{Phase: corev1.PodPending, Conditions: ready(corev1.ConditionTrue)}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := PodIsReady(&corev1.Pod{Status: tc.status}); got != tc.want {
				t.Errorf("want %t, got %t", tc.want, got)
			}
		})
	}
}

func TestDefaultsOfARuntime(t *testing.T) {
	quantity := resource.MustParse
	zero, three := int32(0), int32(3)
	cases := map[string]struct {
		spec         RuntimeSpec
		wantReplicas int32
		wantCapacity corev1.ResourceList
	}{
		"nothing is said": {RuntimeSpec{}, 1, corev1.ResourceList{"runs": quantity("4")}},
		"nothing is asked for": {RuntimeSpec{Replicas: &zero, Capacity: corev1.ResourceList{"runs": quantity("0")}},
			0, corev1.ResourceList{"runs": quantity("0")}},
		"another resource leaves the default of runs": {
			RuntimeSpec{Replicas: &three, Capacity: corev1.ResourceList{"gpu": quantity("2")}},
			3, corev1.ResourceList{"runs": quantity("4"), "gpu": quantity("2")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &Runtime{Spec: tc.spec}
			before := r.DeepCopy()
			if got := r.DesiredReplicas(); got != tc.wantReplicas {
				t.Errorf("want %d replicas, got %d", tc.wantReplicas, got)
			}
			capacity := r.OfferedCapacity()
			if diff := cmp.Diff(tc.wantCapacity, capacity); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
			capacity["runs"] = quantity("99")
			if diff := cmp.Diff(before, r); diff != "" {
				t.Errorf("the Runtime has changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultsOfARun(t *testing.T) {
	for attempt, want := range map[int32]int32{0: 1, 1: 1, 7: 7} {
		if got := (&Run{Status: RunStatus{Attempt: attempt}}).CurrentAttempt(); got != want {
			t.Errorf("attempt %d: want %d, got %d", attempt, want, got)
		}
	}
	if got := RunPhase("").OrPending(); got != RunPending {
		t.Errorf("no phase: got %q", got)
	}
	for _, phase := range RunPhases() {
		if got := phase.OrPending(); got != phase {
			t.Errorf("%s: got %s", phase, got)
		}
	}
}

func TestPodIsOfRuntimeAsTheSelectorSays(t *testing.T) {
	cases := map[string]struct {
		labels map[string]string
		want   bool
	}{
		"made by the Runtime controller":   {map[string]string{LabelRuntime: "sh", LabelManagedBy: ManagedBy, "team": "a"}, true},
		"without labels":                   {nil, false},
		"with the Runtime's label alone":   {map[string]string{LabelRuntime: "sh"}, false},
		"managed by somebody else":         {map[string]string{LabelRuntime: "sh", LabelManagedBy: "Helm"}, false},
		"managed by us, and of no Runtime": {map[string]string{LabelManagedBy: ManagedBy}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}
			if got := PodIsOfRuntime(pod); got != tc.want {
				t.Errorf("predicate: want %t, got %t", tc.want, got)
			}
			if got := RuntimePodSelector().Matches(labels.Set(tc.labels)); got != tc.want {
				t.Errorf("selector: want %t, got %t", tc.want, got)
			}
		})
	}
}
