package storehealth

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// maxWords bounds the message of the condition. Unit: bytes.
const maxWords = 1024

// wordsReady are the words of the condition when it is True.
const wordsReady = "artifacts can be kept"

// seen is what a decision about the condition rests on.
type seen struct {
	// pod is the Pod of this runtimed.
	pod string
	// generation is that of the Runtime.
	generation int64
	// current is the condition as it stands; nil when there is none.
	current *metav1.Condition
	// failure is why the store cannot be used; nil when it can.
	failure error
	// now is the present time. trusted is how long another Pod's word is not contradicted.
	now     time.Time
	trusted time.Duration
}

// wanted returns the condition to write; nil when the one that stands may stay. What another Pod says is wrong stays: this
// Pod's words would be no better, and two Pods would overwrite each other for ever. That it is right again is said by that
// Pod, or by any when that one has said nothing else for a while.
func wanted(s seen) *metav1.Condition {
	c := &metav1.Condition{
		Type: corev1alpha1.RuntimeConditionArtifactStoreReady, Status: metav1.ConditionTrue,
		Reason: corev1alpha1.ReasonStoreReady, Message: prefix(s.pod) + wordsReady,
		ObservedGeneration: s.generation, LastTransitionTime: metav1.NewTime(s.now),
	}
	if s.failure != nil {
		c.Status, c.Reason = metav1.ConditionFalse, corev1alpha1.ReasonStoreFailed
		c.Message = statuspatch.Bounded(prefix(s.pod)+s.failure.Error(), maxWords)
	}
	if s.current == nil {
		return c
	}
	if s.current.Status == c.Status && s.current.Status == metav1.ConditionTrue {
		return nil
	}
	isOurs := strings.HasPrefix(s.current.Message, prefix(s.pod))
	switch {
	case s.current.Status == metav1.ConditionTrue:
		return c
	case s.failure != nil:
		if !isOurs || s.current.Message == c.Message {
			return nil
		}
		c.LastTransitionTime = s.current.LastTransitionTime
		return c
	case isOurs || s.now.Sub(s.current.LastTransitionTime.Time) > s.trusted:
		return c
	}
	return nil
}

// prefix starts the message of a Pod. The policy on the status of Runtimes insists on it.
func prefix(pod string) string { return "Pod " + pod + ": " }

// pause is how long to wait until the next look, somewhat spread; random is in [0, 1).
func pause(base time.Duration, random float64) time.Duration {
	return time.Duration(float64(base) * (0.75 + 0.5*random))
}
