package core

import (
	"encoding/json"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// statusOf is a status in which the given phase may be stored: with a Pod where the phase needs one.
func statusOf(phase corev1alpha1.RunPhase, attempt int) map[string]any {
	status := map[string]any{"phase": string(phase), "attempt": attempt, "assignedPod": nil, "assignedPodUID": nil}
	if phase != corev1alpha1.RunPending && phase != corev1alpha1.RunCancelled {
		status["assignedPod"], status["assignedPodUID"] = "p", "p-uid"
	}
	return status
}

func writeStatus(t *testing.T, run *corev1alpha1.Run, status map[string]any, options ...client.SubResourcePatchOption) error {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	return shared.Admin().Status().Patch(t.Context(), run.DeepCopy(), mergePatch(string(patch)), options...)
}

// runIn makes a Run and brings it to a phase by transitions that are allowed.
func runIn(t *testing.T, namespace string, phase corev1alpha1.RunPhase) *corev1alpha1.Run {
	t.Helper()
	run := newRun(namespace, "in-")
	run.Name, run.GenerateName = "", "in-"
	shared.Create(t, run)
	path := []corev1alpha1.RunPhase{corev1alpha1.RunScheduled, corev1alpha1.RunRunning, phase}
	switch phase {
	case corev1alpha1.RunPending:
		path = nil
	case corev1alpha1.RunScheduled, corev1alpha1.RunCancelled:
		path = []corev1alpha1.RunPhase{phase}
	case corev1alpha1.RunRunning:
		path = path[:2]
	case corev1alpha1.RunSucceeded, corev1alpha1.RunFailed, corev1alpha1.RunTimeout:
	}
	for _, p := range path {
		if err := writeStatus(t, run, statusOf(p, 1)); err != nil {
			t.Fatalf("bringing a Run to %s: %v", p, err)
		}
	}
	return run
}

// TestTheAPIServerKnowsTheSameTransitions tries every pair of phases: the API server takes a change exactly when the
// table grants it to some writer. Writing the phase again that is there is no transition, and allowed.
func TestTheAPIServerKnowsTheSameTransitions(t *testing.T) {
	ns := shared.Namespace(t)
	for _, from := range corev1alpha1.RunPhases() {
		for _, to := range corev1alpha1.RunPhases() {
			t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
				run := runIn(t, ns, from)
				allowed := from == to
				for _, w := range corev1alpha1.Writers() {
					allowed = allowed || corev1alpha1.CanTransition(from, to, w)
				}
				attempt := 1
				if to == corev1alpha1.RunPending && from.IsActive() {
					attempt = 2 // A retry gives the assignment up, which takes a higher attempt.
				}
				status := statusOf(to, attempt)
				if to == corev1alpha1.RunCancelled && from != corev1alpha1.RunPending && from != corev1alpha1.RunCancelled {
					status["assignedPod"], status["assignedPodUID"] = "p", "p-uid"
				}
				err := writeStatus(t, run, status)
				if allowed != (err == nil) {
					t.Errorf("accepted: %t, want %t (error %v)", err == nil, allowed, err)
				}
			})
		}
	}
}

func TestRunStatusRules(t *testing.T) {
	ns := shared.Namespace(t)
	const fence = "the assignment changes only from empty or with a higher attempt"
	type status = map[string]any
	cases := map[string]struct {
		from    corev1alpha1.RunPhase
		write   status
		message string
	}{
		"a bind":                                  {corev1alpha1.RunPending, status{"phase": "Scheduled", "attempt": 1, "assignedPod": "p", "assignedPodUID": "u"}, ""},
		"why it waits":                            {corev1alpha1.RunPending, status{"message": "no ready Pod"}, ""},
		"scheduled without a Pod":                 {corev1alpha1.RunPending, status{"phase": "Scheduled", "attempt": 1}, "this phase needs an assigned Pod"},
		"a Pod without its UID":                   {corev1alpha1.RunPending, status{"phase": "Scheduled", "assignedPod": "p"}, "assignedPod and assignedPodUID are set together"},
		"a Pod while pending":                     {corev1alpha1.RunPending, status{"assignedPod": "p", "assignedPodUID": "u"}, "a Pending Run has no assigned Pod"},
		"another Pod in the same attempt":         {corev1alpha1.RunScheduled, status{"assignedPod": "q", "assignedPodUID": "q-uid"}, fence},
		"another Pod of the same name":            {corev1alpha1.RunScheduled, status{"assignedPodUID": "other"}, fence},
		"another name with the same UID":          {corev1alpha1.RunScheduled, status{"assignedPod": "q"}, fence},
		"giving up the Pod in the same attempt":   {corev1alpha1.RunRunning, status{"phase": "Pending", "assignedPod": nil, "assignedPodUID": nil}, fence},
		"giving up the Pod with a higher attempt": {corev1alpha1.RunRunning, status{"phase": "Pending", "attempt": 2, "assignedPod": nil, "assignedPodUID": nil}, ""},
		"a lower attempt":                         {corev1alpha1.RunScheduled, status{"attempt": 0}, "attempt never decreases"},
		"no attempt":                              {corev1alpha1.RunScheduled, status{"attempt": nil}, "attempt never decreases"},
		"finished, then running":                  {corev1alpha1.RunSucceeded, status{"phase": "Running"}, "a finished Run never changes its phase"},
		"finished, then finished otherwise":       {corev1alpha1.RunSucceeded, status{"phase": "Failed"}, "a finished Run never changes its phase"},
		"finished, then tried again":              {corev1alpha1.RunFailed, status{"phase": "Pending", "attempt": 2, "assignedPod": nil, "assignedPodUID": nil}, "a finished Run never changes its phase"},
		"a skipped scheduler":                     {corev1alpha1.RunPending, status{"phase": "Running", "assignedPod": "p", "assignedPodUID": "u"}, "this phase cannot follow the one before"},
		"a phase that is none":                    {corev1alpha1.RunPending, status{"phase": "Done"}, `status.phase: Unsupported value: "Done"`},
		"a reason that is none":                   {corev1alpha1.RunScheduled, status{"phase": "Failed", "reason": "BadLuck"}, `status.reason: Unsupported value: "BadLuck"`},
		"no phase":                                {corev1alpha1.RunScheduled, status{"phase": nil}, "a Pending Run has no assigned Pod"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			expectError(t, name, writeStatus(t, runIn(t, ns, tc.from), tc.write), tc.message)
		})
	}
}

// TestAStatusCannotBeDropped sends {"status":null} to the Run and to its status, in every phase.
func TestAStatusCannotBeDropped(t *testing.T) {
	ns := shared.Namespace(t)
	for _, phase := range corev1alpha1.RunPhases() {
		t.Run(string(phase), func(t *testing.T) {
			run := runIn(t, ns, phase)
			if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(run), run); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{
				"patching the Run":    shared.Admin().Patch(t.Context(), run.DeepCopy(), mergePatch(`{"status":null}`)),
				"patching its status": shared.Admin().Status().Patch(t.Context(), run.DeepCopy(), mergePatch(`{"status":null}`)),
			} {
				t.Logf("%s: %v", what, err)
			}
			now := &corev1alpha1.Run{}
			if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(run), now); err != nil {
				t.Fatal(err)
			}
			if now.Status.Phase != phase || now.Status.AssignedPodUID != run.Status.AssignedPodUID || now.Status.Attempt != run.Status.Attempt {
				t.Errorf("status is %+v, was %+v", now.Status, run.Status)
			}
		})
	}
}
