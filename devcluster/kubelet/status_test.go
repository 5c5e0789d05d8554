package kubelet

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// somePod has one init container and one main container.
func somePod() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy:  corev1.RestartPolicyAlways,
		InitContainers: []corev1.Container{{Name: "first"}},
		Containers:     []corev1.Container{{Name: "main"}},
	}}
}

func running(c *container) {
	c.started, c.running, c.ready, c.startAt, c.run = true, true, true, noon, &run{owner: "o"}
	c.waiting = corev1.ContainerStateWaiting{}
}

func ended(c *container, code int32) {
	running(c)
	c.running, c.seen.ended, c.exitCode, c.ready = false, true, code, false
	c.last = terminated(c.run, code, noon, noon.Add(time.Second))
}

func TestPodStatus(t *testing.T) {
	type summary struct {
		Phase                     corev1.PodPhase
		Initialized, Ready        corev1.ConditionStatus
		ReadyReason               string
		First, Main               string
		MainReady                 bool
		LastExitCode, RestartSeen int32
	}
	cases := map[string]struct {
		change func(first, main *container)
		want   summary
	}{
		"nothing has started": {
			change: func(_, _ *container) {},
			want: summary{Phase: "Pending", Initialized: "False", Ready: "False", ReadyReason: "ContainersNotReady",
				First: "waiting PodInitializing", Main: "waiting PodInitializing"},
		},
		"the init container runs": {
			change: func(first, _ *container) { running(first) },
			want: summary{Phase: "Pending", Initialized: "False", Ready: "False", ReadyReason: "ContainersNotReady",
				First: "running", Main: "waiting PodInitializing"},
		},
		"all is well": {
			change: func(first, main *container) { ended(first, 0); running(main) },
			want:   summary{Phase: "Running", Initialized: "True", Ready: "True", First: "terminated Completed", Main: "running", MainReady: true},
		},
		"it runs and is not ready": {
			change: func(first, main *container) { ended(first, 0); running(main); main.ready = false },
			want: summary{Phase: "Running", Initialized: "True", Ready: "False", ReadyReason: "ContainersNotReady",
				First: "terminated Completed", Main: "running"},
		},
		"it crashed and waits": {
			change: func(first, main *container) {
				ended(first, 0)
				ended(main, 137)
				main.restarts, main.waiting.Reason = 3, reasonCrashLoopBackOff
			},
			want: summary{Phase: "Running", Initialized: "True", Ready: "False", ReadyReason: "ContainersNotReady",
				First: "terminated Completed", Main: "waiting CrashLoopBackOff", LastExitCode: 137, RestartSeen: 3},
		},
		"it crashed and is about to start again": {
			change: func(first, main *container) { ended(first, 0); ended(main, 1) },
			want: summary{Phase: "Running", Initialized: "True", Ready: "False", ReadyReason: "ContainersNotReady",
				First: "terminated Completed", Main: "terminated Error"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := somePod()
			containers := newContainers(pod)
			tc.change(containers[0], containers[1])
			s := podStatus(pod, containers, nil, noon, noon)
			main := s.ContainerStatuses[0]
			got := summary{Phase: s.Phase, First: stateWord(s.InitContainerStatuses[0].State), Main: stateWord(main.State),
				MainReady: main.Ready, RestartSeen: main.RestartCount}
			if last := main.LastTerminationState.Terminated; last != nil {
				got.LastExitCode = last.ExitCode
			}
			for _, c := range s.Conditions {
				switch c.Type {
				case corev1.PodInitialized:
					got.Initialized = c.Status
				case corev1.PodReady:
					got.Ready, got.ReadyReason = c.Status, c.Reason
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func stateWord(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return "terminated " + s.Terminated.Reason
	default:
		return "waiting " + s.Waiting.Reason
	}
}

func TestConditionsKeepTheTimeOfTheirChange(t *testing.T) {
	pod := somePod()
	containers := newContainers(pod)
	before := podStatus(pod, containers, nil, noon, noon)
	ended(containers[0], 0)
	later := noon.Add(time.Minute)
	got := map[corev1.PodConditionType]metav1.Time{}
	for _, c := range podStatus(pod, containers, before, noon, later).Conditions {
		got[c.Type] = c.LastTransitionTime
	}
	want := map[corev1.PodConditionType]metav1.Time{
		corev1.PodReadyToStartContainers: metav1.NewTime(noon), corev1.PodScheduled: metav1.NewTime(noon),
		corev1.PodInitialized: metav1.NewTime(later), corev1.ContainersReady: metav1.NewTime(noon), corev1.PodReady: metav1.NewTime(noon),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadinessGatesHoldThePodBack(t *testing.T) {
	pod := somePod()
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/open"}}
	containers := newContainers(pod)
	ended(containers[0], 0)
	running(containers[1])
	ready := func() corev1.ConditionStatus {
		for _, c := range podStatus(pod, containers, nil, noon, noon).Conditions {
			if c.Type == corev1.PodReady {
				return c.Status
			}
		}
		return ""
	}
	if got := ready(); got != corev1.ConditionFalse {
		t.Errorf("before the gate opens Ready is %s", got)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "example.com/open", Status: corev1.ConditionTrue}}
	if got := ready(); got != corev1.ConditionTrue {
		t.Errorf("after the gate has opened Ready is %s", got)
	}
}

func TestStatusPatchClearsReasons(t *testing.T) {
	patch, err := statusPatch("uid", &corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		{Type: corev1.PodInitialized, Status: corev1.ConditionFalse, Reason: "r", Message: "m"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metadata map[string]any
		Status   struct{ Conditions []map[string]any }
	}
	if err := json.Unmarshal(patch, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"type": "Ready", "status": "True", "lastProbeTime": nil, "lastTransitionTime": nil, "reason": nil, "message": nil},
		{"type": "Initialized", "status": "False", "lastProbeTime": nil, "lastTransitionTime": nil, "reason": "r", "message": "m"},
	}
	if diff := cmp.Diff(want, got.Status.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if got.Metadata["uid"] != "uid" {
		t.Errorf("the patch is not bound to the Pod: %v", got.Metadata)
	}
}

func TestVerdict(t *testing.T) {
	cases := map[string]struct {
		success, failure int32
		results          string // + and -
		want             string // R and . after each
	}{
		"one success is enough":          {1, 2, "-+", ".R"},
		"one failure is not enough":      {1, 2, "+-+", "RRR"},
		"two failures in a row are":      {1, 2, "+--", "RR."},
		"failures must be in a row":      {1, 2, "+-+-+", "RRRRR"},
		"two successes may be asked for": {2, 1, "+-++-", "...R."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := verdict{success: tc.success, failure: tc.failure}
			got := ""
			for _, result := range tc.results {
				v.add(result == '+')
				if v.ready {
					got += "R"
				} else {
					got += "."
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpand(t *testing.T) {
	environ := map[string]string{"A": "1", "B": "$(A)"}
	cases := map[string]string{
		"$(A)": "1", "x$(A)y$(A)": "x1y1", "$(B)": "$(A)", "$(C)": "$(C)", "$$(A)": "$(A)", "$A": "$A", "$": "$", "a$(": "a$(", "$$$(A)": "$1",
	}
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			if got := expand(text, environ); got != want {
				t.Errorf("expand(%q) = %q, want %q", text, got, want)
			}
		})
	}
}
