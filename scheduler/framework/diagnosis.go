package framework

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// MaxMessage is the largest number of bytes of a Diagnosis' message.
const MaxMessage = 512

// Diagnosis is why a Run fits nowhere.
type Diagnosis struct {
	// Reason is the constant for the condition Scheduled.
	Reason string
	// WakeOn are the events after which another cycle may end differently.
	WakeOn Events
	// Err is set when a plugin could not decide; the Run is then tried again after a backoff.
	Err error
	// Class names the Runs that get the same verdict from the same snapshot: all of the Run's base, or those of its Line.
	Class string
	// Line names the Runs whose verdicts stay the same as the Run's: those of its class unless it was told apart.
	Line string
	// FreedOn are the Pods on which room may help. Nil means any Pod.
	FreedOn []types.UID
	// Closed tells of whom else it is known that they fit nowhere, FullOn which Pods of FreedOn are closed for all.
	Closed Closed
	FullOn []types.UID

	// whole is the verdict on all Pods at once, or verdicts holds one per Pod.
	whole    *Status
	verdicts []*Status
	pods     []*PodInfo
	// runtime is the one whose Pods these are; nil when it is not known.
	runtime *RuntimeInfo
}

// Crowded returns the Pods that were rejected for nothing but the Runs that are there, in order of their names.
func (d *Diagnosis) Crowded() []*PodInfo {
	var pods []*PodInfo
	for i, v := range d.verdicts {
		if v.Crowded {
			pods = append(pods, d.pods[i])
		}
	}
	return pods
}

// conclude finds the one reason. Pods that are no candidates do not count while there are others; reasons that
// disagree become Unschedulable.
func (d *Diagnosis) conclude() {
	for _, candidates := range []bool{true, false} {
		for _, v := range d.verdicts {
			if (v.Code != Unavailable) != candidates {
				continue
			}
			switch d.Reason {
			case "":
				d.Reason = v.Reason
			case v.Reason:
			default:
				d.Reason = corev1alpha1.ReasonUnschedulable
				return
			}
		}
		if d.Reason != "" {
			return
		}
	}
	d.Reason = corev1alpha1.ReasonNoPods
}

// Message tells a person why: "4 Pods: 3 full (runs 4/4), 1 not ready: ImagePullBackOff". Verdicts are counted, the
// most frequent first, equals in alphabetical order. Where the Runtime cannot have all of its Pods, that follows. It has
// at most MaxMessage bytes.
func (d *Diagnosis) Message() string {
	if d.whole != nil {
		return statuspatch.Bounded(d.whole.Message(), MaxMessage)
	}
	missing := d.missing()
	return d.counts(MaxMessage-len(missing)) + missing
}

// missing says why there are not more Pods.
func (d *Diagnosis) missing() string {
	if d.runtime == nil || d.runtime.Trouble == "" || int(d.runtime.Replicas) <= len(d.pods) {
		return ""
	}
	return fmt.Sprintf("; %d more cannot be made: %s", int(d.runtime.Replicas)-len(d.pods),
		statuspatch.Bounded(d.runtime.Trouble, MaxMessage/2))
}

// counts counts the verdicts on the Pods, in at most so many bytes.
func (d *Diagnosis) counts(size int) string {
	counts := map[string]int{}
	var last *Status
	text := ""
	for _, v := range d.verdicts {
		if v != last { // plugins share verdicts, so most need not be printed again
			last, text = v, v.Message()
		}
		counts[text]++
	}
	type group struct {
		text  string
		count int
	}
	groups := make([]group, 0, len(counts))
	for text, count := range counts {
		groups = append(groups, group{text, count})
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.text, b.text))
	})
	var b strings.Builder
	b.WriteString(counted(len(d.verdicts), "Pod"))
	left := len(d.verdicts)
	for i, g := range groups {
		part := fmt.Sprintf("%d %s", g.count, g.text)
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		// Room is kept for the words that stand for what is left out.
		if i > 0 && b.Len()+len(separator)+len(part)+len(", 2147483647 others") > size {
			fmt.Fprintf(&b, "%s%d others", separator, left)
			break
		}
		b.WriteString(separator + part)
		left -= g.count
	}
	return statuspatch.Bounded(b.String(), size)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
