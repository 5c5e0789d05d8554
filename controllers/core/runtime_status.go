package core

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// maxConditionMessage bounds what is repeated from Pods and from the API server.
const maxConditionMessage = 1024

// podCount counts what there is of a Runtime's Pods.
type podCount struct {
	desired, present, ready int32
	// trouble says why a Pod that is not ready does not become ready; empty when nothing is known to be wrong.
	trouble string
	// refused says why the API server makes no Pods; empty when it does.
	refused string
	// rolling tells that there are Pods of an earlier template.
	rolling bool
}

// calculateStatus derives the status of a Runtime from what was seen, and from its earlier status only the times of
// transitions. refused is the outcome of applying.
func calculateStatus(runtime *corev1alpha1.Runtime, seen *runtimeState, refused string, now time.Time) corev1alpha1.RuntimeStatus {
	count := countPods(runtime, seen)
	status := corev1alpha1.RuntimeStatus{
		ObservedGeneration: runtime.Generation,
		Replicas:           count.present,
		ReadyReplicas:      count.ready,
		Selector:           labels.SelectorFromSet(podLabels(runtime.Name)).String(),
		Conditions:         slices.Clone(runtime.Status.Conditions),
	}
	conditions := []metav1.Condition{available(count, refused), progressing(count, refused)}
	for _, use := range claimUses(runtime) {
		if use.claim == "" {
			meta.RemoveStatusCondition(&status.Conditions, use.condition)
		} else {
			conditions = append(conditions, notShareable(runtime, use, seen.claimsByName[use.claim]))
		}
	}
	if runtime.Spec.ArtifactStore == nil { // Else it is runtimed's.
		meta.RemoveStatusCondition(&status.Conditions, corev1alpha1.RuntimeConditionArtifactStoreReady)
	}
	for _, condition := range conditions {
		condition.ObservedGeneration = runtime.Generation
		condition.LastTransitionTime = metav1.NewTime(now)
		condition.Message = statuspatch.Bounded(condition.Message, maxConditionMessage)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

func countPods(runtime *corev1alpha1.Runtime, seen *runtimeState) podCount {
	count := podCount{desired: runtime.DesiredReplicas()}
	pods := slices.SortedFunc(slices.Values(seen.pods), func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range pods {
		pod := &pods[i]
		if !pod.DeletionTimestamp.IsZero() || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		if pod.Status.Phase != corev1.PodFailed {
			count.present++
		}
		switch {
		case corev1alpha1.PodIsReady(pod):
			count.ready++
		case count.trouble == "":
			count.trouble = podTrouble(pod)
		}
	}
	if d := seen.deployment; d != nil {
		count.refused = replicaFailure(d)
		count.rolling = d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < d.Status.Replicas
	}
	return count
}

// replicaFailure is what the ReplicaSet controller says when the API server refuses its Pods.
func replicaFailure(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

func available(n podCount, refused string) metav1.Condition {
	c := metav1.Condition{Type: corev1alpha1.RuntimeConditionAvailable, Status: metav1.ConditionTrue, Message: n.String()}
	switch {
	case n.desired == 0:
		c.Reason, c.Message = corev1alpha1.ReasonScaledToZero, "no Pod is asked for"
	case n.ready >= n.desired:
		c.Reason = corev1alpha1.ReasonPodsReady
	case n.ready > 0:
		_, c.Message = n.obstacle()
		c.Reason = corev1alpha1.ReasonSomePodsReady
	case refused != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, corev1alpha1.ReasonDeploymentRefused, refused
	default:
		c.Status = metav1.ConditionFalse
		c.Reason, c.Message = n.obstacle()
	}
	return c
}

func progressing(n podCount, refused string) metav1.Condition {
	c := metav1.Condition{Type: corev1alpha1.RuntimeConditionProgressing, Status: metav1.ConditionFalse, Message: n.String()}
	switch {
	case refused != "":
		c.Reason, c.Message = corev1alpha1.ReasonDeploymentRefused, refused
	case n.desired == 0 && n.present == 0:
		c.Reason, c.Message = corev1alpha1.ReasonScaledToZero, "no Pod is asked for"
	case n.ready >= n.desired && n.present <= n.desired && !n.rolling:
		c.Reason = corev1alpha1.ReasonPodsReady
	case n.refused != "" || n.trouble != "":
		c.Reason, c.Message = n.obstacle()
	case n.present > 0 && (n.rolling || n.present > n.desired):
		c.Status, c.Reason = metav1.ConditionTrue, corev1alpha1.ReasonRollingOut
	default:
		c.Status, c.Reason = metav1.ConditionTrue, corev1alpha1.ReasonPodsStarting
	}
	return c
}

// obstacle is the reason and message for Pods that are not ready.
func (n podCount) obstacle() (reason, message string) {
	switch {
	case n.refused != "":
		return corev1alpha1.ReasonPodsRefused, n.String() + "; " + n.refused
	case n.trouble != "":
		return corev1alpha1.ReasonPodsFailing, n.String() + "; " + n.trouble
	default:
		return corev1alpha1.ReasonPodsStarting, n.String()
	}
}

// String counts for a person.
func (n podCount) String() string {
	return fmt.Sprintf("%d of %d Pods ready", n.ready, n.desired)
}
