package framework

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"kruntimes.io/kruntimes/statuspatch"
)

// Selector selects Runs by their labels. Values are never changed and may be shared. It is written as text, and two with
// the same text are equal.
type Selector struct {
	text    string
	parsed  labels.Selector
	choices [][]Anchor
}

// Anchor is a label that a Run must have to be selected: Key with Value or, if Any, with whatever value. Indexes are
// kept by anchors.
type Anchor struct {
	Key, Value string
	Any        bool
}

// NewSelector compiles a selector of the API.
func NewSelector(s *metav1.LabelSelector) (*Selector, error) {
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("compiling a label selector: %w", err)
	}
	return newSelector(parsed), nil
}

func newSelector(parsed labels.Selector) *Selector {
	s := &Selector{text: parsed.String(), parsed: parsed}
	requirements, _ := parsed.Requirements()
	for i := range requirements {
		r := &requirements[i]
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			var choice []Anchor
			for _, value := range r.Values().List() {
				choice = append(choice, Anchor{Key: r.Key(), Value: value})
			}
			s.choices = append(s.choices, choice)
		case selection.Exists:
			s.choices = append(s.choices, []Anchor{{Key: r.Key(), Any: true}})
		}
	}
	slices.SortStableFunc(s.choices, func(a, b []Anchor) int { return cmp.Compare(len(a), len(b)) })
	return s
}

// Matches tells whether a Run with these labels is selected.
func (s *Selector) Matches(l map[string]string) bool { return s.parsed.Matches(labels.Set(l)) }

// String is the selector as kubectl takes it: app=db,tier in (a,b).
func (s *Selector) String() string { return s.text }

// Bounded is the selector in at most so many bytes, for messages.
func (s *Selector) Bounded(size int) string { return statuspatch.Bounded(s.text, size) }

// Choices are the ways to find what is selected without looking at every Run: whatever is selected has one of the
// anchors of each choice. There is none when the selector only names what a Run must not have.
func (s *Selector) Choices() [][]Anchor { return s.choices }

// Equal tells whether two selectors are the same.
func (s *Selector) Equal(o *Selector) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.text == o.text
}

// MarshalText writes the selector.
func (s *Selector) MarshalText() ([]byte, error) { return []byte(s.text), nil }

// UnmarshalText reads what MarshalText has written.
func (s *Selector) UnmarshalText(text []byte) error {
	parsed, err := labels.Parse(string(text))
	if err != nil {
		return fmt.Errorf("reading a label selector: %w", err)
	}
	*s = *newSelector(parsed)
	return nil
}

// AnchorsOf lists the anchors that a Run with these labels has.
func AnchorsOf(l map[string]string) []Anchor {
	anchors := make([]Anchor, 0, 2*len(l))
	for key, value := range l {
		anchors = append(anchors, Anchor{Key: key, Value: value}, Anchor{Key: key, Any: true})
	}
	return anchors
}
