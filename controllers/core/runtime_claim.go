package core

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// workspaceClaimName is the name of the claim that is the workspace of a Runtime; empty when that is another volume.
func workspaceClaimName(runtime *corev1alpha1.Runtime) string {
	if c := runtime.Spec.Workspace.PersistentVolumeClaim; c != nil {
		return c.ClaimName
	}
	return ""
}

// artifactClaimName is the name of the claim that is the artifact store of a Runtime; empty when there is none, or a bucket.
func artifactClaimName(runtime *corev1alpha1.Runtime) string {
	if store := runtime.Spec.ArtifactStore; store != nil && store.Filesystem != nil {
		return store.Filesystem.VolumeClaimName
	}
	return ""
}

// isShareable tells whether Pods on several nodes can use a claim at the same time. Of one that is not there nobody knows.
func isShareable(claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany)
}

// strategy says how Pods are replaced. Warm Pods stay until their successors are ready, unless these could not start
// meanwhile.
func strategy(runtime *corev1alpha1.Runtime, claimsByName map[string]*corev1.PersistentVolumeClaim) appsv1.DeploymentStrategy {
	for _, name := range []string{workspaceClaimName(runtime), artifactClaimName(runtime)} {
		if name != "" && !isShareable(claimsByName[name]) {
			return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}
	}
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromString("25%"))},
	}
}

// claimUse is what a Runtime uses a claim for: the condition says whether its Pods can.
type claimUse struct{ condition, claim string }

// claimUses are those that a Runtime may have. The name of a claim that it does not use is empty.
func claimUses(runtime *corev1alpha1.Runtime) []claimUse {
	return []claimUse{
		{corev1alpha1.RuntimeConditionWorkspaceNotShareable, workspaceClaimName(runtime)},
		{corev1alpha1.RuntimeConditionArtifactStoreNotShareable, artifactClaimName(runtime)},
	}
}

// notShareable is the condition about the use of a claim.
func notShareable(runtime *corev1alpha1.Runtime, use claimUse, claim *corev1.PersistentVolumeClaim) metav1.Condition {
	c := metav1.Condition{Type: use.condition, Status: metav1.ConditionFalse}
	switch {
	case claim == nil:
		c.Status, c.Reason = metav1.ConditionUnknown, corev1alpha1.ReasonClaimNotFound
		c.Message = fmt.Sprintf("PersistentVolumeClaim %s is not there", use.claim)
	case isShareable(claim):
		c.Reason, c.Message = corev1alpha1.ReasonClaimShareable, fmt.Sprintf("PersistentVolumeClaim %s is ReadWriteMany", use.claim)
	case runtime.DesiredReplicas() <= 1:
		c.Reason = corev1alpha1.ReasonSingleReplica
		c.Message = fmt.Sprintf("PersistentVolumeClaim %s is not ReadWriteMany, and one Pod at most uses it", use.claim)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, corev1alpha1.ReasonClaimNotShareable
		c.Message = fmt.Sprintf("PersistentVolumeClaim %s is %v and not ReadWriteMany: of %d Pods, those on other nodes than the first cannot start",
			use.claim, claim.Spec.AccessModes, runtime.DesiredReplicas())
	}
	return c
}
