package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/controllers/core"
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
		"a second document": {text: head + "---\n" + head + "jobWorkspaces: {jobs: WithSeveralRuns}\n",
			wantErr: "line 3: a second document begins: there may be one"},
		"a second document of another kind": {text: head + "---\nkind: ConfigMap\n", wantErr: "a second document begins"},
		"a second document that is no YAML": {text: head + "---\n{", wantErr: "after its first document: yaml: "},
		"marks around the only document":    {text: "# a comment\n---\n" + head + "...\n", want: &workflows.JobWorkspaces{Spec: retained}},
		"an unknown field":                  {text: head + "jobWorkspaces: {job: All}\n", wantErr: `strict decoding error: unknown field "jobWorkspaces.job"`},
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

func TestArtifactLimits(t *testing.T) {
	cases := map[string]struct {
		artifacts string
		want      core.ArtifactLimits
		wantErr   string
	}{
		"nothing": {"", core.ArtifactLimits{MaxBytes: 10 << 30, MaxCount: 32, SweepInterval: time.Hour, SweepGrace: 15 * time.Minute}, ""},
		"everything": {"maxBytes: 1.5Gi, maxCount: 1, sweepInterval: 90s, sweepGrace: 168h",
			core.ArtifactLimits{MaxBytes: 3 << 29, MaxCount: 1, SweepInterval: 90 * time.Second, SweepGrace: 168 * time.Hour}, ""},
		"the least": {"maxBytes: 1, sweepInterval: 1s, sweepGrace: 1s",
			core.ArtifactLimits{MaxBytes: 1, MaxCount: 32, SweepInterval: time.Second, SweepGrace: time.Second}, ""},
		"the most": {"maxBytes: 5Ti, sweepInterval: 24h",
			core.ArtifactLimits{MaxBytes: 5 << 40, MaxCount: 32, SweepInterval: 24 * time.Hour, SweepGrace: 15 * time.Minute}, ""},
		"too little of all": {"maxBytes: 0, maxCount: 0, sweepInterval: 999ms, sweepGrace: -1s", core.ArtifactLimits{},
			`[artifacts.maxBytes: Invalid value: "0": must be whole bytes from 1 to 5Ti, artifacts.maxCount: Invalid value: 0: must be from 1 to 32, ` +
				`artifacts.sweepInterval: Invalid value: "999ms": must be from 1s to 24h0m0s, artifacts.sweepGrace: Invalid value: "-1s": must be from 1s to 168h0m0s]`},
		"too much of all": {"maxBytes: 6Ti, maxCount: 33, sweepInterval: 25h, sweepGrace: 169h", core.ArtifactLimits{},
			`[artifacts.maxBytes: Invalid value: "6Ti": must be whole bytes from 1 to 5Ti, artifacts.maxCount: Invalid value: 33: must be from 1 to 32, ` +
				`artifacts.sweepInterval: Invalid value: "25h0m0s": must be from 1s to 24h0m0s, artifacts.sweepGrace: Invalid value: "169h0m0s": must be from 1s to 168h0m0s]`},
		"half a byte":        {"maxBytes: 1500m", core.ArtifactLimits{}, `artifacts.maxBytes: Invalid value: "1500m": must be whole bytes from 1 to 5Ti`},
		"an exabyte of them": {"maxBytes: 1e30", core.ArtifactLimits{}, `must be whole bytes from 1 to 5Ti`},
		"no quantity":        {"maxBytes: much", core.ArtifactLimits{}, "quantities must match the regular expression"},
		"no duration":        {"sweepGrace: 15", core.ArtifactLimits{}, "cannot unmarshal number"},
		"an unknown field":   {"maxSize: 1Gi", core.ArtifactLimits{}, `strict decoding error: unknown field "artifacts.maxSize"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(head+"artifacts: {"+tc.artifacts+"}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := readConfiguration(file)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("got error %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			copied, ok := c.DeepCopyObject().(*Configuration)
			if !ok {
				t.Fatal("the copy is of another kind")
			}
			if diff := cmp.Diff(tc.want, copied.artifactLimits()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			*c.Artifacts.MaxCount++
			if *c.Artifacts.MaxCount == *copied.Artifacts.MaxCount {
				t.Error("a copy shares its limits with the original")
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
