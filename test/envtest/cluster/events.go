package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Events returns what is told of the objects of a namespace, by kind and name, as "Type Reason: note", with " (n times)" at
// its end where it is counted. The events about an object are in the order in which they were told.
func (c *Cluster) Events(ctx context.Context, namespace string) (map[string][]string, error) {
	var list eventsv1.EventList
	if err := c.admin.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	told := map[string][]string{}
	for _, e := range list.Items {
		text := fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note)
		if e.Series != nil {
			text += fmt.Sprintf(" (%d times)", e.Series.Count)
		}
		about := strings.ToLower(e.Regarding.Kind) + "/" + e.Regarding.Name
		told[about] = append(told[about], text)
	}
	return told, nil
}

// ExpectEvents waits until exactly this is told of the objects of a namespace. Each text is changed by edit first, for what
// cannot be foreseen, such as times; nil changes nothing.
func (c *Cluster) ExpectEvents(tb testing.TB, namespace string, want map[string][]string, edit func(string) string) {
	tb.Helper()
	last := ""
	defer func() {
		if tb.Failed() {
			tb.Logf("events (-want +got):\n%s", last)
		}
	}()
	Eventually(tb, "the events", func(ctx context.Context) (bool, error) {
		got, err := c.Events(ctx, namespace)
		if err != nil {
			return false, err
		}
		for _, texts := range got {
			for i := range texts {
				if edit != nil {
					texts[i] = edit(texts[i])
				}
			}
		}
		last = cmp.Diff(want, got)
		return last == "", nil
	})
}
