package cache

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

func waits(reasons ...string) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, r := range reasons {
		s := corev1.ContainerStatus{}
		if r != "" {
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: r}
		}
		out = append(out, s)
	}
	return out
}

// madeFor are the labels of a Pod of a Runtime.
func madeFor(runtime string) map[string]string {
	return map[string]string{corev1alpha1.LabelRuntime: runtime, corev1alpha1.LabelManagedBy: corev1alpha1.ManagedBy}
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason}
}

func TestPodOfReadiness(t *testing.T) {
	notReady := condition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady")
	cases := map[string]struct {
		status     corev1.PodStatus
		wantReady  bool
		wantReason string
	}{
		"ready": {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionTrue, "")}}, true, ""},
		"a container cannot start": {corev1.PodStatus{Conditions: []corev1.PodCondition{notReady},
			ContainerStatuses: waits("", "ImagePullBackOff")}, false, "ImagePullBackOff"},
		"an init container cannot start, the others wait for it": {corev1.PodStatus{Conditions: []corev1.PodCondition{notReady},
			InitContainerStatuses: waits("CrashLoopBackOff"), ContainerStatuses: waits("PodInitializing")}, false, "CrashLoopBackOff"},
		"containers are being made": {corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{notReady},
			ContainerStatuses: waits("PodInitializing", "ContainerCreating")}, false, "ContainerCreating"},
		"no node takes it": {corev1.PodStatus{Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable")}}, false, "Unschedulable"},
		"it was evicted": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Conditions: []corev1.PodCondition{notReady}}, false, "Evicted"},
		"a container has ended, another is being made": {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{notReady},
			ContainerStatuses: []corev1.ContainerStatus{waits("ContainerCreating")[0],
				{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}}}}, false, "OOMKilled"},
		"it has failed, and its condition is of before": {corev1.PodStatus{Phase: corev1.PodFailed,
			Conditions: []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionTrue, "")}}, false, "Failed"},
		"it has ended": {corev1.PodStatus{Phase: corev1.PodSucceeded, Conditions: []corev1.PodCondition{notReady}}, false, "Succeeded"},
		"its probe fails": {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{notReady},
			ContainerStatuses: waits("")}, false, "ContainersNotReady"},
		"nobody has looked at it": {corev1.PodStatus{Phase: corev1.PodPending}, false, "Pending"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := PodOf(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u", Labels: madeFor("sh")},
				Status:     tc.status,
			})
			want := Pod{Runtime: key, Name: "p", UID: "u", Ready: tc.wantReady, NotReadyReason: tc.wantReason}
			if diff := cmp.Diff(want, got); diff != "" || !ok {
				t.Errorf("Pod of a Runtime %t (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestPodOfFindsItsRuntime(t *testing.T) {
	long := strings.Repeat("x", 100)
	cases := map[string]struct {
		label, annotation string
		want              string
	}{
		"by its label": {"sh", "", "sh"},
		"by the full name, where the label is short for it": {corev1alpha1.RuntimeLabelValue(long), long, long},
		"not by an annotation that is not the label's":      {"sh", "other", "sh"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := PodOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n",
				Labels:      madeFor(tc.label),
				Annotations: map[string]string{corev1alpha1.AnnotationRuntime: tc.annotation}}})
			if want := (types.NamespacedName{Namespace: "n", Name: tc.want}); got.Runtime != want || !ok {
				t.Errorf("Runtime %s, want %s", got.Runtime, want)
			}
		})
	}
	for name, labels := range map[string]map[string]string{
		"no label":                        nil,
		"the Runtime's label alone":       {corev1alpha1.LabelRuntime: "sh"},
		"another manager's label":         {corev1alpha1.LabelRuntime: "sh", corev1alpha1.LabelManagedBy: "Helm"},
		"the label of managed ones alone": {corev1alpha1.LabelManagedBy: corev1alpha1.ManagedBy},
	} {
		if _, ok := PodOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}); ok {
			t.Errorf("%s: a Pod of a Runtime", name)
		}
	}
}

func TestRuntimeOf(t *testing.T) {
	now := metav1.Unix(1, 0)
	cases := map[string]struct {
		runtime corev1alpha1.Runtime
		want    framework.RuntimeInfo
	}{
		"defaults are those of the schema": {corev1alpha1.Runtime{},
			framework.RuntimeInfo{Namespace: "n", Name: "sh", Replicas: 1, Capacity: framework.Resources{{Name: "runs", Milli: 4000}}}},
		"a capacity that does not mention runs": {
			corev1alpha1.Runtime{Spec: corev1alpha1.RuntimeSpec{Replicas: ptr.To[int32](0), Capacity: corev1.ResourceList{"gpu": resource.MustParse("1")}}},
			framework.RuntimeInfo{Namespace: "n", Name: "sh", Capacity: framework.Resources{{Name: "gpu", Milli: 1000}, {Name: "runs", Milli: 4000}}}},
		"trouble is taken from the conditions": {
			corev1alpha1.Runtime{Status: corev1alpha1.RuntimeStatus{Conditions: []metav1.Condition{
				{Reason: corev1alpha1.ReasonPodsStarting}, {Reason: corev1alpha1.ReasonPodsRefused, Message: "exceeded quota"}}}},
			framework.RuntimeInfo{Namespace: "n", Name: "sh", Replicas: 1, Capacity: framework.Resources{{Name: "runs", Milli: 4000}}, Trouble: "PodsRefused: exceeded quota"}},
		"on its way out": {corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}},
			framework.RuntimeInfo{Namespace: "n", Name: "sh", Replicas: 1, Capacity: framework.Resources{{Name: "runs", Milli: 4000}}, Deleting: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.runtime.Namespace, tc.runtime.Name = "n", "sh"
			before := tc.runtime.DeepCopy()
			if diff := cmp.Diff(tc.want, *RuntimeOf(&tc.runtime)); diff != "" {
				t.Errorf("info (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(*before, tc.runtime); diff != "" {
				t.Errorf("the Runtime was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestForeignWordsAreBounded(t *testing.T) {
	words := strings.Repeat("ü", 150)
	want := strings.Repeat("ü", 98) + "…"
	pod, _ := PodOf(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: madeFor("sh")},
		Status:     corev1.PodStatus{Reason: words},
	})
	if diff := cmp.Diff(want, pod.NotReadyReason); diff != "" {
		t.Errorf("of a Pod (-want +got):\n%s", diff)
	}
	info := RuntimeOf(&corev1alpha1.Runtime{Status: corev1alpha1.RuntimeStatus{Conditions: []metav1.Condition{
		{Reason: corev1alpha1.ReasonPodsRefused, Message: words}}}})
	if len(info.Trouble) > maxReason {
		t.Errorf("%d bytes of a Runtime", len(info.Trouble))
	}
}
