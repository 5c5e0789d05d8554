package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Events returns what is told of the objects of a namespace, by kind and name, as "Type Reason: note", with " (n times)" at
// its end where it is counted.
func (c *Cluster) Events(ctx context.Context, namespace string) (map[string][]string, error) {
	var list eventsv1.EventList
	if err := c.admin.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
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

// ExpectEvents waits until exactly this is told of the objects of a namespace, in whatever order: what happens at once is told
// by several parts side by side. Each text is changed by edit first, for what cannot be foreseen, such as times; nil changes
// nothing.
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
		last = cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare))
		return last == "", nil
	})
}
