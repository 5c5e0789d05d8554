// Package runaffinity is the plugin that places Runs beside, or away from, other Runs.
//
// The place that counts is a Pod: a Run is near those that are assigned to, or reserved on, the same Pod and have not
// finished. What each of a Run's terms selects comes with the snapshot; what Runs on a Pod keep away comes with the Pod.
//
//	required affinity        each term must select a Run on the Pod. A term that selects the Run itself, and no other Run
//	                         of the namespace, is waived: somebody has to be the first.
//	required anti-affinity   no term may select a Run on the Pod, and none of a Run on the Pod may select this one.
//	preferences              the weights of the terms that a Pod meets, affinity's added, anti-affinity's taken away.
//
// A Pod that is held for a Run counts, for the required anti-affinity of others, as if that Run were there already.
package runaffinity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

const (
	// Name identifies the plugin in configuration, logs and metrics.
	Name = "RunAffinity"

	// TextAlone is shown for a Pod without a Run that a required affinity selects; the selector follows.
	TextAlone = "without a Run that matches "
	// TextTogether is shown for a Pod with a Run that a required anti-affinity selects; the selector follows.
	TextTogether = "with a Run that matches "
	// TextKeptAway is shown for a Pod with a Run whose required anti-affinity selects this Run; the selector follows.
	TextKeptAway = "with a Run that keeps away "
	// TextHeld is shown for a Pod that is kept for a Run that has waited too long, from which rules keep this Run apart.
	TextHeld = "held for an older Run"

	// maxSelector bounds what is shown of a selector. Unit: bytes.
	maxSelector = 100
)

// RunAffinity rejects Pods by the Runs that are there, and scores the others.
type RunAffinity struct{}

var (
	_ framework.PreFilterPlugin = (*RunAffinity)(nil)
	_ framework.FilterPlugin    = (*RunAffinity)(nil)
	_ framework.ScorePlugin     = (*RunAffinity)(nil)
	_ framework.EventsPlugin    = (*RunAffinity)(nil)

	skip = &framework.Status{Code: framework.Skip}
	held = &framework.Status{
		Code: framework.Unschedulable, Reason: corev1alpha1.ReasonAffinityNotSatisfied, Text: TextHeld, WakeOn: togetherHelp, Crowded: true,
	}
)

// The events that help against each kind of verdict. A Pod that becomes available helps against all of them.
const (
	aloneHelp    = framework.PodAvailable | framework.NeighbourCame | framework.NeighbourLeft
	togetherHelp = framework.PodAvailable | framework.CapacityFreed
)

// New makes the plugin.
func New() *RunAffinity { return &RunAffinity{} }

// Name is the plugin's name.
func (*RunAffinity) Name() string { return Name }

// EventsToRegister are those that bring a Run near, or take one away.
func (*RunAffinity) EventsToRegister() framework.Events { return aloneHelp | togetherHelp }

// rule is a term with what it selects, and the verdict on Pods that break it.
type rule struct {
	term       *framework.Term
	neighbours *framework.Neighbours
	verdict    *framework.Status
}

// state is what a cycle knows of a Run's rules.
type state struct {
	near, apart, preferred []rule
	// away tells, of the guards on the Runtime's Pods, which select the Run.
	away map[string]bool
	// keptAway is the last verdict on a Pod with such a guard.
	keptAway *framework.Status
}

// PreFilter leaves Runs alone that no rule concerns, their own or others'. It rejects those whose rules make no sense.
func (*RunAffinity) PreFilter(c *framework.Cycle) *framework.Status {
	terms := c.Run.Terms()
	if terms == nil && !c.Snapshot.Guarded {
		return skip
	}
	s := &state{}
	if terms != nil {
		if terms.Err != nil {
			c.Narrow("")
			return framework.Reject(framework.Unresolvable, corev1alpha1.ReasonAffinityNotSatisfied, "spec.affinity: "+terms.Err.Error())
		}
		s.take(terms, c)
	}
	if c.Snapshot.Guarded {
		s.guard(c)
	}
	if len(s.near)+len(s.apart)+len(s.away) > 0 {
		c.Narrow(s.against())
	} else if len(s.preferred) == 0 {
		return skip
	}
	c.Keep(Name, s)
	return nil
}

// take sorts the terms that matter. Anti-affinity to nobody does not, nor does a preference that no Pod meets.
func (s *state) take(terms *framework.Affinity, c *framework.Cycle) {
	none, snapshot := &framework.Neighbours{}, c.Snapshot
	for i := range terms.Terms {
		r := rule{term: &terms.Terms[i], neighbours: none}
		if i < len(snapshot.Neighbours) {
			r.neighbours = &snapshot.Neighbours[i]
		}
		switch r.term.Kind {
		case framework.Near:
			if r.neighbours.Runs > 0 || !r.term.Self {
				s.near = append(s.near, r)
			}
		case framework.Apart:
			isHeld := func(pod *framework.PodInfo) bool { return r.heldOn(pod, c.Run) }
			if r.meetsAny(snapshot.Pods) || slices.ContainsFunc(snapshot.Pods, isHeld) {
				s.apart = append(s.apart, r)
			}
		case framework.PreferNear, framework.PreferApart:
			if r.meetsAny(snapshot.Pods) {
				s.preferred = append(s.preferred, r)
			}
		}
	}
}

