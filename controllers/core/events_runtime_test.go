package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// runtimeSaying is a Runtime with the conditions that the controller makes of a count of its Pods.
func runtimeSaying(n podCount, refused string) *corev1alpha1.Runtime {
	r := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Name: "sh", Generation: 1}}
	meta.SetStatusCondition(&r.Status.Conditions, available(n, refused))
	meta.SetStatusCondition(&r.Status.Conditions, progressing(n, refused))
	return r
}

func TestRuntimeEvents(t *testing.T) {
	none := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Name: "sh", Generation: 1}}
	starting := runtimeSaying(podCount{desired: 2, present: 2}, "")
	half := runtimeSaying(podCount{desired: 2, present: 2, ready: 1}, "")
	ready := runtimeSaying(podCount{desired: 2, present: 2, ready: 2}, "")
	readyOfThree := runtimeSaying(podCount{desired: 3, present: 3, ready: 3}, "")
	rolling := runtimeSaying(podCount{desired: 2, present: 3, ready: 2, rolling: true}, "")
	failing := runtimeSaying(podCount{desired: 2, present: 2, trouble: "container runtime of Pod a: ImagePullBackOff"}, "")
	halfFailing := runtimeSaying(podCount{desired: 2, present: 2, ready: 1, trouble: "container runtime of Pod a: ImagePullBackOff"}, "")
	waitsLonger := runtimeSaying(podCount{desired: 2, present: 2, trouble: "container runtime of Pod a: CrashLoopBackOff: back-off 20s"}, "")
	waits := runtimeSaying(podCount{desired: 2, present: 2, trouble: "container runtime of Pod a: CrashLoopBackOff: back-off 10s"}, "")
	quota := runtimeSaying(podCount{desired: 2, refused: "exceeded quota"}, "")
	refused := runtimeSaying(podCount{desired: 2}, "the Deployment is invalid")
	zero := runtimeSaying(podCount{}, "")
	cases := map[string]struct {
		before, after *corev1alpha1.Runtime
		want          [][3]string
	}{
		"it is new":                         {none, starting, nil},
		"its Pods come one by one":          {starting, half, nil},
		"its Pods are ready":                {half, ready, [][3]string{{"Normal", "PodsReady", "2 of 2 Pods ready"}}},
		"it is as it was":                   {ready, ready, nil},
		"it was scaled":                     {ready, readyOfThree, nil},
		"it is rolled out":                  {ready, rolling, [][3]string{{"Normal", "RollingOut", "2 of 2 Pods ready"}}},
		"the roll-out is over":              {rolling, ready, [][3]string{{"Normal", "PodsReady", "2 of 2 Pods ready"}}},
		"its Pods cannot start":             {starting, failing, [][3]string{{"Warning", "PodsFailing", "0 of 2 Pods ready; container runtime of Pod a: ImagePullBackOff"}}},
		"a Pod cannot start":                {ready, halfFailing, [][3]string{{"Warning", "PodsFailing", "1 of 2 Pods ready; container runtime of Pod a: ImagePullBackOff"}}},
		"another trouble":                   {failing, waits, [][3]string{{"Warning", "PodsFailing", "0 of 2 Pods ready; container runtime of Pod a: CrashLoopBackOff: back-off 10s"}}},
		"the same trouble in other numbers": {waits, waitsLonger, nil},
		"its Pods are not allowed":          {starting, quota, [][3]string{{"Warning", "PodsRefused", "0 of 2 Pods ready; exceeded quota"}}},
		"its Deployment is not allowed":     {starting, refused, [][3]string{{"Warning", "DeploymentRefused", "the Deployment is invalid"}}},
		"its last Pod has gone":             {ready, starting, [][3]string{{"Warning", "PodsStarting", "0 of 2 Pods ready"}}},
		"its last Pod has broken":           {ready, failing, [][3]string{{"Warning", "PodsFailing", "0 of 2 Pods ready; container runtime of Pod a: ImagePullBackOff"}}},
		"nobody asks for Pods":              {ready, zero, [][3]string{{"Normal", "ScaledToZero", "no Pod is asked for"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got [][3]string
			for _, e := range runtimeEvents(tc.before, tc.after) {
				got = append(got, [3]string{e.Type, e.Reason, e.Note})
				if !e.Recurs || e.Regarding.Name != "sh" || e.Regarding.Kind != "Runtime" || e.Action == "" {
					t.Errorf("event %+v", e)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
