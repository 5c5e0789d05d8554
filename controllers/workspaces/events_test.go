package workspaces

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"kruntimes.io/kruntimes/telemetry/events"
)

func TestEndEvents(t *testing.T) {
	about := corev1.ObjectReference{APIVersion: "workspaces.kruntimes.io/v1alpha1", Kind: "PersistentWorkspace", Namespace: "ns", Name: "ws", UID: "ws-uid"}
	lost := func(kind, note string) []events.Event {
		return []events.Event{{Regarding: about, Type: kind, Reason: "PodLost", Action: "Losing", Key: "Lost",
			Note: "the Pod a is gone, and the directory with it: " + note}}
	}
	released := func(note string) []events.Event {
		return []events.Event{{Regarding: about, Type: "Normal", Reason: "Released", Action: "Releasing", Key: "Released", Note: note}}
	}
	for name, tc := range map[string]struct {
		world *world
		want  []events.Event
	}{
		"a workspace that waits":        {pending(), nil},
		"a workspace that is bound":     {bound(), nil},
		"a loss":                        {bound().gone().next(), lost("Warning", "Runs that refer to this workspace wait until it is replaced")},
		"a loss that matters to no one": {bound().deleted().gone().next(), lost("Normal", "nothing is left to remove")},
		"released after its time":       {bound().ttl(0).next(), released("nobody has used the workspace for its time to live: it is deleted with its directory")},
		"released by a deletion":        {bound().deleted().next(), released("the workspace is deleted, and its directory on Pod a with it")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, endEvents(tc.world.workspace)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStuckEvents tells of a cleanup that is stuck when it becomes so, and once more after the manager was restarted.
func TestStuckEvents(t *testing.T) {
	waiting := bound().deleted().next()
	released := waiting.workspace
	stuck := waiting.at(now.Add(hour)).next().workspace
	worse := waiting.change(notReady).next().workspace
	reasons := func(told []events.Event) string {
		text := ""
		for _, e := range told {
			text += e.Type + " " + e.Reason + " "
		}
		return text
	}
	for name, tc := range map[string]struct {
		got  []events.Event
		want string
	}{
		"it becomes stuck":                   {changeEvents(released, stuck), "Warning CleanupStuck "},
		"it is stuck, and the Pod not ready": {changeEvents(stuck, worse), ""},
		"it is released":                     {changeEvents(bound().workspace, released), "Normal Released "},
		"a manager finds it released":        {foundEvents(released, now), "Normal Released "},
		"a manager finds it stuck":           {foundEvents(stuck, now.Add(hour)), "Warning CleanupStuck "},
	} {
		if got := reasons(tc.got); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestMissed(t *testing.T) {
	w := bound().gone().next().workspace
	for ago, want := range map[time.Duration]bool{0: true, 4 * time.Minute: true, 5 * time.Minute: false, time.Hour: false} {
		if got := missed(w, now.Add(ago)); got != want {
			t.Errorf("a loss %s ago: got %t, want %t", ago, got, want)
		}
	}
	if missed(pending().workspace, now) {
		t.Error("a workspace of which nothing was written yet")
	}
}
