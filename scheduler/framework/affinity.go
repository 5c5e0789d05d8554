package framework

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TermKind is what a term of an affinity asks for.
type TermKind int

const (
	// Near is a required term: a selected Run must be on the Pod.
	Near TermKind = iota
	// Apart is a required term: no selected Run may be on the Pod.
	Apart
	// PreferNear is a preferred term: a Pod with a selected Run is better.
	PreferNear
	// PreferApart is a preferred term: a Pod with a selected Run is worse.
	PreferApart
)

// Term is one compiled rule of a Run's affinity.
type Term struct {
	Kind TermKind
	// Weight is that of a preferred term, 1 to 100.
	Weight   int64
	Selector *Selector
	// Self is true when the Run's own labels are selected.
	Self bool
}

// Affinity is the compiled affinity of a Run. Nil has no terms.
type Affinity struct {
	// Terms are required and preferred ones.
	Terms []Term
	// Err is set when a selector cannot be compiled; there are no terms then.
	Err error
}

// Neighbours are the active Runs of the namespace that one term selects: those that are assigned or reserved and not
// finished.
type Neighbours struct {
	// Runs is their number, on Pods of whatever Runtime.
	Runs int `json:"runs"`
	// On is their number per Pod. Pods without any are left out.
	On map[types.UID]int `json:"on,omitempty"`
}

// compileAffinity returns nil when there is no rule.
func compileAffinity(rules *corev1alpha1.Affinity, own map[string]string) *Affinity {
	if rules == nil {
		return nil
	}
	a := &Affinity{}
	a.add(rules.RunAffinity, Near, PreferNear, own)
	a.add(rules.RunAntiAffinity, Apart, PreferApart, own)
	switch {
	case a.Err != nil:
		return &Affinity{Err: a.Err}
	case len(a.Terms) == 0:
		return nil
	}
	return a
}

func (a *Affinity) add(rules *corev1alpha1.RunAffinity, required, preferred TermKind, own map[string]string) {
	if rules == nil {
		return
	}
	for i := range rules.Required {
		a.addTerm(Term{Kind: required}, &rules.Required[i], own)
	}
	for i := range rules.Preferred {
		a.addTerm(Term{Kind: preferred, Weight: int64(rules.Preferred[i].Weight)}, &rules.Preferred[i].Term, own)
	}
}

func (a *Affinity) addTerm(t Term, term *corev1alpha1.RunAffinityTerm, own map[string]string) {
	selector, err := NewSelector(&term.LabelSelector)
	switch {
	case err != nil:
		a.Err = err
		return
	case term.TopologyKey != corev1alpha1.TopologyRuntimePod:
		a.Err = fmt.Errorf("unknown topology key %q", term.TopologyKey)
		return
	}
	t.Selector, t.Self = selector, selector.Matches(own)
	a.Terms = append(a.Terms, t)
}

// Has tells whether there is a term of the kind.
func (a *Affinity) Has(kind TermKind) bool {
	if a == nil {
		return false
	}
	for i := range a.Terms {
		if a.Terms[i].Kind == kind {
			return true
		}
	}
	return false
}

// Guards are what a Run keeps away from its Pod while it is there: the selectors of its required anti-affinity.
func (a *Affinity) Guards() []*Selector {
	if a == nil {
		return nil
	}
	var guards []*Selector
	for i := range a.Terms {
		if a.Terms[i].Kind == Apart {
			guards = append(guards, a.Terms[i].Selector)
		}
	}
	return guards
}
