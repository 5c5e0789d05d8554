package describe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

const (
	// labelWidth is where the values of a page begin.
	labelWidth = 14
	// lineWidth bounds the lines of foreign text.
	lineWidth = 160
)

// page gathers the text of a description.
type page struct {
	strings.Builder
	now time.Time
}

// field writes one labelled value; an empty one is left out. Further lines of a value are indented below the first.
func (p *page) field(label, value string) {
	if value == "" {
		return
	}
	for i, line := range strings.Split(strings.TrimRight(value, "\n"), "\n") {
		if i == 0 {
			fmt.Fprintf(p, "%-*s%s\n", labelWidth, label+":", cli.OneLine(line, lineWidth))
			continue
		}
		fmt.Fprintf(p, "%s%s\n", strings.Repeat(" ", labelWidth), cli.OneLine(line, lineWidth))
	}
}

// section begins a part with a heading of its own.
func (p *page) section(title string) { fmt.Fprintf(p, "\n%s\n", title) }

// line writes one indented line of a section, whatever is in it.
func (p *page) line(format string, args ...any) {
	fmt.Fprintf(p, "  %s\n", cli.OneLine(fmt.Sprintf(format, args...), lineWidth))
}

// table writes rows, indented, below a section.
func (p *page) table(header []string, rows [][]string) {
	out := cli.NewTable(p)
	header[0] = "  " + header[0]
	cli.Row(out, header...)
	for _, row := range rows {
		if row[0] == "" {
			row[0] = "-"
		}
		row[0] = "  " + row[0]
		cli.Row(out, row...)
	}
	out.Flush()
}

// ago writes a time for people: the time itself, and how long ago it was.
func (p *page) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), duration.HumanDuration(max(p.now.Sub(t), 0)))
}

// since writes only how long ago a time was.
func (p *page) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(p.now.Sub(t), 0))
}

// conditions writes the table of conditions.
func (p *page) conditions(conditions []metav1.Condition) {
	if len(conditions) == 0 {
		return
	}
	p.section("Conditions")
	var rows [][]string
	for _, c := range conditions {
		rows = append(rows, []string{c.Type, string(c.Status), c.Reason, p.since(c.LastTransitionTime.Time), workflowruns.Flat(c.Message, lineWidth)})
	}
	p.table([]string{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}, rows)
}

// events writes the table of events, the newest last. Without any it writes nothing: that is the usual case.
func (p *page) events(events []corev1.Event, err error) {
	if err != nil {
		p.section("Events")
		p.line("(cannot be read: %v)", err)
		return
	}
	if len(events) == 0 {
		return
	}
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return cmp.Or(eventTime(a).Compare(eventTime(b)), strings.Compare(a.Name, b.Name))
	})
	p.section("Events")
	var rows [][]string
	for _, e := range events {
		count := ""
		switch {
		case e.Series != nil && e.Series.Count > 1:
			count = fmt.Sprintf(" (%d times)", e.Series.Count)
		case e.Count > 1:
			count = fmt.Sprintf(" (%d times)", e.Count)
		}
		rows = append(rows, []string{p.since(eventTime(e)), e.Type, e.Reason, workflowruns.Flat(e.Message, lineWidth) + count})
	}
	p.table([]string{"AGE", "TYPE", "REASON", "MESSAGE"}, rows)
}

// eventTime is when an event happened last, whichever of the two event APIs wrote it.
func eventTime(e corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
