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

// isShareable tells whether Pods on several nodes can use the workspace of a Runtime at the same time. Of a claim that is
// not there nobody knows.
func isShareable(runtime *corev1alpha1.Runtime, claim *corev1.PersistentVolumeClaim) bool {
	if workspaceClaimName(runtime) == "" {
		return true
	}
	return claim != nil && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany)
}

// strategy says how Pods are replaced. Warm Pods stay until their successors are ready, unless these could not start
// meanwhile.
func strategy(runtime *corev1alpha1.Runtime, claim *corev1.PersistentVolumeClaim) appsv1.DeploymentStrategy {
	if !isShareable(runtime, claim) {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromString("25%"))},
	}
}

// workspaceNotShareable is the condition about a claim as workspace; nil when the workspace is another volume.
func workspaceNotShareable(runtime *corev1alpha1.Runtime, claim *corev1.PersistentVolumeClaim) *metav1.Condition {
	name := workspaceClaimName(runtime)
	if name == "" {
		return nil
	}
	c := &metav1.Condition{Type: corev1alpha1.RuntimeConditionWorkspaceNotShareable, Status: metav1.ConditionFalse}
	switch {
	case claim == nil:
		c.Status, c.Reason = metav1.ConditionUnknown, corev1alpha1.ReasonClaimNotFound
		c.Message = fmt.Sprintf("PersistentVolumeClaim %s is not there", name)
	case isShareable(runtime, claim):
		c.Reason, c.Message = corev1alpha1.ReasonClaimShareable, fmt.Sprintf("PersistentVolumeClaim %s is ReadWriteMany", name)
	case runtime.DesiredReplicas() <= 1:
		c.Reason = corev1alpha1.ReasonSingleReplica
		c.Message = fmt.Sprintf("PersistentVolumeClaim %s is not ReadWriteMany, and one Pod at most uses it", name)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, corev1alpha1.ReasonClaimNotShareable
		c.Message = fmt.Sprintf("PersistentVolumeClaim %s is %v and not ReadWriteMany: of %d Pods, those on other nodes than the first cannot start",
			name, claim.Spec.AccessModes, runtime.DesiredReplicas())
	}
	return c
}