func (r *rule) on(pod *framework.PodInfo) bool { return r.neighbours.On[pod.UID] > 0 }

// heldOn tells whether the Pod is held for a Run that the term selects.
func (r *rule) heldOn(pod *framework.PodInfo, run *framework.RunInfo) bool {
	h := pod.HeldFromOthers(run)
	return h != nil && r.term.Selector.Matches(h.Labels)
}

func (r *rule) meetsAny(pods []*framework.PodInfo) bool {
	return len(r.neighbours.On) > 0 && slices.ContainsFunc(pods, r.on)
}

// guard finds the guards that select the Run. Those with the same selector are looked at once.
func (s *state) guard(c *framework.Cycle) {
	seen := map[string]bool{}
	look := func(g *framework.Selector) {
		text := g.String()
		if seen[text] {
			return
		}
		seen[text] = true
		if g.Matches(c.Run.Labels) {
			if s.away == nil {
				s.away = map[string]bool{}
			}
			s.away[text] = true
		}
	}
	for _, pod := range c.Snapshot.Pods {
		for _, g := range pod.Guards {
			look(g)
		}
		if h := pod.HeldFromOthers(c.Run); h != nil {
			for _, g := range h.Guards {
				look(g)
			}
		}
	}
}

// against names the guards that select the Run: its class does not tell, because it leaves the Run's labels out.
func (s *state) against() string {
	return strings.Join(slices.Sorted(maps.Keys(s.away)), ";")
}

// Filter rejects a Pod that breaks a required rule.
func (*RunAffinity) Filter(c *framework.Cycle, pod *framework.PodInfo) *framework.Status {
	s, ok := c.Kept(Name).(*state)
	if !ok {
		return nil
	}
	for i := range s.near {
		if r := &s.near[i]; !r.on(pod) {
			return r.broken(c, TextAlone, aloneHelp)
		}
	}
	for i := range s.apart {
		r := &s.apart[i]
		switch {
		case r.on(pod):
			return r.broken(c, TextTogether, togetherHelp)
		case r.heldOn(pod, c.Run):
			return held
		}
	}
	return s.guarded(c, pod)
}

// guarded rejects a Pod with a Run, or held for a Run, that keeps this one away.
func (s *state) guarded(c *framework.Cycle, pod *framework.PodInfo) *framework.Status {
	if len(s.away) == 0 {
		return nil
	}
	for _, g := range pod.Guards {
		if s.away[g.String()] {
			return s.keepAway(g)
		}
	}
	if h := pod.HeldFromOthers(c.Run); h != nil {
		for _, g := range h.Guards {
			if s.away[g.String()] {
				return held
			}
		}
	}
	return nil
}

// broken is the verdict on every Pod that breaks the rule.
func (r *rule) broken(c *framework.Cycle, text string, help framework.Events) *framework.Status {
	if r.verdict == nil {
		r.verdict = framework.Reject(framework.Unschedulable, corev1alpha1.ReasonAffinityNotSatisfied, text)
		r.verdict.Crowded = help.Has(framework.CapacityFreed)
		r.verdict.Detail, r.verdict.WakeOn = selected{r.term.Selector, r.elsewhere(c.Snapshot.Pods)}, help
	}
	return r.verdict
}

// elsewhere is how many Runs a required affinity selects when none of them is on a Pod of the Runtime.
func (r *rule) elsewhere(pods []*framework.PodInfo) int {
	if r.term.Kind != framework.Near || r.meetsAny(pods) {
		return 0
	}
	return r.neighbours.Runs
}

func (s *state) keepAway(g *framework.Selector) *framework.Status {
	detail := selected{selector: g}
	if s.keptAway == nil || s.keptAway.Detail != detail {
		s.keptAway = framework.Reject(framework.Unschedulable, corev1alpha1.ReasonAffinityNotSatisfied, TextKeptAway)
		s.keptAway.Detail, s.keptAway.WakeOn, s.keptAway.Crowded = detail, togetherHelp, true
	}
	return s.keptAway
}

// selected prints a selector, and how many Runs it selects that help nothing.
type selected struct {
	selector  *framework.Selector
	elsewhere int
}

// String is put behind the text of a verdict.
func (s selected) String() string {
	text := s.selector.Bounded(maxSelector)
	if s.elsewhere > 0 {
		text += fmt.Sprintf(" (%d on no Pod of this Runtime)", s.elsewhere)
	}
	return text
}

// Score adds the weights of the preferences that the Pod meets.
func (*RunAffinity) Score(c *framework.Cycle, pod *framework.PodInfo) int64 {
	s, ok := c.Kept(Name).(*state)
	if !ok {
		return 0
	}
	var score int64
	for i := range s.preferred {
		r := &s.preferred[i]
		switch {
		case !r.on(pod):
		case r.term.Kind == framework.PreferNear:
			score += r.term.Weight
		default:
			score -= r.term.Weight
		}
	}
	return score
}

// Normalize stretches the scores over the whole scale.
func (*RunAffinity) Normalize(_ *framework.Cycle, scores []int64) { framework.Scaled(scores) }
