package workspaces

import (
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// bind decides about a workspace that waits for a Pod. It reserves nothing on the Pod that it gets.
func bind(o *observation, d *decision) {
	w := o.workspace
	if o.runtime == nil || !o.runtime.DeletionTimestamp.IsZero() || len(o.candidates) == 0 {
		d.status.Phase = workspacesv1alpha1.WorkspacePending
		sayWaiting(o, d)
		return
	}
	d.action, d.pod = actionBind, choose(w.UID, o.candidates)
	d.status.Phase = workspacesv1alpha1.WorkspaceBound
	d.status.Runtime = w.Spec.Runtime
	d.status.BoundPod = d.pod.Name
	d.status.BoundPodUID = string(d.pod.UID)
	d.status.Path = workspacesv1alpha1.Path(w.Name)
	sayJustBound(o, d)
}

// choose picks a Pod by a hash of the UID of the workspace: always the same for the same Pods, and spread over them for
// many workspaces.
func choose(workspace types.UID, candidates []*corev1.Pod) *corev1.Pod {
	byName := slices.SortedFunc(slices.Values(candidates), func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	hash := fnv.New64a()
	hash.Write([]byte(workspace)) // never fails
	return byName[hash.Sum64()%uint64(len(byName))]
}
