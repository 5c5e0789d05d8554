package v1alpha1

import corev1 "k8s.io/api/core/v1"

// PodIsReady tells whether a Pod runs and is ready. The condition alone does not say so: a Pod that was evicted, or that
// its node has ended, may keep a condition Ready that was True before. A Pod that is being deleted may still be ready.
func PodIsReady(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning {
		return false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
