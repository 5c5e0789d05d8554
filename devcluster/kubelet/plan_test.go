package kubelet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestNextStarts(t *testing.T) {
	type containers = []seen
	var (
		initFresh    = seen{role: roleInit}
		initRunning  = seen{role: roleInit, running: true}
		initDone     = seen{role: roleInit, ended: true}
		initFailed   = seen{role: roleInit, ended: true, exitCode: 1, notBefore: noon.Add(time.Second)}
		sidecarFresh = seen{role: roleSidecar}
		sidecarUp    = seen{role: roleSidecar, running: true}
		sidecarEnded = seen{role: roleSidecar, ended: true, exitCode: 1, notBefore: noon.Add(time.Second)}
		fresh        = seen{role: roleMain}
		running      = seen{role: roleMain, running: true}
		crashed      = seen{role: roleMain, ended: true, exitCode: 1, notBefore: noon.Add(2 * time.Second)}
		finished     = seen{role: roleMain, ended: true}
	)
	cases := map[string]struct {
		policy     corev1.RestartPolicy
		containers containers
		want       plan
	}{
		"all main containers start together": {corev1.RestartPolicyAlways, containers{fresh, fresh}, plan{start: []int{0, 1}}},
		"init containers come first, one by one": {
			corev1.RestartPolicyAlways, containers{initFresh, initFresh, fresh}, plan{start: []int{0}},
		},
		"a running init container holds the rest up": {corev1.RestartPolicyAlways, containers{initRunning, initFresh, fresh}, plan{}},
		"the next init container follows the first":  {corev1.RestartPolicyAlways, containers{initDone, initFresh, fresh}, plan{start: []int{1}}},
		"main containers follow the last one":        {corev1.RestartPolicyAlways, containers{initDone, initDone, fresh}, plan{start: []int{2}}},
		"a failed init container waits for its turn": {
			corev1.RestartPolicyAlways, containers{initFailed, fresh}, plan{again: noon.Add(time.Second)},
		},
		"a failed init container ends a Pod that restarts never": {corev1.RestartPolicyNever, containers{initFailed, fresh}, plan{}},
		"a sidecar starts before the rest":                       {corev1.RestartPolicyAlways, containers{sidecarFresh, fresh}, plan{start: []int{0}}},
		"the rest follows a running sidecar":                     {corev1.RestartPolicyAlways, containers{sidecarUp, fresh}, plan{start: []int{1}}},
		"a sidecar that ended does not hold up who was started": {
			corev1.RestartPolicyAlways, containers{sidecarEnded, crashed, running}, plan{again: noon.Add(time.Second)},
		},
		"a crashed container waits, its neighbour does not": {
			corev1.RestartPolicyAlways, containers{crashed, fresh}, plan{start: []int{1}, again: noon.Add(2 * time.Second)},
		},
		"always restarts what finished well":       {corev1.RestartPolicyAlways, containers{finished}, plan{start: []int{0}}},
		"on failure leaves what finished well":     {corev1.RestartPolicyOnFailure, containers{finished}, plan{}},
		"on failure restarts what failed":          {corev1.RestartPolicyOnFailure, containers{crashed}, plan{again: noon.Add(2 * time.Second)}},
		"never restarts nothing":                   {corev1.RestartPolicyNever, containers{crashed, finished}, plan{}},
		"never still restarts a sidecar":           {corev1.RestartPolicyNever, containers{sidecarEnded, running}, plan{again: noon.Add(time.Second)}},
		"nothing is to be done while all are well": {corev1.RestartPolicyAlways, containers{running, running}, plan{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := nextStarts(tc.policy, tc.containers, noon)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(plan{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPhase(t *testing.T) {
	ended := func(r role, code int32) seen { return seen{role: r, ended: true, exitCode: code} }
	cases := map[string]struct {
		policy     corev1.RestartPolicy
		containers []seen
		want       corev1.PodPhase
	}{
		"nothing started":                     {corev1.RestartPolicyAlways, []seen{{role: roleMain}}, corev1.PodPending},
		"init runs":                           {corev1.RestartPolicyAlways, []seen{{role: roleInit, running: true}, {role: roleMain}}, corev1.PodPending},
		"init failed and is tried again":      {corev1.RestartPolicyAlways, []seen{ended(roleInit, 1), {role: roleMain}}, corev1.PodPending},
		"init failed for good":                {corev1.RestartPolicyNever, []seen{ended(roleInit, 1), {role: roleMain}}, corev1.PodFailed},
		"one of two runs":                     {corev1.RestartPolicyNever, []seen{{role: roleMain, running: true}, ended(roleMain, 1)}, corev1.PodRunning},
		"all crashed and are tried again":     {corev1.RestartPolicyAlways, []seen{ended(roleMain, 1)}, corev1.PodRunning},
		"all ended well":                      {corev1.RestartPolicyOnFailure, []seen{ended(roleMain, 0), ended(roleMain, 0)}, corev1.PodSucceeded},
		"one of them failed":                  {corev1.RestartPolicyNever, []seen{ended(roleMain, 0), ended(roleMain, 3)}, corev1.PodFailed},
		"a sidecar does not keep a Pod alive": {corev1.RestartPolicyNever, []seen{{role: roleSidecar, running: true}, ended(roleMain, 0)}, corev1.PodSucceeded},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, phase(tc.policy, tc.containers)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFinalPhase(t *testing.T) {
	ended := func(code int32) seen { return seen{role: roleMain, ended: true, exitCode: code} }
	cases := map[string]struct {
		containers []seen
		want       corev1.PodPhase
	}{
		"one still runs":            {[]seen{{role: roleMain, running: true}, ended(1)}, corev1.PodRunning},
		"all ended well":            {[]seen{{role: roleInit, ended: true}, ended(0), ended(0)}, corev1.PodSucceeded},
		"one was killed":            {[]seen{ended(137), ended(0)}, corev1.PodFailed},
		"one was never started":     {[]seen{ended(0), {role: roleMain}}, corev1.PodFailed},
		"an init container runs":    {[]seen{{role: roleInit, running: true}, {role: roleMain}}, corev1.PodPending},
		"an init container ended":   {[]seen{{role: roleInit, ended: true, exitCode: 143}, {role: roleMain}}, corev1.PodFailed},
		"a sidecar was killed last": {[]seen{{role: roleSidecar, ended: true, exitCode: 137}, ended(0)}, corev1.PodSucceeded},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := finalPhase(corev1.RestartPolicyAlways, tc.containers); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}

func TestNextBackoff(t *testing.T) {
	var delay time.Duration
	var got []time.Duration
	for restarts := range int32(8) {
		delay = nextBackoff(delay, restarts, time.Second)
		got = append(got, delay)
	}
	ms := time.Millisecond
	want := []time.Duration{0, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delays of a container that crashes at once (-want +got):\n%s", diff)
	}
	if got := nextBackoff(5*time.Second, 9, backoffReset); got != 0 {
		t.Errorf("after a long run the delay is %s, want 0", got)
	}
}
