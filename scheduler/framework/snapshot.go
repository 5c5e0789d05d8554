package framework

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// Snapshot is what a decision about a Run of one Runtime rests on. It is never changed after it was made, and it can
// be written as JSON and replayed.
type Snapshot struct {
	// Generation grows whenever a later snapshot of the same Runtime differs.
	Generation uint64 `json:"generation"`
	// Runtime is nil when the namespace has no such Runtime.
	Runtime *RuntimeInfo `json:"runtime,omitempty"`
	// Pods are the Pods of the Runtime, sorted by name, then UID.
	Pods []*PodInfo `json:"pods,omitempty"`
}

// RuntimeInfo is what plugins may know of a Runtime.
type RuntimeInfo struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Replicas is the number of Pods asked for.
	Replicas int32 `json:"replicas"`
	// Capacity is what one Pod offers now.
	Capacity Resources `json:"capacity"`
	// Deleting is true once the Runtime has a deletionTimestamp.
	Deleting bool `json:"deleting,omitempty"`
	// Trouble is the Runtime's own word on why no Pod can be made, such as a quota; empty when nothing is known.
	Trouble string `json:"trouble,omitempty"`
}

// Key is namespace and name of the Runtime.
func (r *RuntimeInfo) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// PodInfo is what plugins may know of a Pod.
type PodInfo struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Ready is the Pod's Ready condition.
	Ready bool `json:"ready,omitempty"`
	// Terminating is true once the Pod has a deletionTimestamp.
	Terminating bool `json:"terminating,omitempty"`
	// NotReadyReason is the Pod's own word on why it is not ready, such as ImagePullBackOff. Empty when it is ready.
	NotReadyReason string `json:"notReadyReason,omitempty"`
	// Capacity is what the Pod offers, Used what Runs that are assigned or reserved take of it. After the Runtime's
	// capacity was lowered, Used may be the larger one.
	Capacity Resources `json:"capacity"`
	Used     Resources `json:"used,omitempty"`
	// Runs is the number of Runs that are assigned or reserved.
	Runs int `json:"runs,omitempty"`
	// Held, if any, is a Run for which the Pod is being emptied: no other Run may take what it needs.
	Held *Hold `json:"held,omitempty"`
}

// Hold is a claim of a Run that has waited too long on units that are not free yet.
type Hold struct {
	Run      types.UID `json:"run"`
	Requests Resources `json:"requests"`
}

// Available tells whether the Pod takes Runs at all.
func (p *PodInfo) Available() bool { return p.Ready && !p.Terminating }

// RunInfo is what plugins may know of the Run that is being placed.
type RunInfo struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Runtime is the name of the Runtime, of the same namespace.
	Runtime string `json:"runtime"`
	// Requests are the units that the Run takes, the default of one "runs" included.
	Requests  Resources                        `json:"requests"`
	Labels    map[string]string                `json:"labels,omitempty"`
	Workspace *corev1alpha1.WorkspaceReference `json:"workspace,omitempty"`
	Affinity  *corev1alpha1.Affinity           `json:"affinity,omitempty"`
	// Class names the Runs that get the same verdict from the same snapshot. When one of a class does not fit, none
	// of the others needs a cycle.
	Class string `json:"class"`
}

// NewRunInfo reads from a Run what plugins may know.
func NewRunInfo(run *corev1alpha1.Run) *RunInfo {
	info := &RunInfo{
		Namespace: run.Namespace, Name: run.Name, UID: run.UID, Runtime: run.Spec.Runtime,
		Requests: RequestOf(run.Requests()), Labels: run.Labels, Workspace: run.Spec.Workspace, Affinity: run.Spec.Affinity,
	}
	info.Class = classOf(info)
	return info
}

// RuntimeKey is namespace and name of the Run's Runtime.
func (r *RunInfo) RuntimeKey() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Runtime}
}

// classOf joins everything that a verdict may depend on. Labels matter only to affinity, so they are left out of the
// class of Runs without it.
func classOf(r *RunInfo) string {
	var b strings.Builder
	b.WriteString(r.Requests.String())
	if r.Workspace != nil {
		fmt.Fprintf(&b, ";workspace=%s/%s/%s", r.Workspace.APIGroup, r.Workspace.Kind, r.Workspace.Name)
	}
	if r.Affinity != nil {
		// Encoding API types cannot fail; if it ever does, the Run is in a class of its own.
		rules, err := json.Marshal(r.Affinity)
		if err != nil {
			rules = []byte(r.UID)
		}
		fmt.Fprintf(&b, ";affinity=%s", rules)
		for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
			fmt.Fprintf(&b, ";%s=%s", name, r.Labels[name])
		}
	}
	return b.String()
}
