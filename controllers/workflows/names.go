package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

const (
	// maxName is the longest name of an object. Unit: bytes.
	maxName = 253
	// hashSuffix is the length of what a digest adds to a readable name.
	hashSuffix = len("-01234567")
	// hashedPrefix is how much of the readable name stands before the digest. Unit: bytes.
	hashedPrefix = 54
)

// identity says which step a child Run executes, or which call a child WorkflowRun. It is unique in a WorkflowRun, and
// stands in the labels of the child.
type identity struct {
	job, step, actionStep string
}

// isCall tells whether the child of a whole job is meant.
func (id identity) isCall() bool { return id.step == "" }

// identityOf reads the identity of a child from its labels.
func identityOf(child client.Object) identity {
	labels := child.GetLabels()
	return identity{
		job:        labels[workflowsv1alpha1.LabelJob],
		step:       labels[workflowsv1alpha1.LabelStep],
		actionStep: labels[workflowsv1alpha1.LabelActionStep],
	}
}

// belongs tells whether an object is the child of owner with this identity. Only the control plane may set these labels.
func belongs(child client.Object, owner *workflowsv1alpha1.WorkflowRun, id identity) bool {
	return child.GetLabels()[workflowsv1alpha1.LabelWorkflowRunUID] == string(owner.UID) && identityOf(child) == id
}

// childNames returns the names that a child may have: the readable one first, if it fits, then the one that no other
// owner or identity shares, for when the first is taken.
func childNames(owner *workflowsv1alpha1.WorkflowRun, id identity) []string {
	parts := []string{owner.Name, id.job, id.step}
	switch {
	case id.isCall():
		parts = []string{owner.Name, "call", id.job}
	case id.actionStep != "":
		parts = append(parts, id.actionStep)
	}
	readable := dns(strings.Join(parts, "-"))
	hashed := hashedName(readable, string(owner.UID), id.job, id.step, id.actionStep)
	if len(readable) > maxName {
		return []string{hashed}
	}
	return []string{readable, hashed}
}

// snapshotNames returns the names that the snapshot of a WorkflowRun may have, as childNames does.
func snapshotNames(owner *workflowsv1alpha1.WorkflowRun) []string {
	uid := string(owner.UID)
	readable := owner.Name + "-snapshot-" + uid[:min(8, len(uid))]
	hashed := hashedName(readable, uid, "snapshot")
	if len(readable) > maxName {
		return []string{hashed}
	}
	return []string{readable, hashed}
}

// actionNames returns the names that the frozen form of an Action may have, as childNames does.
func actionNames(owner *workflowsv1alpha1.WorkflowRun, action string) []string {
	uid := string(owner.UID)
	readable := owner.Name + "-action-" + action + "-" + uid[:min(8, len(uid))]
	hashed := hashedName(readable, uid, "action", action)
	if len(readable) > maxName {
		return []string{hashed}
	}
	return []string{readable, hashed}
}

// workspaceNames returns the names that the workspace of a job may have, as childNames does. One that replaces another has
// a name of its own: the other one may still be there.
func workspaceNames(owner *workflowsv1alpha1.WorkflowRun, job string, replaced types.UID) []string {
	uid := string(owner.UID)
	readable := dns(owner.Name + "-" + job)
	names := []string{hashedName(readable, uid, job, "", "")} // It belongs to no step.
	if replaced != "" {
		return append(names, hashedName(readable, uid, job, "", "", string(replaced)))
	}
	if len(readable) <= maxName {
		names = slices.Insert(names, 0, readable)
	}
	return names
}

// hashedName is the beginning of a readable name and a digest of what makes it unique.
func hashedName(readable string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.TrimRight(readable[:min(hashedPrefix, len(readable))], "-.") + "-" + hex.EncodeToString(sum[:4])
}

// dns turns the letters of the workflow language into those of a name.
func dns(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}
