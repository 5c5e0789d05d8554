package get

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/runs"
)

// workspaceColumns returns the names of the columns for PersistentWorkspaces.
func workspaceColumns(wide bool) []string {
	columns := []string{"NAME", "RUNTIME", "PHASE", "AVAILABLE", "REASON", "LAST USED", "AGE"}
	if wide {
		columns = append(columns, "POD", "POLICY", "TTL", "MESSAGE")
	}
	return columns
}

// workspaceRow returns the cells of a PersistentWorkspace.
func (l layout) workspaceRow(w *workspacesv1alpha1.PersistentWorkspace, now time.Time) []string {
	var cells []string
	if l.namespaces {
		cells = append(cells, w.Namespace)
	}
	phase := string(w.Status.Phase)
	switch {
	case l.deleted:
		phase = "Deleted"
	case w.DeletionTimestamp != nil:
		phase = "Terminating"
	case phase == "":
		phase = string(workspacesv1alpha1.WorkspacePending)
	}
	status, reason, message := "Unknown", "", ""
	if c := meta.FindStatusCondition(w.Status.Conditions, workspacesv1alpha1.WorkspaceConditionAvailable); c != nil {
		status, reason, message = string(c.Status), c.Reason, c.Message
	}
	used := ""
	if w.Status.LastUsedTime != nil {
		used = age(*w.Status.LastUsedTime, now)
	}
	cells = append(cells, w.Name, w.Spec.Runtime, phase, status, reason, used, age(w.CreationTimestamp, now))
	if l.wide {
		ttl := ""
		if seconds := w.Spec.TTLSecondsAfterUnused; seconds != nil {
			ttl = runs.Duration(time.Duration(*seconds) * time.Second)
		}
		cells = append(cells, w.Status.BoundPod, string(w.Spec.CleanupPolicy), ttl, cli.OneLine(message, messageWidth))
	}
	return cells
}
