package framework

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// Snapshot is what a decision about a Run of one Runtime rests on. It is never changed after it was made, and it can
// be written as JSON and replayed.
type Snapshot struct {
	// Generation grows whenever a later snapshot of the same Runtime differs, neighbours aside.
	Generation uint64 `json:"generation"`
	// Runtime is nil when the namespace has no such Runtime.
	Runtime *RuntimeInfo `json:"runtime,omitempty"`
	// Pods are the Pods of the Runtime, sorted by name, then UID.
	Pods []*PodInfo `json:"pods,omitempty"`
	// Guarded is true when a Pod has guards, or is held for a Run that has.
	Guarded bool `json:"guarded,omitempty"`
	// Neighbours holds, for a snapshot that was made for a Run with an affinity, the Runs that each of its terms selects.
	Neighbours []Neighbours `json:"neighbours,omitempty"`
	// Workspace is, for a snapshot that was made for a Run with a workspace, that workspace; nil when it does not exist.
	Workspace *WorkspaceInfo `json:"workspace,omitempty"`
}

// WorkspaceInfo is what plugins may know of a PersistentWorkspace.
type WorkspaceInfo struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Runtime is the one whose Runs may use the workspace.
	Runtime string `json:"runtime"`
	// Phase is where the workspace stands; Released as soon as it is being deleted.
	Phase workspacesv1alpha1.WorkspacePhase `json:"phase"`
	// Pod and PodUID are where the workspace is bound; empty before.
	Pod    string    `json:"pod,omitempty"`
	PodUID types.UID `json:"podUID,omitempty"`
	// PodTakes is true while the Pod is about to go and still takes the Runs of its workspaces.
	PodTakes bool `json:"podTakes,omitempty"`
}

// Key is namespace and name of the workspace.
func (w *WorkspaceInfo) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
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
	// NodeGone is true when the Pod's Node is not there any more, whatever the Pod says.
	NodeGone bool `json:"nodeGone,omitempty"`
	// NotReadyReason is the Pod's own word on why it is not ready, such as ImagePullBackOff. Empty when it is ready.
	NotReadyReason string `json:"notReadyReason,omitempty"`
	// Capacity is what the Pod offers, Used what Runs that are assigned or reserved take of it. After the Runtime's
	// capacity was lowered, Used may be the larger one.
	Capacity Resources `json:"capacity"`
	Used     Resources `json:"used,omitempty"`
	// Runs is the number of Runs that are assigned or reserved.
	Runs int `json:"runs,omitempty"`
	// Guards select the Runs that Runs on the Pod keep away.
	Guards []*Selector `json:"guards,omitempty"`
	// Held, if any, is a Run for which the Pod is being emptied: no other Run may take what it needs.
	Held *Hold `json:"held,omitempty"`
}

// Hold is a claim of a Run that has waited too long on a Pod that cannot take it yet. Other Runs are judged as if it were
// there already.
type Hold struct {
	Run types.UID `json:"run"`
	// Requests, Labels and Guards are those that the Run will bring along.
	Requests Resources         `json:"requests"`
	Labels   map[string]string `json:"labels,omitempty"`
	Guards   []*Selector       `json:"guards,omitempty"`
}

// HeldFromOthers is the claim on the Pod that keeps a Run away, if there is one: not its own.
func (p *PodInfo) HeldFromOthers(run *RunInfo) *Hold {
	if p.Held == nil || p.Held.Run == run.UID {
		return nil
	}
	return p.Held
}

// Available tells whether the Pod takes Runs at all.
func (p *PodInfo) Available() bool { return p.Ready && !p.Terminating && !p.NodeGone }

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
	// Base names the Runs that get the same verdict from the same snapshot as long as nothing but what they request
	// matters: no rule between Runs leaves Pods out for any of them.
	Base string `json:"base"`
	// Class names those of them that have the same rules about other Runs as well. When one of a class does not fit, none
	// of the others needs a cycle, unless Runs on the Pods keep the one away and not the other; see Cycle.Narrow.
	Class string `json:"class"`

	terms *Affinity
}

// Terms is the compiled Affinity, nil when there is none.
func (r *RunInfo) Terms() *Affinity {
	if r.terms == nil && r.Affinity != nil { // not made by NewRunInfo, or without any rule
		return compileAffinity(r.Affinity, r.Labels)
	}
	return r.terms
}

// NewRunInfo reads from a Run what plugins may know.
func NewRunInfo(run *corev1alpha1.Run) *RunInfo {
	info := &RunInfo{
		Namespace: run.Namespace, Name: run.Name, UID: run.UID, Runtime: run.Spec.Runtime,
		Requests: RequestOf(run.Requests()), Labels: run.Labels, Workspace: run.Spec.Workspace, Affinity: run.Spec.Affinity,
	}
	info.terms = compileAffinity(info.Affinity, info.Labels)
	info.Base = baseOf(info)
	info.Class = info.Base + rulesOf(info)
	return info
}

// RuntimeKey is namespace and name of the Run's Runtime.
func (r *RunInfo) RuntimeKey() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Runtime}
}

// TakesThoughTerminating tells whether a Pod that is about to go takes the Run for which the snapshot was made: its
// workspace is there.
func (s *Snapshot) TakesThoughTerminating(pod types.UID) bool {
	return s.Workspace != nil && s.Workspace.PodTakes && s.Workspace.PodUID == pod
}

// WorkspaceKey is namespace and name of the Run's workspace; the zero value when it has none.
func (r *RunInfo) WorkspaceKey() types.NamespacedName {
	if r.Workspace == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Workspace.Name}
}

// baseOf joins what a verdict depends on where no rule between Runs matters.
func baseOf(r *RunInfo) string {
	requests := r.Requests.String()
	if r.Workspace == nil {
		return requests
	}
	return fmt.Sprintf("%s;workspace=%s/%s/%s", requests, r.Workspace.APIGroup, r.Workspace.Kind, r.Workspace.Name)
}

// rulesOf prints the rules of a Run about other Runs. Of its own labels it holds what matters to the rules: which
// of them select the Run itself.
func rulesOf(r *RunInfo) string {
	if r.terms == nil {
		return ""
	}
	if r.terms.Err != nil {
		return ";affinity=" + r.terms.Err.Error()
	}
	var b strings.Builder
	for i := range r.terms.Terms {
		t := &r.terms.Terms[i]
		fmt.Fprintf(&b, ";%d/%d/%t/%s", t.Kind, t.Weight, t.Self, t.Selector)
	}
	return b.String()
}
