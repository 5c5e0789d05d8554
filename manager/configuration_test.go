package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/controllers/workflows"
)

const head = "apiVersion: config.kruntimes.io/v1alpha1\nkind: ManagerConfiguration\n"

func TestReadConfiguration(t *testing.T) {
	retained := workspacesv1alpha1.PersistentWorkspaceSpec{Mode: "RuntimePodLocal", CleanupPolicy: "Retain"}
	cases := map[string]struct {
		text    string
		want    *workflows.JobWorkspaces
		wantErr string
	}{
		"nothing but its kind": {text: head, want: &workflows.JobWorkspaces{Spec: retained}},
		"everything": {
			text: head + "jobWorkspaces: {jobs: WithSeveralRuns, mode: RuntimePodLocal, cleanupPolicy: DeleteAfterTTL, ttlSecondsAfterUnused: 60}\n",
			want: &workflows.JobWorkspaces{OnlySeveralRuns: true, Spec: workspacesv1alpha1.PersistentWorkspaceSpec{
				Mode: "RuntimePodLocal", CleanupPolicy: "DeleteAfterTTL", TTLSecondsAfterUnused: new(int32(60))}},
		},
		"JSON": {
			text: `{"apiVersion": "config.kruntimes.io/v1alpha1", "kind": "ManagerConfiguration", "jobWorkspaces": {"jobs": "All"}}`,
			want: &workflows.JobWorkspaces{Spec: retained},
		},
		"an unknown field": {text: head + "jobWorkspaces: {job: All}\n", wantErr: `strict decoding error: unknown field "jobWorkspaces.job"`},
		"a field in other letters": {text: head + "jobworkspaces: {jobs: All}\n",
			wantErr: `strict decoding error: unknown field "jobworkspaces"`},
		"a field given twice": {text: head + "jobWorkspaces: {jobs: All, jobs: All}\n",
			wantErr: `key "jobs" already set in map`},
		"another version": {text: strings.Replace(head, "v1alpha1", "v2", 1),
			wantErr: "it is not of apiVersion config.kruntimes.io/v1alpha1 and kind ManagerConfiguration: "},
		"no kind":            {text: "jobWorkspaces: {}\n", wantErr: "it is not of apiVersion config.kruntimes.io/v1alpha1 and kind ManagerConfiguration: "},
		"no YAML":            {text: "\tx", wantErr: "yaml: "},
		"a number as policy": {text: head + "jobWorkspaces: {cleanupPolicy: 1}\n", wantErr: "cannot unmarshal number"},
		"values that do not exist": {text: head + "jobWorkspaces: {jobs: Some, mode: Shared, cleanupPolicy: Never}\n",
			wantErr: `[jobWorkspaces.jobs: Unsupported value: "Some": supported values: "All", "WithSeveralRuns", ` +
				`jobWorkspaces.mode: Unsupported value: "Shared": supported values: "RuntimePodLocal", ` +
				`jobWorkspaces.cleanupPolicy: Unsupported value: "Never": supported values: "DeleteAfterTTL", "Retain"]`},
		"a time to live that does not count": {text: head + "jobWorkspaces: {ttlSecondsAfterUnused: 3600}\n",
			wantErr: "jobWorkspaces.ttlSecondsAfterUnused: Forbidden: it counts only with cleanupPolicy DeleteAfterTTL"},
		"no time to live": {text: head + "jobWorkspaces: {cleanupPolicy: DeleteAfterTTL}\n",
			wantErr: "jobWorkspaces.ttlSecondsAfterUnused: Required value: cleanupPolicy DeleteAfterTTL needs it"},
		"a time to live that ends between two steps": {text: head + "jobWorkspaces: {cleanupPolicy: DeleteAfterTTL, ttlSecondsAfterUnused: 59}\n",
			wantErr: "jobWorkspaces.ttlSecondsAfterUnused: Invalid value: 59: must be from 60 to 315360000: a workspace has to outlive the time between two steps"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := readConfiguration(file)
			if tc.wantErr != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "--config: "+file+": ") || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("got error %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, c.jobWorkspaces()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestTheShippedConfigurationHoldsTheDefaults reads the file of the kustomize component.
func TestTheShippedConfigurationHoldsTheDefaults(t *testing.T) {
	shipped, err := readConfiguration("../config/components/configuration/manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := readConfiguration("")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaults, shipped); diff != "" {
		t.Errorf("-defaults +shipped:\n%s", diff)
	}
}

func TestNoConfigurationFileMeansDefaults(t *testing.T) {
	c, err := readConfiguration("")
	if err != nil {
		t.Fatal(err)
	}
	want := &workflows.JobWorkspaces{Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Mode: "RuntimePodLocal", CleanupPolicy: "Retain"}}
	if diff := cmp.Diff(want, c.jobWorkspaces()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := readConfiguration(filepath.Join(t.TempDir(), "missing.yaml")); err == nil || !strings.HasPrefix(err.Error(), "--config: open ") {
		t.Errorf("a file that is not there: got error %v", err)
	}
}
