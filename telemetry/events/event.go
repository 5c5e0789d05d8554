// Package events tells people through the events API of Kubernetes (events.k8s.io/v1) what has become of their objects.
//
// Whoever decides makes an Event, a plain value; a Recorder stores it. An event is stored under a name that is derived from
// what it tells, so that whoever tells the same once more, such as a process that was restarted, stores nothing new. The
// recorder of client-go names events by the time and knows of nothing that an earlier process has told.
package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kruntimes.io/kruntimes/statuspatch"
)

const (
	// maxNote is what the API allows, in bytes.
	maxNote = 1024
	// maxName is what the API allows for the name of any object.
	maxName = 253
	// digestBytes of the digest are in a name.
	digestBytes = 8
)

// Event is something that has become of an object and that a person may want to know.
type Event struct {
	// Regarding is the object; see About.
	Regarding corev1.ObjectReference
	// Type is corev1.EventTypeNormal, or corev1.EventTypeWarning where somebody should act.
	Type string
	// Reason is a constant of the API package of the object; for a Lease, that of client-go.
	Reason string
	// Action is what the reporter was doing, in one word.
	Action string
	// Note is for people. It is stored as one line of at most 1,024 bytes.
	Note string
	// Key tells this event from others about the same object with the same reason. The same key, the same event.
	Key string
	// Recurs makes an event that is there already count once more, because the same has happened again. False: it was
	// told already, and nothing is written.
	Recurs bool
}

// About refers to an object, whose kind the caller names: objects that were read do not know theirs.
func About(kind schema.GroupVersionKind, object metav1.Object) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}
}

// Words is a text without its digits: two texts with the same words differ in numbers at most.
func Words(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}

// reporter is who tells.
type reporter struct{ controller, instance string }

// object is the event as it is stored.
func (e *Event) object(by reporter, at metav1.MicroTime) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Regarding.Namespace, Name: e.name(by)},
		EventTime:  at, Regarding: e.Regarding, Type: e.Type, Reason: e.Reason, Action: e.Action, Note: oneLine(e.Note),
		ReportingController: by.controller, ReportingInstance: by.instance,
	}
}

// name begins with that of the object, as people expect, and ends with a digest of what is told.
func (e *Event) name(by reporter) string {
	digest := sha256.New()
	for _, part := range []string{string(e.Regarding.UID), by.controller, e.Reason, e.Key} {
		digest.Write([]byte(part))
		digest.Write([]byte{0})
	}
	suffix := "." + hex.EncodeToString(digest.Sum(nil)[:digestBytes])
	name := e.Regarding.Name
	if len(name)+len(suffix) > maxName {
		name = strings.TrimRight(name[:maxName-len(suffix)], "-.")
	}
	return name + suffix
}

// oneLine makes what scripts and other programs wrote fit to be shown in a table: one line without anything that moves a
// cursor or turns the direction of the text around, and within the bound of the API.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, line)
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return statuspatch.Bounded(strings.Join(lines, "; "), maxNote)
}
