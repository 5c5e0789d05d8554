package core

import (
	"cmp"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

const (
	// endKept is how long the end of a Pod is remembered. An assignment that was under way while the Pod ended comes within
	// seconds.
	endKept = 10 * time.Minute
	// endsBound bounds how many Pods are remembered.
	endsBound = 10000
	// endSettle is how long the last events of a Pod that was found missing are waited for.
	endSettle = 5 * time.Second
)

// hasDrained tells whether a Pod has ended in order: runtimed, which nobody starts again in a Pod that is being deleted,
// returns without an error only when every Run that it ever started was reported. A Run that is still assigned to such a
// Pod was never started there.
func hasDrained(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp.IsZero() {
		return false
	}
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == corev1alpha1.ContainerRuntimed {
			return c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		}
	}
	return false
}

// podEnd is what is known of the end of a Pod that is gone.
type podEnd struct {
	// drained tells that it went in order; see hasDrained.
	drained bool
	// unheard is for how long its last events may still be under way: the cache drops a Pod before it tells of that. 0 when
	// they have come, or have had their time.
	unheard time.Duration
	// words are those in which Kubernetes says why it ended the Pod, such as "Evicted: …"; empty when it did not.
	words string
}

// wordsBound bounds how much of a Pod's words is told, in bytes. Runs have more room for their messages.
const wordsBound = 1024

// podWords returns the words of a Pod that Kubernetes has ended.
func podWords(pod *corev1.Pod) string {
	if pod.Status.Phase != corev1.PodFailed {
		return ""
	}
	words := sentence(pod.Status.Reason, strings.TrimSpace(pod.Status.Message))
	if len(words) > wordsBound {
		words = strings.ToValidUTF8(words[:wordsBound], "") + "…"
	}
	return words
}

// podEnds remembers how Pods ended, since most are gone from the API a moment later. A drain that it forgets, with the
// manager or with time, is judged as a loss.
type podEnds struct {
	mu   sync.Mutex // of read and write together
	uids *utilcache.LRUExpireCache
}

// heard is what is remembered of a Pod.
type heard struct {
	drained bool
	words   string
	// until is when to stop waiting for events of a Pod that was found missing; zero once it has been told of.
	until time.Time
}

// of tells what is known of a Pod that was found missing.
func (p *podEnds) of(uid types.UID, c clock.PassiveClock) podEnd {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.get(uid, c)
	if !ok {
		h.until = c.Now().Add(endSettle)
		p.uids.Add(uid, h, endKept)
	}
	return podEnd{drained: h.drained, words: h.words, unheard: max(0, h.until.Sub(c.Now()))}
}

// note remembers a Pod if it has drained.
func (p *podEnds) note(pod *corev1.Pod, c clock.PassiveClock) {
	if hasDrained(pod) {
		p.gone(pod, c)
	}
}

// gone remembers a Pod whose last state was told of.
func (p *podEnds) gone(pod *corev1.Pod, c clock.PassiveClock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, _ := p.get(pod.UID, c)
	p.uids.Add(pod.UID, heard{drained: h.drained || hasDrained(pod), words: cmp.Or(podWords(pod), h.words)}, endKept)
}

// get is called with mu held.
func (p *podEnds) get(uid types.UID, c clock.PassiveClock) (heard, bool) {
	if p.uids == nil {
		p.uids = utilcache.NewLRUExpireCacheWithClock(endsBound, c)
	}
	if v, ok := p.uids.Get(uid); ok {
		return v.(heard), true
	}
	return heard{}, false
}
