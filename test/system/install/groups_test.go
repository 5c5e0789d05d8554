package install

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/groups"
)

// TestGroupsThatAreNotEnabledAreNotMissed runs clusters without the kinds of some groups. Nothing may ask for them, people are
// told what is not there, and undeploying works.
func TestGroupsThatAreNotEnabledAreNotMissed(t *testing.T) {
	cases := map[string]struct {
		enabled []string
		refused map[string][]string
	}{
		"core alone": {[]string{groups.Core}, map[string][]string{
			"spec.workspace cannot be used: the workspaces group is not enabled":                                       {"run", "--runtime=sh", "--workspace=w", "--", "true"},
			"krt: group workflows is not enabled in this cluster: it does not know workflows.workflows.kruntimes.io\n": {"workflow", "list"},
		}},
		"core and workspaces": {[]string{groups.Core, groups.Workspaces}, map[string][]string{
			"krt: group workflows is not enabled in this cluster: it does not know workflowruns.workflows.kruntimes.io\n": {"get", "workflowruns"},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dev, admin := start(t, devcluster.Options{Groups: tc.enabled})
			create(t, admin, newRuntime("sh"))
			run := newRun("r", "true")
			if len(tc.enabled) > 1 {
				create(t, admin, newWorkspace("w"))
				run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: "w"}
			}
			create(t, admin, run)
			eventually(t, "the Run to succeed", func() (bool, error) {
				err := read(t, admin, run)
				return run.Status.Phase == corev1alpha1.RunSucceeded, err
			})
			for want, args := range tc.refused {
				if said, err := krt(t, dev, args...); err == nil || !strings.Contains(said, want) {
					t.Errorf("krt %s: %v, and it said\n%s\nwant\n%s", strings.Join(args, " "), err, said, want)
				}
			}
			for _, part := range []string{devcluster.PartManager, devcluster.PartScheduler} {
				checkLog(t, filepath.Join(filepath.Dir(dev.Kubeconfig()), "logs", part+".log"))
			}
			if said, err := undeploy(t, dev, tc.enabled); err != nil {
				t.Errorf("undeploying: %v\n%s", err, said)
			}
		})
	}
}

// checkLog looks for errors in what a component has logged.
func checkLog(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var entry struct{ Level string }
		if json.Unmarshal(lines.Bytes(), &entry) != nil || entry.Level == "error" {
			t.Errorf("%s: %s", filepath.Base(path), lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}
