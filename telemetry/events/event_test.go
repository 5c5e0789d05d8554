package events

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// event is one about an object of a name.
func event(name, key string) Event {
	return Event{
		Regarding: About(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
			&metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-of-" + name)}),
		Type: corev1.EventTypeWarning, Reason: "Broken", Action: "Mending", Note: "it is broken", Key: key,
	}
}

func TestObject(t *testing.T) {
	e := event("w", "1")
	got := e.object(reporter{controller: "example.com/mender", instance: "example.com/mender-host"}, metav1.NewMicroTime(noon))
	suffix, found := strings.CutPrefix(got.Name, "w.")
	if !found || len(suffix) != 2*digestBytes {
		t.Errorf("the event is called %q", got.Name)
	}
	got.Name = ""
	want := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team"}, EventTime: metav1.NewMicroTime(noon),
		Regarding: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "Widget", Namespace: "team", Name: "w", UID: "uid-of-w"},
		Type:      "Warning", Reason: "Broken", Action: "Mending", Note: "it is broken",
		ReportingController: "example.com/mender", ReportingInstance: "example.com/mender-host",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored event (-want +got):\n%s", diff)
	}
}

func TestTheNameTellsEventsApart(t *testing.T) {
	first := event("w", "1")
	name := first.name(reporter{controller: "c", instance: "one"})
	cases := map[string]struct {
		change func(*Event, *reporter)
		same   bool
	}{
		"the same":              {func(*Event, *reporter) {}, true},
		"another process":       {func(_ *Event, r *reporter) { r.instance = "two" }, true},
		"other words":           {func(e *Event, _ *reporter) { e.Note = "still broken" }, true},
		"another key":           {func(e *Event, _ *reporter) { e.Key = "2" }, false},
		"another reason":        {func(e *Event, _ *reporter) { e.Reason = "Lost" }, false},
		"another reporter":      {func(_ *Event, r *reporter) { r.controller = "d" }, false},
		"a successor":           {func(e *Event, _ *reporter) { e.Regarding.UID = "other" }, false},
		"parts that flow along": {func(e *Event, _ *reporter) { e.Reason, e.Key = "Brok", "en1" }, false},
	}
	for what, tc := range cases {
		t.Run(what, func(t *testing.T) {
			e, by := event("w", "1"), reporter{controller: "c", instance: "one"}
			tc.change(&e, &by)
			if got := e.name(by); (got == name) != tc.same {
				t.Errorf("%q and %q", name, got)
			}
		})
	}
}

func TestLongNamesStayValid(t *testing.T) {
	for _, name := range []string{strings.Repeat("a", 253), strings.Repeat("a", 235) + "-" + strings.Repeat("b", 17), strings.Repeat("a.", 126) + "a"} {
		e := event(name, "1")
		got := e.name(reporter{controller: "c"})
		if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
			t.Errorf("%q: %v", got, problems)
		}
	}
}

func TestOneLine(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"a sentence":                     {"exit code 3", "exit code 3"},
		"lines":                          {"exit code 3\ncannot open x\r\n\n  giving up\n", "exit code 3; cannot open x; giving up"},
		"what moves a cursor":            {"a\x1b[2Jb\tc\bd", "a [2Jb c d"},
		"what turns the text around":     {"a\u202eb", "a b"},
		"what is no text":                {"a\xffb", "a\uFFFDb"},
		"nothing":                        {"\n", ""},
		"other scripts and their spaces": {"übergröße 中文", "übergröße 中文"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := oneLine(tc.text); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add("exit code 3\ncannot open x")
	f.Add(strings.Repeat("ä\n", 1000))
	f.Fuzz(func(t *testing.T, text string) {
		got := oneLine(text)
		if len(got) > maxNote || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	})
}

func TestWords(t *testing.T) {
	if got := Words("4 Pods: 3 full (runs 4/4)"); got != " Pods:  full (runs /)" {
		t.Errorf("got %q", got)
	}
}
