package workspace

import (
	"testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

func TestPreFilter(t *testing.T) {
	if got := New().PreFilter(&framework.Cycle{Run: &framework.RunInfo{}}); got != nil {
		t.Errorf("a Run without a workspace: %+v, want no objection", got)
	}
	run := &framework.RunInfo{Workspace: &corev1alpha1.WorkspaceReference{Name: "w"}}
	got := New().PreFilter(&framework.Cycle{Run: run})
	if !got.Rejected() || got.Code != framework.Unresolvable || got.Message() != TextUnsupported {
		t.Errorf("a Run with a workspace: %+v", got)
	}
}
