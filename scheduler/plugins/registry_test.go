package plugins

import (
	"testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

func TestRegistryNamesPluginsAsTheyNameThemselves(t *testing.T) {
	for name, construct := range Registry() {
		if got := construct().Name(); got != name {
			t.Errorf("registered as %s, calls itself %s", name, got)
		}
	}
}

func TestDefaultProfileUsesEveryPlugin(t *testing.T) {
	if _, err := Build(DefaultProfile()); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, u := range DefaultProfile() {
		used[u.Name] = true
	}
	for name := range Registry() {
		if !used[name] {
			t.Errorf("%s is registered, but not in the default profile", name)
		}
	}
}

func TestBuildRefusesAnUnknownPlugin(t *testing.T) {
	if _, err := Build([]Use{{Name: "Nope"}}); err == nil {
		t.Error("no error")
	}
}

func TestARunWaitsForItsWorkspaceOnly(t *testing.T) {
	rules, err := Build(DefaultProfile())
	if err != nil {
		t.Fatal(err)
	}
	snapshot := &framework.Snapshot{
		Runtime: &framework.RuntimeInfo{Name: "sh", Capacity: framework.Resources{{Name: "runs", Milli: 4000}}},
		Pods:    []*framework.PodInfo{{Name: "a", Ready: true, Capacity: framework.Resources{{Name: "runs", Milli: 4000}}}},
	}
	run := &framework.RunInfo{Workspace: &corev1alpha1.WorkspaceReference{Name: "w"}}
	r := rules.Schedule(snapshot, run)
	if r.Diagnosis == nil || r.Diagnosis.Reason != corev1alpha1.ReasonWorkspaceNotFound || r.Diagnosis.WakeOn != framework.WorkspaceChanged {
		t.Errorf("result %+v, want a wait for the workspace", r)
	}
}
