package framework

import "fmt"

// Code is the kind of a verdict.
type Code int

const (
	// Success means that the plugin has no objection.
	Success Code = iota
	// Skip is for PreFilter: it means that the plugin has nothing to say about this Run: its Filter and Score are not called.
	Skip
	// Unavailable means that the Pod takes no Run at all now, whatever the Run: it is no candidate.
	Unavailable
	// Unschedulable means that the Run does not fit now; something that happens to Pods or other Runs may help.
	Unschedulable
	// Unresolvable means that nothing that happens to Pods helps: the Run or the Runtime has to change.
	Unresolvable
	// Error means a bug or an outage, never "does not fit". The Run is tried again after a backoff.
	Error
)

// String names the code.
func (c Code) String() string {
	names := []string{"Success", "Skip", "Unavailable", "Unschedulable", "Unresolvable", "Error"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("Code(%d)", int(c))
	}
	return names[c]
}

// Closed is whom a Pod does not take now.
type Closed int

const (
	// ClosedForSome means that the verdict is about the Run, and others may fit.
	ClosedForSome Closed = iota
	// ClosedForMost means that no Run fits, whatever it asks for, unless something ties it to just this Pod.
	ClosedForMost
	// ClosedForAll means that no Run fits, whatever it asks for.
	ClosedForAll
)

// Status is the verdict of a plugin. Nil is Success. Values are never changed, so plugins may return shared ones.
type Status struct {
	// Code is the kind of the verdict.
	Code Code
	// Reason is the constant that the condition Scheduled holds when this verdict decides.
	Reason string
	// Text says the same to a person, in a few words about one Pod ("full") or, from PreFilter, in a sentence.
	Text string
	// Detail, if any, is appended to Text. It is printed only when somebody reads the message, so that
	// a cycle does not pay for it.
	Detail fmt.Stringer
	// Crowded tells, about a Pod, that it would take the Run if enough of the Runs there, or kept room for, left it.
	Crowded bool
	// Closed tells, about a Pod, whom else it takes as little as this Run.
	Closed Closed
	// WakeOn, if any, narrows the events that the plugin has registered to those that help against this verdict.
	WakeOn Events
	// Err is the cause of an Error.
	Err error
}

// Rejected tells whether the verdict keeps the Run from the Pod or, from PreFilter, from every Pod.
func (s *Status) Rejected() bool { return s != nil && s.Code != Success && s.Code != Skip }

// Message is the text with its detail.
func (s *Status) Message() string {
	if s.Err != nil {
		return s.Err.Error()
	}
	if s.Detail == nil {
		return s.Text
	}
	return s.Text + s.Detail.String()
}

// Reject makes a verdict that keeps the Run away.
func Reject(code Code, reason, text string) *Status {
	return &Status{Code: code, Reason: reason, Text: text}
}

// Failed makes the verdict of a plugin that could not decide.
func Failed(err error) *Status { return &Status{Code: Error, Err: err} }
