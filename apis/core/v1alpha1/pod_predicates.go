package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// PodIsOfRuntime tells whether a Pod was made for a Runtime: whether RuntimePodSelector selects it. Scheduler and
// controllers must agree on that, or Runs go to Pods whose end nobody sees.
func PodIsOfRuntime(pod *corev1.Pod) bool {
	_, ok := pod.Labels[LabelRuntime]
	return ok && pod.Labels[LabelManagedBy] == ManagedBy
}

// RuntimePodSelector selects the Pods that were made for any Runtime: they carry LabelRuntime and LabelManagedBy.
func RuntimePodSelector() labels.Selector {
	ofRuntime, err := labels.NewRequirement(LabelRuntime, selection.Exists, nil)
	if err != nil {
		panic(err) // a constant is no label's name
	}
	return labels.SelectorFromSet(labels.Set{LabelManagedBy: ManagedBy}).Add(*ofRuntime)
}

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
